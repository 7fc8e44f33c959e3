"""A catalogue that is too large to be listed: its tools are found by words and called by action_invoke."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import mcp_for
from tests.support.raw_mcp import LEGACY, MODERN, RawMcp
from tests.support.server import ALICE, VERA, Person

ORDER = {"order_id": 1042}


@pytest.fixture(scope="module")
def large(new_instance: Any) -> Iterator[Served]:
    """The demo shop, as a server that lists three flows at most."""
    with Served(new_instance(), COUNTERSIGN_LISTED_FLOWS="3") as running:
        yield running


def agent_of(served: Served, person: Person = ALICE, *tick: str) -> RawMcp:
    browser = FormBrowser(served.base_url)
    browser.sign_in(person.email, person.password)
    return mcp_for(browser, tick=tick)


@pytest.fixture(scope="module")
def agent(large: Served) -> RawMcp:
    return agent_of(large)


def search(agent: RawMcp, **arguments: Any) -> list[dict[str, Any]]:
    return list(agent.call("tools_search", arguments).data["tools"])


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_no_flow_is_listed_and_each_is_found(agent, era):
    listed = [tool["name"] for tool in agent.as_version(era).request("tools/list").result["tools"]]
    found = search(agent.as_version(era), limit=50, sources=["flow"])

    assert "tools_search" in listed
    assert not {"orders_get", "orders_refund", "stock_adjust"} & set(listed)
    assert {"orders_get", "orders_refund", "stock_adjust"} <= {tool["name"] for tool in found}


def test_what_fits_best_comes_first_with_all_that_a_call_needs(agent):
    [first, *_] = search(agent, query="give the money of an order back, a refund")

    assert first["name"] == "orders_refund"
    assert first.keys() == {"toolId", "name", "title", "description", "inputSchema", "granted"}
    assert first["granted"] is False
    assert first["inputSchema"]["properties"].keys() >= {"order_id", "reason"}
    assert not {"confirmToken", "requestId"} & first["inputSchema"]["properties"].keys()


@pytest.mark.parametrize(
    ("arguments", "most"), [({}, 10), ({"limit": 2}, 2), ({"query": "zzz"}, 0), ({"sources": ["mcp", "node"]}, 0)]
)
def test_as_many_as_were_asked_for(agent, arguments, most):
    found = search(agent, **arguments)

    assert len(found) <= most
    assert found or most == 0


@pytest.mark.parametrize("bad", [{"limit": 51}, {"limit": 0}, {"sources": ["x"]}, {"query": "x" * 201}, {"x": 1}])
def test_what_can_not_be_asked_is_refused(agent, bad):
    assert agent.call("tools_search", bad).result["isError"]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_what_was_found_is_called_by_its_tool_id(agent, era):
    found = next(tool for tool in search(agent, query="order", limit=50) if tool["name"] == "orders_get")
    by_tool = agent.as_version(era).call("action_invoke", {"toolId": found["toolId"], "args": ORDER})
    by_flow = agent.as_version(era).call("action_invoke", {"flowId": "orders.get", "args": ORDER})

    assert by_tool.data["status"] == "done"
    assert by_tool.data["result"] == by_flow.data["result"]


@pytest.mark.parametrize(
    "tool_id", ["", "flow:", "flow:nope", "builtin:orders.get", "orders.get", "\x00", "x" * 5000, 5]
)
def test_a_tool_id_that_was_never_handed_out_names_nothing(agent, tool_id):
    answer = agent.call("action_invoke", {"toolId": tool_id, "args": ORDER})

    assert "error" in answer.json or answer.result["isError"]


def test_a_flow_is_named_once(agent):
    answer = agent.call("action_invoke", {"toolId": "flow:orders.get", "flowId": "orders.get", "args": ORDER})

    assert answer.result["isError"]


def test_finding_a_tool_is_no_right_to_call_it(agent):
    found = next(tool for tool in search(agent, query="refund") if tool["name"] == "orders_refund")
    answer = agent.call("action_invoke", {"toolId": found["toolId"], "args": ORDER | {"reason": "x"}})

    assert (answer.status, answer.error["data"]["code"]) == (403, "insufficient_scope")


def test_nobody_finds_what_their_role_can_never_hold(large):
    names = {tool["name"] for tool in search(agent_of(large, VERA), limit=50)}

    assert "orders_get" in names
    assert not {"orders_refund", "stock_adjust"} & names


def test_a_small_catalogue_has_no_search_of_tools(server):
    small = agent_of(server)  # type: ignore[arg-type]
    listed = {tool["name"] for tool in small.request("tools/list").result["tools"]}

    assert "orders_get" in listed
    assert "tools_search" not in listed
    assert small.call("tools_search", {}).error["data"]["code"] == "unknown_tool"
