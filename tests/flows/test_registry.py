"""The closed set of flows: every fault is named at once, nothing is found that wasn't declared."""

from dataclasses import replace
from typing import Annotated, Any

import pytest

from flows.check import faults_of
from flows.effects import Effect, Verb, deletes, reads, reads_outside, sends, writes
from flows.faults import Fault, FaultRule, FlowFaults
from flows.models import run
from flows.operation import Flow, Params, Rule, Secret, Sensitive, Source, flow
from flows.registry import Registry, UnknownFlow
from tests.flows.house import Counter, Value, add, get_counter


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
    ("base", "changes", "rule", "sentence"),
    [
        (get_counter, {"id": "Counter.get"}, "id_form", "an id has words"),
        (get_counter, {"id": "counter..get"}, "id_form", "an id has words"),
        (get_counter, {"id": "counter.get\n"}, "id_form", "an id has words"),
        (get_counter, {"id": "a" * 49}, "tool_name_long", "longer than 48"),
        (get_counter, {"id": "action.invoke"}, "tool_name_taken", "action_invoke is taken"),
        (get_counter, {"id": "action_confirm"}, "tool_name_taken", "action_confirm is taken"),
        (get_counter, {"title": " "}, "title_missing", "needs a title"),
        (get_counter, {"summary": ""}, "docstring_missing", "a docstring"),
        (get_counter, {"version": 0}, "version_low", "starts at 1"),
        (get_counter, {"at_once": 0}, "at_once_low", "at least 1"),
        (get_counter, {"params": Reserved}, "param_reserved", "requestId is reserved"),
        (get_counter, {"params": Recursive}, "schema", "contains itself"),
        (get_counter, {"amount": "nothing"}, "amount_unknown", "amount names nothing"),
        (get_counter, {"effects": (reads("counter"),)}, "effect_tables", "names no table"),
        (get_counter, {"effects": READS + READS}, "effect_twice", "declared twice"),
        (
            add,
            {"effects": (*add.effects, reads_outside("rates"))},
            "effect_outside",
            "declares what it asks with calls",
        ),
        (get_counter, {"effects": (reads("runs", run),)}, "our_tables", "not the application's"),
        (get_counter, {"effects": (Effect(Verb.READ, "", frozenset({"t"})),)}, "target_form", "1 to 80 characters"),
        (get_counter, {"scope": "refund"}, "scope_form", "must be like"),
        (get_counter, {"scope": "mcp:action:invoke"}, "our_scope", "not the application's"),
        (get_counter, {"scope": "console:x"}, "our_scope", "not the application's"),
        (add, {"effects": (sends("sms"),)}, "effect_undelivered", "nothing delivers"),
        (add, {"rule": None}, "rule_missing", "needs a confirmation rule"),
        (add, {"asks": None}, "asks_missing", "needs `asks`"),
        (add, {"asks": "  "}, "asks_missing", "needs `asks`"),
        (add, {"asks": "Add {number}"}, "asks_unknown", "number is no parameter"),
        (add, {"asks": "Add {by.x}"}, "asks_form", "only plain"),
        (add, {"asks": "Add {by!r}"}, "asks_form", "only plain"),
        (add, {"asks": "Add {"}, "asks_form", "asks: "),
        (add, {"params": Pin, "asks": "Set {pin}"}, "asks_sensitive", "pin is secret"),
        (
            add,
            {"params": Patient, "asks": "Call {name}"},
            "asks_sensitive",
            "name is sensitive, and the sentence is kept",
        ),
        (add, {"params": Patient, "asks": "Note {notes}"}, "asks_sensitive", "notes is partly sensitive or secret"),
        (add, {"rule": Rule.CLIENT}, "rule_client", "rule client is only"),
        (add, {"rule": Rule.CLIENT, "unattended": True, "amount": "by"}, "rule_client", "rule client is only"),
        (
            add,
            {"rule": Rule.CLIENT, "unattended": True, "effects": (deletes("c", Counter),)},
            "rule_client",
            "rule client is only",
        ),
    ],
)
def test_a_declaration_that_can_not_stand_is_refused(
    base: Flow, changes: dict[str, Any], rule: str, sentence: str
) -> None:
    with pytest.raises(FlowFaults, match=sentence) as refused:
        Registry([replace(base, **changes)])

    assert [fault.rule for fault in refused.value.faults] == [rule]


def test_all_faults_are_named_at_once_with_flow_file_and_line() -> None:
    with pytest.raises(FlowFaults) as refused:
        Registry([replace(add, title="", asks=None, scope="x"), replace(get_counter, version=0), get_counter])

    faults = refused.value.faults
    assert [(fault.flow, fault.rule) for fault in faults] == [
        ("counter.add", "title_missing"),
        ("counter.add", "scope_form"),
        ("counter.add", "asks_missing"),
        ("counter.get", "version_low"),
        ("counter.get", "id_taken"),
    ]
    assert {fault.file for fault in faults} == {"tests/flows/house.py"}
    line = add.function.__code__.co_firstlineno
    first = f"tests/flows/house.py:{line} counter.add [title_missing] it needs a title"
    assert refused.value.public.splitlines()[:2] == ["5 faults in the flows.", first]


def test_what_was_found_before_stands_in_the_same_list() -> None:
    before = Fault(rule=FaultRule.NO_FLOW, sentence="nothing here", file="shop/flows.py")
    with pytest.raises(FlowFaults) as refused:
        Registry([replace(add, title="")], [before])

    assert [fault.rule for fault in refused.value.faults] == ["no_flow", "title_missing"]


def test_two_flows_with_one_tool_name_are_refused() -> None:
    with pytest.raises(FlowFaults, match=r"\[tool_name_taken\] the tool name counter_get is taken by counter\.get"):
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


class Place(Params):
    """A text and a number."""

    name: str
    floor: int = 0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"resource": "house://rooms/{name}"}, None),
        ({"resource": "house://rooms"}, "resource"),  # `name` is required
        ({"resource": "house://rooms/{name}/{floor}"}, "resource"),  # `floor` is no text
        ({"resource": "house://rooms/{name}/{other}"}, "resource"),
        ({"resource": "house://rooms/{name!r}"}, "resource"),
        ({"resource": "house://rooms/{name"}, "resource"),
        ({"resource": "rooms/{name}"}, "resource"),
        ({"resource": "countersign://rooms/{name}"}, "resource"),
        ({"resource": "house://rooms?x={name}"}, "resource"),
        ({"resource": "house://rooms/{name}", "client_capabilities": frozenset({"sampling"})}, "resource"),
        ({"resource": "house://rooms/{name}", "effects": add.effects, "asks": "Add"}, "resource"),
    ],
)
def test_an_address_is_of_a_flow_that_reads_and_names_its_text_params(
    changes: dict[str, Any], rule: str | None
) -> None:
    @flow(id="rooms.get", title="Look at a room", effects=[])
    def rooms_get(params: Place, world: Any) -> Value:
        """Look at a room."""
        raise AssertionError((params, world))

    found = {one.rule.value for one in faults_of(replace(rooms_get, **changes))} - {"rule_missing"}

    assert found == ({rule} if rule else set())


def test_an_address_is_of_one_flow() -> None:
    one = replace(get_counter, resource="house://counter")

    with pytest.raises(FlowFaults) as raised:
        Registry([one, replace(one, id="counter.again")])
    assert [fault.rule.value for fault in raised.value.faults] == ["resource_taken"]
