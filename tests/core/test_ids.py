from datetime import UTC, datetime, timedelta
from uuid import UUID

from core.clock import from_us, iso, to_us
from core.ids import Ids, SystemChance, digest_of


class StoppedClock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


def test_ids_are_uuid7_and_ordered_by_time():
    clock = StoppedClock()
    ids = Ids(clock, SystemChance())
    first = ids.new("run")
    clock.moment += timedelta(milliseconds=1)
    second = ids.new("run")

    assert first < second
    assert UUID(first.removeprefix("run_")).version == 7


def test_tokens_have_256_bits_and_a_prefix_that_scanners_find():
    ids = Ids(StoppedClock(), SystemChance())
    token = ids.token("cs_at")

    assert token.startswith("cs_at_")
    assert len(token.removeprefix("cs_at_")) == 43
    assert token != ids.token("cs_at")


def test_any_text_has_a_digest():
    assert digest_of("\ud800") != digest_of("")


def test_times_survive_the_way_into_a_table_and_back():
    moment = StoppedClock().now()

    assert from_us(to_us(moment)) == moment
    assert iso(moment) == "2026-07-01T12:00:00Z"
