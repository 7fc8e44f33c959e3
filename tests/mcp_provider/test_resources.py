"""Resources: what a principal may read by its address is what the built-in flow answers, and nothing else is there."""

import base64
import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from flows.caller import Role
from tests.mcp_provider.house import make_house, many_flows
from tests.mcp_provider.shop import VERSIONS, Shop, Wire, open_shop, runs_of
from tests.support.raw_mcp import LEGACY, MODERN, RawAnswer

LISTS = {"resources/list": "resources", "resources/templates/list": "resourceTemplates"}


def read(agent: Wire, uri: str) -> RawAnswer:
    """Read an address; in a header it is written as the protocol wants what isn't plain (W22)."""
    encoded = f"=?base64?{base64.b64encode(uri.encode()).decode()}?="
    headers = {"Mcp-Name": encoded} if agent.version == MODERN else {}
    return agent.request("resources/read", {"uri": uri}, headers=headers)


def data_at(agent: Wire, uri: str) -> dict[str, Any]:
    [content] = read(agent, uri).result["contents"]
    assert (content["uri"], content["mimeType"]) == (uri, "application/json")
    return dict(json.loads(content["text"]))


def listed(agent: Wire, method: str = "resources/list") -> list[dict[str, Any]]:
    return list(agent.request(method).result[LISTS[method]])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_revision_lists_and_reads_in_its_own_words(shop: Shop, version: str) -> None:
    agent = shop.agent().as_version(version)

    for method in LISTS:
        answer = agent.request(method)
        validate_server_result(method, version, answer.result)
        assert all(("title" in one) is (version >= "2025-06-18") for one in answer.result[LISTS[method]])
        assert (answer.result.get("cacheScope") == "private") is (version == MODERN)
    answer = read(agent, "countersign://manifest")
    validate_server_result("resources/read", version, answer.result)
    assert ("ttlMs" in answer.result) is (version == MODERN)
    assert answer.result.get("ttlMs", 0) == 0
    assert answer.result.get("cacheScope", "private") == "private"


def test_the_list_has_the_manifest_each_flow_and_each_page_and_every_one_can_be_read(shop: Shop) -> None:
    agent = shop.agent()
    found = {one["uri"]: one for one in listed(agent)}

    assert next(iter(found)) == "countersign://manifest"
    assert {"countersign://flows/orders.list", "countersign://flows/orders.refund"} < set(found)
    assert found["countersign://docs/connect"]["title"] == "Connect a client"
    for uri, one in found.items():
        [content] = read(agent, uri).result["contents"]
        assert content["mimeType"] == one["mimeType"]
        assert content["text"]


def test_the_templates_name_flows_runs_and_pages(shop: Shop) -> None:
    assert [one["uriTemplate"] for one in listed(shop.agent(), "resources/templates/list")] == [
        "countersign://flows/{flowId}",
        "countersign://runs/{runId}",
        "countersign://docs/{name}",
    ]


def test_what_is_read_is_the_answer_of_the_built_in_flow(shop: Shop) -> None:
    agent = shop.agent()
    agent.call("orders_list", {"limit": 1})
    run_id = runs_of(agent, "orders.list")[0]["runId"]

    manifest = agent.call("manifest_get").data
    schema = agent.call("schema_get", {"flowId": "orders.refund"}).data
    effects = agent.call("effects_get", {"flowId": "orders.refund"}).data
    flow = data_at(agent, "countersign://flows/orders.refund")

    assert data_at(agent, "countersign://manifest") == manifest
    assert data_at(agent, f"countersign://runs/{run_id}") == agent.call("traces_get", {"runId": run_id}).data
    entry = next(one for one in manifest["flows"] if one["flowId"] == "orders.refund")
    assert flow == {**entry, **schema, **effects}
    assert (flow["rule"], flow["granted"]) == ("human", False)
    [page] = read(agent, "countersign://docs/connect").result["contents"]
    assert page["mimeType"] == "text/markdown"
    assert page["text"].startswith("# Connect a client")


def test_reading_is_a_run_of_the_flow_on_record(shop: Shop) -> None:
    agent = shop.agent("mia")
    agent.call("orders_list", {"limit": 1})
    run_id = runs_of(agent, "orders.list")[0]["runId"]

    read(agent, f"countersign://runs/{run_id}")

    assert [one["status"] for one in runs_of(agent, "traces.get")] == ["done"]


