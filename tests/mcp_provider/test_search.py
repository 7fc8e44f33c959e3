"""`search` and `fetch`, in ChatGPT's shapes: what this person may find, and nothing of anybody else."""

import json
from typing import Any

import pytest

from core.documents import Documents
from flows.caller import Role
from policy.addresses import Address, Kind, find_address
from policy.search import Entry, Found, best
from tests.mcp_provider.shop import VERSIONS, Shop, Wire, runs_of
from tests.support.raw_mcp import MODERN


def search(agent: Wire, query: str) -> list[dict[str, str]]:
    return list(agent.call("search", {"query": query}).data["results"])


def found(agent: Wire, query: str) -> list[str]:
    return [one["id"] for one in search(agent, query)]


def a_run(agent: Wire) -> str:
    agent.call("orders_list", {"limit": 1})
    return str(runs_of(agent, "orders.list")[0]["runId"])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_exactly_one_text_with_the_very_json(shop: Shop, version: str) -> None:
    agent = shop.agent().as_version(version)
    for tool, given in (("search", {"query": "refund"}), ("fetch", {"id": "countersign://docs/connect"})):
        result = agent.call(tool, given).result

        [content] = result["content"]
        assert content["type"] == "text"
        assert version < "2025-06-18" or json.loads(content["text"]) == result["structuredContent"]
        assert result["isError"] is False


def test_the_shapes_are_those_that_research_clients_ask_for(shop: Shop) -> None:
    agent = shop.agent()
    results = agent.call("search", {"query": "refund an order"}).data
    fetched = agent.call("fetch", {"id": results["results"][0]["id"]}).data

    assert set(results) == {"results"}
    assert results["results"][0] == {
        "id": "countersign://flows/orders.refund",
        "title": "Refund an order",
        "url": "http://localhost:6535/flows#flow-orders_refund",
    }
    assert set(fetched) == {"id", "title", "text", "url", "metadata"}
    assert all(isinstance(value, str) for value in fetched["metadata"].values())
    assert {name: fetched[name] for name in ("id", "title", "url")} == results["results"][0]


@pytest.mark.parametrize("query", ["connect a client", "How do I connect Claude Code to this server?"])
def test_a_question_finds_the_page_that_answers_it(shop: Shop, query: str) -> None:
    assert found(shop.agent(), query)[0] == "countersign://docs/connect"


def test_nothing_is_found_by_words_that_are_nowhere(shop: Shop) -> None:
    assert found(shop.agent(), "zzyzx") == found(shop.agent(), "?!") == []


def test_a_run_is_found_and_read_by_its_person_and_who_reviews(shop: Shop) -> None:
    alice, bob, rita = shop.agent(), shop.agent("bob"), shop.agent("rita", role=Role.REVIEWER)
    run_id = a_run(alice)
    wanted = f"countersign://runs/{run_id}"

    fetched = alice.call("fetch", {"id": wanted}).data

    assert found(alice, run_id) == [wanted]
    assert json.loads(fetched["text"]) == alice.call("traces_get", {"runId": run_id}).data
    assert fetched["url"] == f"http://localhost:6535/runs/{run_id}"
    assert fetched["metadata"]["status"] == "done"
    assert found(bob, run_id) == found(rita, run_id) == []
    assert "unknown_resource" in str(bob.call("fetch", {"id": wanted}).result["content"])
    assert rita.call("fetch", {"id": wanted}).data["id"] == wanted


def test_what_the_grant_may_not_read_is_neither_found_nor_in_what_is_read(shop: Shop) -> None:
    run_id = a_run(shop.agent("eve"))
    agent = shop.agent("eve", only=["mcp:manifest:read"])

    flow = json.loads(agent.call("fetch", {"id": "countersign://flows/orders.list"}).data["text"])

    assert found(agent, run_id) == []
    assert agent.call("fetch", {"id": f"countersign://runs/{run_id}"}).result["isError"] is True
    assert (flow["flowId"], "input" in flow, "seen" in flow) == ("orders.list", False, False)


