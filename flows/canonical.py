"""Canonical JSON, so that one call has one digest (RFC 8785)."""

import math
from typing import Any

import orjson

LARGEST_INTEGER = 2**53 - 1  # beyond it JSON numbers lose their last digits (RFC 8785 3.2.2.3, RFC 7493 2.2)


def canonical(value: Any) -> bytes:
    """Write JSON data with sorted keys and ECMAScript numbers (RFC 8785 3.2).

    Raises ValueError for a number that isn't finite or an integer beyond ±(2^53-1), TypeError for what isn't JSON.
    """
    return orjson.dumps(_ordered(value))


def read_canonical(text: str | bytes) -> Any:
    """Give the value of canonical JSON; a whole number beyond ±(2^53-1) was a float, and is one again."""
    return _exact(orjson.loads(text))


def number(value: float) -> str:
    """Write a float as ECMAScript's Number::toString does (ECMA-262 6.1.6.1.20)."""
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)  # the value is 0.digits × 10^point
    digits = digits.rstrip("0")
    return sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{point - 1:+d}"


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        # RFC 8785 3.2.3: by UTF-16 code units, which isn't the order of code points.
        return {key: _ordered(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, list | tuple):
        return [_ordered(item) for item in value]
    if isinstance(value, float):
        return orjson.Fragment(number(value))
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError("an integer beyond 2^53-1")
    return value


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) > LARGEST_INTEGER else value


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
