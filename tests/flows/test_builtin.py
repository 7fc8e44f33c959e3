"""Our own flows about flows and runs: what each person's role shows, in camelCase, in pages."""

from typing import Any

import jsonschema
import pytest

from core.seal import Sealer
from flows.builtin import builtin_flows
from flows.caller import Caller, Role
from flows.models import run
from flows.operation import Flow, Source
from flows.registry import Registry
from flows.schema import output_schema
from tests.flows.house import House, SetClock, add, caller, get_counter

pytestmark = pytest.mark.db
ADA, BOB, RITA = caller(), caller("op_bob"), caller("op_rita", role=Role.REVIEWER)


class Shelf:
    """The built-in flows on a house, called by anybody."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.sealer = Sealer(("k" * 32,), house.clock)
        own: list[Flow] = builtin_flows(lambda: self.registry, house.traces, self.sealer)
        self.registry = Registry([*own, get_counter, add])

    def call(self, flow_id: str, raw: dict[str, Any] | None = None, who: Caller = ADA) -> dict[str, Any]:
        """Give the result, which must fit the published schema, or the code of the failure."""
        declared = self.registry.get(flow_id)
        ran = self.house.read(declared, raw, caller=who)
        if ran.result is None:
            return {"code": ran.code}
        jsonschema.validate(ran.result, output_schema(declared.result))
        return ran.result


@pytest.fixture
def shelf(house: House) -> Shelf:
    """The built-in flows."""
    return Shelf(house)


def test_they_are_flows_like_any_other_with_groups_of_their_own(shelf: Shelf) -> None:
    own = [flow for flow in shelf.registry if flow.source is Source.BUILTIN]

    assert [flow.tool_name for flow in own] == ["schema_get", "effects_get", "traces_list", "traces_get"]
    assert {scope for flow in own for group in flow.needs for scope in group} == {
        "mcp:schema:read",
        "mcp:effects:read",
        "mcp:traces:read",
        "console:manifest:read",
        "console:runs:read",
    }
    assert all(flow.only_reads for flow in own)


def test_a_schema_names_arguments_result_and_errors(shelf: Shelf) -> None:
    found = shelf.call("schema.get", {"flowId": "counter.add"})

    assert (found["flowId"], found["version"]) == ("counter.add", 1)
    assert found["input"]["properties"] == {"by": {"default": 1, "type": "integer"}}
    assert found["output"]["required"] == ["value"]
    assert found["errors"] == [{"code": "too_much", "message": "The counter can't hold that much."}]


@pytest.mark.parametrize("flow_id", ["schema.get", "effects.get"])
def test_an_unknown_flow_is_a_declared_failure(shelf: Shelf, flow_id: str) -> None:
    assert shelf.call(flow_id, {"flowId": "counter.drop"}) == {"code": "unknown_flow"}


def test_effects_are_the_declared_ones_and_those_seen_in_runs_that_one_may_see(shelf: Shelf) -> None:
    shelf.house.write(add)

    ada, bob, rita = (shelf.call("effects.get", {"flowId": "counter.add"}, who) for who in (ADA, BOB, RITA))

    assert ada["declared"] == [{"verb": "write", "target": "counter"}, {"verb": "send", "target": "email"}]
    assert {(one["verb"], one["target"], one["runs"]) for one in ada["seen"]} == {
        ("read", "counter", 1),
        ("send", "email", 1),
        ("write", "counter", 1),
    }
    assert (bob["seen"], rita["seen"]) == ([], ada["seen"])


def test_a_run_is_shown_with_its_steps_to_its_person_and_to_a_reviewer_only(shelf: Shelf) -> None:
    run_id = shelf.house.write(add, {"by": 2}, request_id="wish").run_id

    mine = shelf.call("traces.get", {"runId": run_id})

    assert (mine["runId"], mine["status"], mine["requestId"]) == (run_id, "done", "wish")
    assert (mine["arguments"], mine["result"], mine["startedAt"]) == ({"by": 2}, {"value": 2}, "2026-01-31T12:00:00Z")
    assert [step["verb"] for step in mine["steps"]] == ["read", "send", "write"]
    assert shelf.call("traces.get", {"runId": run_id}, RITA) == mine
    assert shelf.call("traces.get", {"runId": run_id}, BOB) == {"code": "unknown_run"}
    assert shelf.call("traces.get", {"runId": "run_x"}) == {"code": "unknown_run"}


def test_a_failed_run_says_why(shelf: Shelf) -> None:
    run_id = shelf.house.write(add, {"by": 101}).run_id

    found = shelf.call("traces.get", {"runId": run_id})

    assert (found["status"], found["code"], found["message"]) == (
        "failed",
        "too_much",
        "The counter can't hold that much.",
    )


def test_pages_of_runs_are_newest_first_and_complete(shelf: Shelf, clock: SetClock) -> None:
    made = []
    for _ in range(5):
        clock.forward(seconds=1)
        made.append(shelf.house.read(get_counter).run_id)
    shelf.house.read(get_counter, caller=BOB)

    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = shelf.call("traces.list", {"limit": 2, "flowId": "counter.get", **cursor})
        seen += [run["runId"] for run in page["runs"]]
        cursor = {"cursor": page.get("nextCursor", "")}

    assert seen == made[::-1]
    assert cursor == {"cursor": ""}
    assert len(shelf.call("traces.list", {"flowId": "counter.get"}, RITA)["runs"]) == 6


def test_ones_own_runs_are_those_of_nobody_else_whatever_the_role(shelf: Shelf) -> None:
    made = []
    for begin in (shelf.house.read, shelf.house.write, shelf.house.read):
        made.append(begin(add if begin == shelf.house.write else get_counter).run_id)
        shelf.house.clock.forward(milliseconds=1)  # ids of one moment have no order
    traces, both = shelf.house.traces, ["counter.get", "counter.add"]

    mine = traces.own(ADA, both, limit=10)

    assert [(run.id, run.flow_id, run.status) for run in mine] == [
        (made[2], "counter.get", "done"),
        (made[1], "counter.add", "done"),
        (made[0], "counter.get", "done"),
    ]
    assert [run.id for run in traces.own(ADA, ["counter.get"], limit=1)] == [made[2]]
    assert traces.own(BOB, both, limit=10) == traces.own(RITA, both, limit=10) == traces.own(ADA, [], limit=10) == []


def test_runs_are_narrowed_by_status(shelf: Shelf) -> None:
    shelf.house.write(add)
    failed = shelf.house.write(add, {"by": 101})

    found = shelf.call("traces.list", {"status": "failed"})

    assert [(run["runId"], run["code"]) for run in found["runs"]] == [(failed.run_id, "too_much")]


def test_a_cursor_works_only_for_its_person_its_list_and_its_day(shelf: Shelf, clock: SetClock) -> None:
    for who in (ADA, ADA, BOB, BOB):
        shelf.house.read(get_counter, caller=who)
    first = {"limit": 1, "flowId": "counter.get"}
    cursor = shelf.call("traces.list", first)["nextCursor"]
    refused = {"code": "invalid_cursor"}

    assert "runs" in shelf.call("traces.list", {**first, "cursor": cursor})
    assert shelf.call("traces.list", {**first, "cursor": cursor}, BOB) == refused
    assert shelf.call("traces.list", {"limit": 1, "cursor": cursor}) == refused
    assert shelf.call("traces.list", {**first, "status": "done", "cursor": cursor}) == refused
    of_other_lists = [shelf.sealer.seal("cursor", value) for value in (1, [], {"a": 1}, ["orders.list", "op_ada"])]
    for wrong in ("", "x", cursor[:-1], cursor + "x", shelf.sealer.seal("other", [1]), *of_other_lists):
        assert shelf.call("traces.list", {**first, "cursor": wrong}) == refused
    clock.forward(days=1, seconds=2)
    assert shelf.call("traces.list", {**first, "cursor": cursor}) == refused


def test_a_run_with_huge_arguments_is_shown_without_them(shelf: Shelf) -> None:
    ran = shelf.house.read(get_counter)
    shelf.house.writer.flush(10)
    with shelf.house.database.write() as connection:
        connection.execute(run.update().where(run.c.id == ran.run_id).values(arguments='{"x":"' + "y" * 200_000 + '"}'))

    found = shelf.call("traces.get", {"runId": ran.run_id})

    assert "arguments" not in found
    assert found["status"] == "done"