def test_a_viewer_finds_no_flow_that_no_consent_could_give(shop: Shop) -> None:
    viewer = shop.agent("vic", role=Role.VIEWER)

    assert "countersign://flows/orders.refund" not in found(viewer, "refund an order")
    assert viewer.call("fetch", {"id": "countersign://flows/orders.refund"}).result["isError"] is True


@pytest.mark.parametrize(
    "wanted", ["x", "countersign://docs/../app", "countersign://flows/no.such", "file:///etc/passwd"]
)
def test_what_isnt_there_is_said_to_be_unknown(shop: Shop, wanted: str) -> None:
    result = shop.agent().call("fetch", {"id": wanted}).result

    assert result["isError"] is True
    assert json.loads(result["content"][1]["text"])["code"] == "unknown_resource"


@pytest.mark.parametrize("given", [{}, {"query": ""}, {"query": "x" * 501}, {"query": 5}, {"query": "x", "more": 1}])
def test_other_arguments_are_refused(shop: Shop, given: dict[str, Any]) -> None:
    result = shop.agent().call("search", given).result

    assert "invalid_arguments" in str(result["content"])


def test_the_manifest_can_be_fetched_and_says_what_is_granted(shop: Shop) -> None:
    fetched = shop.agent().call("fetch", {"id": "countersign://manifest"}).data

    assert "flows" in json.loads(fetched["text"])
    assert fetched["url"] == "http://localhost:6535/flows"


def test_each_address_that_is_found_leads_to_a_page(shop: Shop) -> None:
    run_id = a_run(shop.agent("pia"))
    reader = shop.house.reader("quinn@example.test", Role.ADMIN)

    for query in ("refund", "connect a client"):
        for one in search(shop.agent("pia"), query):
            assert reader.open(one["url"].removeprefix("http://localhost:6535").partition("#")[0]).status == 200
    assert reader.open(f"/runs/{run_id}").status == 200
    assert 'id="flow-orders_refund"' in reader.browser.get("/flows", base_url="http://localhost:6535").text


def test_a_rare_word_counts_more_than_common_ones_and_a_title_more_than_a_text() -> None:
    def entry(name: str, title: str, text: str) -> Entry:
        return Entry(Found(id=name, title=title, url=""), text)

    shelf = [entry(f"common{number}", "Things", "the order of the day") for number in range(5)]
    shelf += [
        entry("rare", "Things", "the zebra"),
        entry("title", "Zebra", "an animal"),
        entry("none", "Nothing", "at all"),
    ]

    ranked = [one.id for one in best("the ZEBRA order", shelf)]

    assert ranked == ["title", "rare", *(f"common{number}" for number in range(5))]


def test_an_address_has_one_spelling() -> None:
    assert find_address("countersign://flows/orders.list") == Address(Kind.FLOW, "orders.list")
    assert str(find_address("countersign://manifest")) == "countersign://manifest"
    assert [find_address(f"countersign://{text}") for text in ("Flows/x", "flows/X", "flows/%78", "manifest/x")] == [
        None
    ] * 4


def test_only_pages_are_documents(tmp_path: Any) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "inner.md").write_text("# Inner")
    (tmp_path / "secret.key").write_text("x")
    (tmp_path / "page.md").write_text("# A page\n\nwords")
    documents = Documents(tmp_path)

    assert [(page.name, page.title) for page in documents] == [("page", "A page")]
    assert [documents.find(name) for name in ("inner", "deep/inner", "secret", "../page", "page.md", "")] == [None] * 6


def test_the_results_fit_what_the_list_says(shop: Shop) -> None:
    tools = {tool["name"]: tool for tool in shop.agent().as_version(MODERN).request("tools/list").result["tools"]}

    assert tools["search"]["annotations"]["readOnlyHint"] is tools["fetch"]["annotations"]["readOnlyHint"] is True
    assert tools["fetch"]["outputSchema"]["properties"]["metadata"]["additionalProperties"] == {"type": "string"}
    assert tools["search"]["inputSchema"]["required"] == ["query"]
