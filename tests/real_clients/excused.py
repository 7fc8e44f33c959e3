"""The clients that end their way early, each with the day and the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from tests.real_clients.table import Row, Step


@dataclass(frozen=True, slots=True)
class Excused:
    """One client that may stop before this step."""

    client: str
    before: Step
    since: date
    reason: str


EXCUSED: tuple[Excused, ...] = ()


def unexcused(rows: Iterable[Row], excused: Iterable[Excused]) -> list[Row]:
    """Return the rows that end early without a line that says why."""
    known = {(entry.client, entry.before) for entry in excused}
    return [row for row in rows if row.missing is not None and (row.client, row.missing) not in known]


def stale(rows: Iterable[Row], excused: Sequence[Excused]) -> list[Excused]:
    """Return the lines that no row needs any more."""
    stopped = {(row.client, row.missing) for row in rows}
    return [entry for entry in excused if (entry.client, entry.before) not in stopped]