UNKNOWN = [
    "",
    "manifest",
    "countersign:",
    "countersign://",
    "countersign://manifest/",
    "countersign://manifest?x=1",
    "countersign://manifest\n",
    "COUNTERSIGN://manifest",
    "countersign://flows",
    "countersign://flows/",
    "countersign://flows/no.such",
    "countersign://flows/orders.list/",
    "countersign://flows/orders%2elist",
    "countersign://flows/orders.list#x",
    "countersign://flows/orders.list\0",
    "countersign://flows/orders.list?flowId=orders.refund",
    "countersign://runs/run_00000000000000000000000000000000",
    "countersign://runs/" + "r" * 41,
    "countersign://docs/../README",
    "countersign://docs/..%2f..%2fREADME",
    "countersign://docs/%2fetc%2fpasswd",
    "countersign://docs/decisions/0001-seams",
    "countersign://docs/connect.md",
    "file:///etc/passwd",
    "http://localhost:6535/",
    "javascript:alert(1)",
    "countersign://docs/" + "a" * 10_000,
    "countersign://flows/ořders.list",
]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("uri", UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_isnt_there_is_unknown_in_each_era_s_words(shop: Shop, uri: str, version: str) -> None:
    answer = read(shop.agent().as_version(version), uri)

    assert (answer.status, answer.error["code"]) == (200, -32602 if version == MODERN else -32002)
    assert answer.error["data"]["uri"] == uri
    assert answer.error["data"]["code"] == "unknown_resource"


@pytest.mark.parametrize("params", [{}, {"uri": None}, {"uri": 5}, {"uri": ["countersign://manifest"]}])
def test_an_address_of_another_type_is_refused(shop: Shop, params: Any) -> None:
    assert shop.agent().as_version(LEGACY).request("resources/read", params).error["code"] == -32602


def test_anothers_run_is_as_unknown_as_none_except_to_who_reviews(shop: Shop) -> None:
    alice, bob, rita = shop.agent(), shop.agent("bob"), shop.agent("rita", role=Role.REVIEWER)
    alice.call("orders_list", {"limit": 1})
    uri = f"countersign://runs/{runs_of(alice, 'orders.list')[0]['runId']}"

    foreign, none = read(bob, uri).error, read(bob, uri[:-4] + "0000").error

    assert {**foreign, "data": {**foreign["data"], "uri": "", "reference": ""}} == {
        **none,
        "data": {**none["data"], "uri": "", "reference": ""},
    }
    assert data_at(rita, uri)["flowId"] == "orders.list"


def test_a_missing_right_is_the_same_403_as_that_of_the_tool(shop: Shop) -> None:
    agent = shop.agent("eve", only=["mcp:manifest:read"])

    answers = [read(agent, f"countersign://{name}") for name in ("flows/orders.list", "runs/run_1")]

    for answer, scope in zip(answers, ("mcp:schema:read", "mcp:traces:read"), strict=True):
        assert answer.status == 403
        assert scope in answer.headers["www-authenticate"]
        assert answer.error["data"]["missingScopes"] == [scope]
        assert answer.error["data"]["_meta"]["mcp/www_authenticate"] == [answer.headers["www-authenticate"]]
    assert listed(agent)[0]["uri"] == "countersign://manifest"
    assert {one["uri"].split("/")[2] for one in listed(agent)} == {"manifest", "docs"}
    assert [one["name"] for one in listed(agent, "resources/templates/list")] == ["docs"]


def test_a_grant_without_any_right_sees_the_manifest_listed_and_is_told_what_it_lacks(shop: Shop) -> None:
    agent = shop.agent("noa", only=["mcp:flows:read"])

    assert [one["uri"] for one in listed(agent)] == ["countersign://manifest"]
    assert read(agent, "countersign://manifest").status == 403


def test_a_flow_that_the_role_can_never_hold_is_unknown_and_unlisted(shop: Shop) -> None:
    viewer = shop.agent("vic", role=Role.VIEWER)

    assert "countersign://flows/orders.refund" not in {one["uri"] for one in listed(viewer)}
    assert read(viewer, "countersign://flows/orders.refund").error["data"]["code"] == "unknown_resource"


def test_a_bad_address_is_on_record_as_refused_without_its_text() -> None:
    house = make_house()
    uri = "file:///etc/shadow"

    answer = house.legacy("resources/read", {"uri": uri})

    assert answer.error["code"] == -32002
    assert house.door.refused == [("resources/read", "unknown_resource", None)]


def test_a_long_list_has_pages_that_belong_to_their_operator_and_list(tmp_path: Any) -> None:
    with open_shop(tmp_path, catalogue=many_flows(250)) as shop:
        alice, bob = shop.agent(), shop.agent("bob")
        first = alice.request("resources/list").result
        rest = alice.request("resources/list", {"cursor": first["nextCursor"]}).result

        assert len(first["resources"]) == 200
        assert len({one["uri"] for one in first["resources"] + rest["resources"]}) == 200 + len(rest["resources"]) > 250
        assert "nextCursor" not in rest
        for agent, method, cursor in (
            (bob, "resources/list", first["nextCursor"]),
            (alice, "tools/list", first["nextCursor"]),
            (alice, "resources/list", "bogus"),
            (alice, "resources/templates/list", ""),
        ):
            assert agent.request(method, {"cursor": cursor}).error["data"]["code"] == "invalid_cursor"
