from datetime import UTC, datetime, timedelta

import pytest

from core.seal import BadSeal, Sealer

OLD, NEW = "o" * 40, "n" * 40
HOUR = timedelta(hours=1)


class StoppedClock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 7, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def test_a_sealed_value_opens_again(clock):
    sealer = Sealer([NEW], clock)

    assert sealer.open("cursor", sealer.seal("cursor", {"a": 1}), within=HOUR) == {"a": 1}


def test_the_current_key_signs_and_older_ones_still_open(clock):
    before = Sealer([OLD], clock).seal("cursor", 1)
    rotated = Sealer([NEW, OLD], clock)

    assert rotated.open("cursor", before, within=HOUR) == 1
    assert Sealer([NEW], clock).open("cursor", rotated.seal("cursor", 2), within=HOUR) == 2
    with pytest.raises(BadSeal):
        Sealer([OLD], clock).open("cursor", rotated.seal("cursor", 2), within=HOUR)


def test_a_seal_for_one_purpose_opens_nothing_else(clock):
    sealer = Sealer([NEW], clock)

    with pytest.raises(BadSeal):
        sealer.open("mcp-session", sealer.seal("cursor", 1), within=HOUR)


def test_a_seal_grows_old(clock):
    sealer = Sealer([NEW], clock)
    text = sealer.seal("cursor", 1)
    clock.moment += timedelta(hours=1, seconds=1)

    with pytest.raises(BadSeal):
        sealer.open("cursor", text, within=HOUR)


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "é", "." * 5000])
def test_what_we_did_not_seal_does_not_open(clock, text):
    with pytest.raises(BadSeal):
        Sealer([NEW], clock).open("cursor", text, within=HOUR)


def test_derived_values_differ_by_key_purpose_and_message(clock):
    new, old = Sealer([NEW, OLD], clock), Sealer([OLD], clock)

    values = {*new.derive("refresh", "a"), *new.derive("refresh", "b"), *new.derive("code", "a")}

    assert len(values) == 6
    assert new.derive("refresh", "a")[1:] == old.derive("refresh", "a")  # the current key's comes first
