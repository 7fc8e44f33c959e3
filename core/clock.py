"""The one source of time: handed to everything that needs it, frozen in tests (design D12)."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """Give the current time, aware, in UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Give the current time, aware, in UTC."""
        return datetime.now(UTC)


def to_us(moment: datetime) -> int:
    """Give `moment` as whole microseconds since the epoch, the form in which our tables keep time."""
    return (moment - EPOCH) // MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Give back the aware UTC time of `to_us`."""
    return EPOCH + microseconds * MICROSECOND


def iso(moment: datetime) -> str:
    """Write `moment` as the wire writes it: RFC 3339, UTC, whole seconds, with Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
