"""Lifetimes as they are typed."""

from datetime import timedelta

import click
import pytest

from cli.tokens import Duration


@pytest.mark.parametrize(
    ("text", "meant"),
    [("90s", timedelta(seconds=90)), ("30m", timedelta(minutes=30)), ("1h", timedelta(hours=1)), ("7d", timedelta(7))],
)
def test_a_lifetime_is_a_number_and_a_unit(text, meant):
    assert Duration().convert(text, None, None) == meant


@pytest.mark.parametrize("text", ["", "0h", "1", "-1h", "1w", "1.5h", "9999999d", "١h", "1h "])
def test_anything_else_is_a_usage_error(text):
    with pytest.raises(click.UsageError):
        Duration().convert(text, None, None)
