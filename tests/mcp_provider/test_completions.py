"""Completion: what may stand for an argument, of what the grant may see, and never of other people's."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from flows.caller import Role
from tests.mcp_provider.house import many_flows
from tests.mcp_provider.shop import VERSIONS, Shop, Wire, open_shop, runs_of
from tests.support.raw_mcp import LEGACY, MODERN, RawAnswer

RUN, FLOW, PAGE = (
    {"type": "ref/resource", "uri": f"countersign://{uri}"} for uri in ("runs/{runId}", "flows/{flowId}", "docs/{name}")
)
EXPLAIN = {"type": "ref/prompt", "name": "explain_run"}


def complete(agent: Wire, ref: Any, name: str, value: str = "") -> RawAnswer:
    return agent.request("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}})


def values(agent: Wire, ref: Any, name: str, value: str = "") -> list[str]:
    found = complete(agent, ref, name, value).result["completion"]
    assert (found["total"], found["hasMore"]) == (len(found["values"]), False)
    return list(found["values"])


def a_run(agent: Wire) -> str:
    agent.call("orders_list", {"limit": 1})
    return str(runs_of(agent, "orders.list")[0]["runId"])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_revision_completes(shop: Shop, version: str) -> None:
    agent = shop.agent().as_version(version)
    answer = complete(agent, FLOW, "flowId", "orders.")

    validate_server_result("completion/complete", version, answer.result)
    assert set(answer.result["completion"]["values"]) == {"orders.list", "orders.get", "orders.refund"}


def test_pages_and_the_arguments_of_prompts_are_completed_by_prefix(shop: Shop) -> None:
    agent = shop.agent()

    assert values(agent, PAGE, "name", "con") == ["connect"]
    assert values(agent, {"type": "ref/prompt", "name": "prepare_call"}, "flowId", "orders.r") == ["orders.refund"]
    assert values(agent, {"type": "ref/prompt", "name": "prepare_call"}, "wish", "re") == []
    assert values(agent, FLOW, "flowId", "zebra") == []


def test_one_s_own_runs_are_offered_and_nobody_else_s_even_to_who_sees_everybody(shop: Shop) -> None:
    alice, bob, rita = shop.agent(), shop.agent("bob"), shop.agent("rita", role=Role.REVIEWER)
    his, hers = a_run(bob), a_run(alice)

    assert hers in values(alice, RUN, "runId", "run_")
    assert values(bob, EXPLAIN, "runId") == [his]
    assert values(bob, EXPLAIN, "runId", hers) == []
    assert values(rita, RUN, "runId") == []


def test_completing_is_no_run_and_offers_none_of_looking_at_runs(shop: Shop) -> None:
    agent = shop.agent("tom")
    run_id = a_run(agent)
    before = agent.call("traces_list", {"limit": 200}).data["runs"]

    assert values(agent, RUN, "runId") == [run_id]
    assert len(agent.call("traces_list", {"limit": 200}).data["runs"]) == len(before) + 1


@pytest.mark.parametrize(("ref", "name"), [(RUN, "runId"), (FLOW, "flowId"), (EXPLAIN, "runId")])
def test_without_the_right_to_read_there_is_nothing_to_offer(shop: Shop, ref: Any, name: str) -> None:
    full = shop.agent("eve")
    a_run(full)

    assert values(full, ref, name)
    assert values(shop.agent("eve", only=["mcp:manifest:read"]), ref, name) == []


def test_a_viewer_is_offered_the_flows_of_their_role(shop: Shop) -> None:
    assert values(shop.agent("vic", role=Role.VIEWER), FLOW, "flowId", "orders.") == ["orders.list", "orders.get"]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ({"type": "ref/prompt", "name": "no_such"}, "runId"),
        (EXPLAIN, "flowId"),
        (RUN, "flowId"),
        ({"type": "ref/resource", "uri": "countersign://manifest"}, "runId"),
        ({"type": "ref/resource", "uri": "file:///{path}"}, "path"),
        ({"type": "ref/other", "name": "x"}, "x"),
        (None, "x"),
    ],
)
def test_what_has_no_such_argument_is_refused(shop: Shop, ref: Any, name: str, version: str) -> None:
    answer = complete(shop.agent().as_version(version), ref, name)

    assert (answer.status, answer.error["code"]) == (200, -32602)


def test_at_most_a_hundred_are_given_and_all_are_counted(tmp_path: Path) -> None:
    with open_shop(tmp_path, catalogue=many_flows(250)) as shop:
        found = complete(shop.agent(), FLOW, "flowId", "list.n").result["completion"]

    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)
