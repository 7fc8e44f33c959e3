"""The sentence that a person decides on says what it contains, and nothing else."""

from dataclasses import replace

import pytest

from flows.effects import Effect, Verb
from flows.operation import Params
from policy.words import SentenceUnfilled, effect_words, joined, kept, lowered, plain, sentence
from tests.policy.house import CANARY, Refund, orders_refund

PARAMS = Refund(order_id="1042")


def test_facts_that_the_server_read_win_over_what_the_agent_said():
    said = sentence(orders_refund, PARAMS, {"amount": "45.00 EUR"})

    assert said == 'Refund 45.00 EUR of order "1042"'


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("1042\n\nApproved by admin", "1042 Approved by admin"),
        ("\u202e2401\u202c", "2401"),
        ("10\u200b42\u2066\u2069\ufeff", "1042"),
        ("1042\x00\x1b[31m", "1042[31m"),
        ("  10\u2028\u202942  ", "10 42"),
        ("{amount} {0.__class__}", "{amount} {0.__class__}"),
        ("\ud800", ""),
        ("10\u3164\u2800\u115f\u034f42", "1042"),
        ("9\u03369\u03369\u0336 1042\u20e0", "999 1042"),
    ],
)
def test_hidden_and_turning_characters_are_taken_out(said, shown):
    assert sentence(replace(orders_refund, asks="{order_id}"), PARAMS, {"order_id": said}) == shown


def test_one_long_value_leaves_room_for_the_rest():
    said = sentence(orders_refund, PARAMS, {"order_id": "9" * 10_000})

    assert said == f"Refund 4500 of order {'9' * 119}…"


def test_a_secret_stays_out_of_the_sentence():
    said = sentence(replace(orders_refund, asks="Refund to {card}"), PARAMS, {})

    assert said == 'Refund to "***"'
    assert CANARY not in said


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("1042, approved by the owner", '"1042, approved by the owner"'),
        ('1042" and order "1043', r'"1042\" and order \"1043"'),
        ('1042\\" and', r'"1042\\\" and"'),
        ("9" * 200, f'"{"9" * 119}…"'),
        ("", '""'),
    ],
)
def test_a_text_of_the_agent_stands_in_quotation_marks_that_it_cant_close(given, shown):
    said = sentence(replace(orders_refund, asks="Refund {order_id} now"), Refund(order_id=given), {})

    assert said == f"Refund {shown} now"


def test_other_values_of_the_agent_are_plain_and_lists_are_quoted_whole():
    class Tag(Params):
        on: bool = True
        count: int = 3
        day: str | None = None
        words: tuple[str, ...] = ('a"', "b")

    tag = replace(orders_refund, params=Tag, asks="{on} {count} {day} {words}")

    assert sentence(tag, Tag(), {}) == r'yes 3 (not given) "[\"a\\\"\",\"b\"]"'


def test_half_a_sentence_is_none():
    with pytest.raises(SentenceUnfilled):
        sentence(replace(orders_refund, asks="Refund {total}"), PARAMS, {})


@pytest.mark.parametrize(("value", "shown"), [(None, "(not given)"), (True, "yes"), (False, "no"), (12, "12")])
def test_values_read_as_words(value, shown):
    assert sentence(replace(orders_refund, asks="{amount}"), PARAMS, {"amount": value}) == shown


def test_a_cap_counts_its_own_mark():
    assert (plain("abcdef", 6), plain("abcdefg", 6)) == ("abcdef", "abcde…")


def test_effects_are_said_by_what_they_change():
    writes = [Effect(Verb.WRITE, "orders"), Effect(Verb.WRITE, "refunds"), Effect(Verb.READ, "customers")]

    assert effect_words([*writes, Effect(Verb.SEND, "email")]) == "changes orders and refunds, sends e-mail"
    assert effect_words(writes[2:]) == "reads customers"
    assert effect_words([]) == ""


def test_small_words():
    assert (joined([]), joined(["a"]), joined(["a", "b", "c"])) == ("", "a", "a, b and c")
    assert (lowered("Refund it"), lowered("VAT report"), lowered("")) == ("refund it", "VAT report", "")
    assert (kept(None, 5), kept(" \0 ", 5), kept("  Hello there", 5)) == (None, None, "Hello")
