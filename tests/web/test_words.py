"""Words never promise more time than there is, and never hide what somebody else wrote."""

from datetime import timedelta

import pytest

from flows.arguments import visible
from tests.web.house import NOW
from web import words
from web.clients import trust_of


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "time is over"), (0, "time is over"), (59, "less than 1 min left"), (60, "1 min left"), (899, "14 min left")],
)
def test_time_left_is_rounded_down(seconds: int, said: str) -> None:
    assert words.left(NOW + timedelta(seconds=seconds), NOW) == said


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=59), "59 min ago"),
        (timedelta(hours=23), "23 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=12), "12 days ago"),
    ],
)
def test_time_passed_is_said_in_its_largest_unit(passed: timedelta, said: str) -> None:
    assert words.ago(NOW - passed, NOW) == said


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u200b", "\u00ad", "\u2066", "\ufe05", "\U000e0041", "\U000e0101", "\u3164"]
)
def test_what_draws_nothing_is_written_out(hidden: str) -> None:
    shown = visible(f"pay{hidden}ment")

    assert hidden not in shown
    assert shown.startswith("pay\\u")


@pytest.mark.parametrize("plain", ["Grüße, 漢字, שלום", "a\nb\tc", "5\u00a0EUR", "❤\ufe0f"])
def test_ordinary_text_stays_as_it_is(plain: str) -> None:
    assert visible(plain) == plain


def test_a_program_is_known_by_where_its_answers_go() -> None:
    assert trust_of("local", hosts=()) == "Made on this server’s command line"
    assert "your computer (127.0.0.1:33418), chatgpt.com" in trust_of(
        "registered", hosts=("127.0.0.1:33418", "chatgpt.com", "chatgpt.com")
    )
    assert "· described at claude.ai · its answers go to" in trust_of(
        "registered", hosts=("localhost",), described_at="claude.ai"
    )
    assert "your computer ([::1]:8080)" in trust_of("registered", hosts=("[::1]:8080",))
    assert "localhost.evil.example" in trust_of("registered", hosts=("localhost.evil.example",))
    assert "your computer" not in trust_of("registered", hosts=("localhost.evil.example", "127.0.0.1.evil.example:1"))
