"""What a call's arguments are: validated once, said plainly when wrong, one digest however they were written."""

import datetime as dt
import enum
import hashlib
import json
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator

from flows.arguments import InvalidArguments, as_data, held_arguments, parse_arguments, shown, stored
from flows.operation import Flow, Params, Secret, Sensitive, flow
from flows.world import World
from tests.flows.house import Value


class Kind(enum.Enum):
    """A kind."""

    SMALL = "small"
    LARGE = "large"


class Line(Params):
    """A line."""

    number: int
    pin: Annotated[str, Secret()] = "none"


class Order(Params):
    """Everything a parameter can be."""

    name: Annotated[str, Field(min_length=1, max_length=8)]
    amount: Annotated[int | None, Field(ge=1, le=100)] = None
    rate: float = 0.5
    kind: Kind = Kind.SMALL
    urgent: bool = False
    day: dt.date | None = None
    lines: tuple[Line, ...] = ()
    either: int | str = 1
    card: Annotated[str | None, Sensitive()] = None
    cards: tuple[Annotated[str, Sensitive()], ...] = ()

    @field_validator("name")
    @classmethod
    def _not_bad(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("secret inside")
        return name


class Text(Params):
    """A text."""

    text: str


@flow(id="order.make", title="Make", effects=[])
def make_order(_params: Order, _world: World) -> Value:
    """Make an order."""
    return Value(value=1)


FULL: dict[str, Any] = {
    "name": "a",
    "amount": None,
    "rate": 0.5,
    "kind": "small",
    "urgent": False,
    "day": None,
    "lines": [],
}
FULL |= {"either": 1, "card": None, "cards": []}


def digest(raw: dict[str, Any], of: Flow = make_order) -> str:
    return parse_arguments(of, raw).digest


@given(st.permutations(list(FULL)), st.sets(st.sampled_from([name for name in FULL if name != "name"])))
def test_order_and_spelled_out_defaults_do_not_change_the_digest(order: list[str], left_out: set[str]) -> None:
    raw = {name: FULL[name] for name in order if name not in left_out}

    assert digest(raw) == digest({"name": "a"})


@pytest.mark.parametrize(("one", "same"), [({"rate": 2}, {"rate": 2.0}), ({"rate": 0}, {"rate": -0.0})])
def test_one_number_has_one_digest(one: dict[str, Any], same: dict[str, Any]) -> None:
    assert digest({"name": "a", **one}) == digest({"name": "a", **same})


@pytest.mark.parametrize("other", [{"name": "b"}, {"name": "a", "amount": 1}, {"name": "a", "lines": [{"number": 1}]}])
def test_another_value_another_flow_or_another_version_is_another_digest(other: dict[str, Any]) -> None:
    assert digest(other) != digest({"name": "a"})
    assert digest({"name": "a"}, replace(make_order, version=2)) != digest({"name": "a"})
    assert digest({"name": "a"}, replace(make_order, id="order.other")) != digest({"name": "a"})


def test_the_held_arguments_parse_to_the_same_digest() -> None:
    first = parse_arguments(make_order, {"name": "a", "day": "2026-01-31", "lines": [{"number": 3}]})

    again = parse_arguments(make_order, held_arguments(first.canonical))

    assert again == first
    assert again.params.day == dt.date(2026, 1, 31)  # type: ignore[attr-defined]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_held_numbers_are_the_same_numbers(rate: float) -> None:
    first = parse_arguments(make_order, {"name": "a", "rate": rate})

    assert parse_arguments(make_order, held_arguments(first.canonical)) == first


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({}, "name is missing."),
        ({"name": ""}, "name must have at least 1 characters."),
        ({"name": "a" * 9}, "name must have at most 8 characters."),
        ({"name": 5}, "name must be a text."),
        ({"name": "a", "amount": "5"}, "amount must be a whole number."),
        ({"name": "a", "amount": True}, "amount must be a whole number."),
        ({"name": "a", "amount": 5.5}, "amount must be a whole number."),
        ({"name": "a", "amount": 101}, "amount must be at most 100."),
        ({"name": "a", "rate": "1"}, "rate must be a number."),
        ({"name": "a", "kind": "huge"}, "kind must be 'small' or 'large'."),
        ({"name": "a", "urgent": 1}, "urgent must be true or false."),
        ({"name": "a", "day": "31.1."}, "day must be a date like 2026-01-31."),
        ({"name": "a", "lines": {}}, "lines must be a list."),
        ({"name": "a", "lines": [{"number": "x"}]}, "lines[0].number must be a whole number."),
        ({"name": "a", "lines": [1]}, "lines[0] must be an object."),
        ({"name": "a", "either": []}, "either fits none of its allowed forms."),
        ({"name": "a", "either": 1, "Name": "b"}, "Name is not a parameter."),
        ({"name": "bad"}, "name is not valid."),
        ({"name": 1, "rate": "x"}, "name must be a text; rate must be a number."),
        ({"name": "a", "amount": 2**53}, "Whole numbers must lie between -(2^53-1) and 2^53-1."),
        ({"name": "a", "rate": -(2**70)}, "Whole numbers must lie between -(2^53-1) and 2^53-1."),
        ({"name": "a", "rate": float("nan")}, "Numbers must be finite."),
        ({"name": "a", "rate": float("inf")}, "Numbers must be finite."),
        ({"name": "\ud800"}, "The arguments are not plain JSON."),
        ({"name": "a", 5: "b"}, "The arguments are not plain JSON."),
        ({"name": b"a"}, "The arguments are not plain JSON."),
    ],
)
def test_a_wrong_argument_is_named_and_said_in_our_words(raw: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        parse_arguments(make_order, raw)

    assert refused.value.public == sentence


def test_an_unknown_name_is_cut_and_made_printable() -> None:
    with pytest.raises(InvalidArguments) as refused:
        parse_arguments(make_order, {"name": "a", "x\n\u202e" + "y" * 5000: 1})

    assert refused.value.public.startswith("x??yyy")
    assert len(refused.value.public) < 100


def test_arguments_nested_too_deep_are_refused() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(InvalidArguments, match="levels deep"):
        parse_arguments(make_order, {"name": deep})


def test_sensitive_values_are_stored_as_digests_and_secret_ones_not_at_all() -> None:
    raw = {"name": "a", "card": "4417", "cards": ["1", "2"], "lines": [{"number": 1, "pin": "0000"}]}
    params = parse_arguments(make_order, raw).params

    kept = json.loads(stored(make_order, params))

    assert kept["card"] == {"sha256": hashlib.sha256(b'"4417"').hexdigest()}
    assert [list(card) for card in kept["cards"]] == [["sha256"], ["sha256"]]
    assert kept["lines"] == [{"number": 1, "pin": "***"}]
    assert "4417" not in stored(make_order, params)


def test_a_person_sees_every_argument_but_secrets() -> None:
    raw = {"name": "a", "card": "4417", "lines": [{"number": 1, "pin": "0000"}], "urgent": True}

    rows = dict(shown(make_order, parse_arguments(make_order, raw).params))

    assert list(rows) == list(as_data(parse_arguments(make_order, raw).params))
    assert (rows["card"], rows["urgent"], rows["amount"]) == ("4417", "yes", "not given")
    assert rows["lines"] == '[{"number":1,"pin":"***"}]'


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("\u200b\u2066x", "\\u200b\\u2066x"),
        ("a\x00\x1b[0m", "a\\u0000\\u001b[0m"),
        ("a\u2028b", "a\\u2028b"),
        ("two\nlines", "two\nlines"),
        ("", '""'),
    ],
)
def test_characters_that_hide_or_reorder_text_are_written_out(text: str, seen: str) -> None:
    @flow(id="text.say", title="Say", effects=[])
    def say(_params: Text, _world: World) -> Value:
        """Say."""
        return Value(value=1)

    assert shown(say, parse_arguments(say, {"text": text}).params) == [("text", seen)]
