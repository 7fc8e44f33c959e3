"""RFC 8785: one value, one text."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.canonical import LARGEST_INTEGER, canonical, number, read_canonical

# RFC 8785 appendix B: IEEE 754 bits and what ECMAScript writes.
VECTORS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inside),
    max_leaves=12,
)


@pytest.mark.parametrize(("bits", "text"), VECTORS)
def test_numbers_are_written_as_ecmascript_does(bits: str, text: str) -> None:
    assert number(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        canonical([value])


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**70])
def test_an_integer_that_json_can_not_carry_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="2\\^53"):
        canonical({"n": value})


def test_the_rfc_example_of_members_and_literals() -> None:
    value = json.loads(
        '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        r'"string":"\u20ac$\u000F\u000aA\u0027\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}'
    )
    wanted = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA'
        "'"
        r'B\"\\\\\"/"}'
    )
    assert canonical(value).decode() == wanted


def test_names_are_sorted_by_utf16_units() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}

    assert list(json.loads(canonical(value)).values()) == [2, 4, 6, 7, 1, 5, 3]  # RFC 8785 3.2.3


@given(JSON)
def test_the_text_says_the_same_value_and_is_its_own_canonical_form(value: Any) -> None:
    text = canonical(value)

    again = read_canonical(text)
    assert again == value
    assert canonical(again) == text
