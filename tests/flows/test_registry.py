"""The closed set of flows: every fault is named at once, nothing is found that wasn't declared."""

from dataclasses import replace
from typing import Annotated, Any

import pytest

from flows.effects import Effect, Verb, deletes, reads, sends, writes
from flows.models import run
from flows.operation import Flow, Params, Rule, Secret, Sensitive, Source
from flows.registry import FlowFaults, Registry, UnknownFlow, load_flows
from tests.flows.house import Counter, add, get_counter


class Reserved(Params):
    """Uses a name of ours."""

    requestId: str  # noqa: N815


class Pin(Params):
    """Has a secret."""

    pin: Annotated[str, Secret()]


class Patient(Params):
    """Has what may be shown to who decides, and not be kept."""

    name: Annotated[str, Sensitive()]
    notes: tuple[Annotated[str, Sensitive()], ...] = ()


class Recursive(Params):
    """Contains itself."""

    inside: "tuple[Recursive, ...]" = ()


READS, WRITES = (reads("counter", Counter),), (writes("counter", Counter),)


@pytest.mark.parametrize(
    ("base", "changes", "fault"),
    [
        (get_counter, {"id": "Counter.get"}, "an id has words"),
        (get_counter, {"id": "counter..get"}, "an id has words"),
        (get_counter, {"id": "counter.get\n"}, "an id has words"),
        (get_counter, {"id": "a" * 49}, "longer than 48"),
        (get_counter, {"id": "action.invoke"}, "action_invoke is taken"),
        (get_counter, {"id": "action_confirm"}, "action_confirm is taken"),
        (get_counter, {"title": " "}, "needs a title"),
        (get_counter, {"summary": ""}, "a docstring"),
        (get_counter, {"version": 0}, "starts at 1"),
        (get_counter, {"params": Reserved}, "requestId is reserved"),
        (get_counter, {"params": Recursive}, "contains itself"),
        (get_counter, {"amount": "nothing"}, "amount names nothing"),
        (get_counter, {"effects": (reads("counter"),)}, "names no table"),
        (get_counter, {"effects": READS + READS}, "declared twice"),
        (get_counter, {"effects": (reads("runs", run),)}, "not the application's"),
        (get_counter, {"effects": (Effect(Verb.READ, "", frozenset({"t"})),)}, "1 to 80 characters"),
        (get_counter, {"scope": "refund"}, "must be like"),
        (get_counter, {"scope": "mcp:action:invoke"}, "not the application's"),
        (get_counter, {"scope": "console:x"}, "not the application's"),
        (add, {"effects": (sends("sms"),)}, "nothing delivers"),
        (add, {"rule": None}, "needs a confirmation rule"),
        (add, {"asks": None}, "needs `asks`"),
        (add, {"asks": "  "}, "needs `asks`"),
        (add, {"asks": "Add {number}"}, "number is no parameter"),
        (add, {"asks": "Add {by.x}"}, "only plain"),
        (add, {"asks": "Add {by!r}"}, "only plain"),
        (add, {"asks": "Add {"}, "asks: "),
        (add, {"params": Pin, "asks": "Set {pin}"}, "pin is secret"),
        (add, {"params": Patient, "asks": "Call {name}"}, "name is sensitive, and the sentence is kept"),
        (add, {"params": Patient, "asks": "Note {notes}"}, "notes is partly sensitive or secret"),
        (add, {"rule": Rule.CLIENT}, "rule client is only"),
        (add, {"rule": Rule.CLIENT, "unattended": True, "amount": "by"}, "rule client is only"),
        (add, {"rule": Rule.CLIENT, "unattended": True, "effects": (deletes("c", Counter),)}, "rule client is only"),
    ],
)
def test_a_declaration_that_can_not_stand_is_refused(base: Flow, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(FlowFaults, match=fault):
        Registry([replace(base, **changes)])


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(FlowFaults) as refused:
        Registry([replace(add, title="", asks=None), replace(get_counter, version=0), get_counter])

    assert refused.value.public.count(";") >= 3
    assert {"counter.add", "counter.get"} <= set(refused.value.public.replace(":", " ").split())


def test_two_flows_with_one_tool_name_are_refused() -> None:
    with pytest.raises(FlowFaults, match=r"tool name counter_get is taken by counter\.get"):
        Registry([get_counter, replace(get_counter, id="counter_get")])


def test_our_own_flows_may_name_our_tables_and_need_no_confirmation() -> None:
    own = replace(add, effects=(writes("runs", run),), rule=None, asks=None, source=Source.BUILTIN)

    assert Registry([own]).get("counter.add") is own


def test_flows_are_found_by_id_and_by_tool_and_nothing_else_is() -> None:
    registry = Registry([get_counter, add])

    assert registry.get("counter.add") is add
    assert registry.by_tool("counter_add") is add
    assert [flow.id for flow in registry] == ["counter.get", "counter.add"]
    assert (registry.find("counter_add"), registry.by_tool("counter.add"), len(registry)) == (None, None, 2)
    with pytest.raises(UnknownFlow):
        registry.get("counter.drop")


@pytest.mark.parametrize(
    "changes",
    [{"title": "Other"}, {"version": 2}, {"asks": "More {by}"}, {"effects": WRITES}, {"scope": "c:add"}],
)
def test_the_digest_changes_with_every_declaration(changes: dict[str, Any]) -> None:
    assert Registry([replace(add, **changes)]).digest != Registry([add]).digest
    assert Registry([add]).digest == Registry([replace(add)]).digest


def test_flows_are_loaded_from_modules_once_each() -> None:
    loaded = load_flows(["tests.flows.house", "tests.flows.house"])

    assert get_counter in loaded
    assert len({flow.id for flow in loaded}) == len(loaded)


def test_a_module_that_can_not_be_had_or_declares_nothing_is_named() -> None:
    with pytest.raises(FlowFaults) as refused:
        load_flows(["tests.flows.no_such_module", "tests.flows"])

    assert "no_such_module" in refused.value.public
    assert "tests.flows declares no flow" in refused.value.public
