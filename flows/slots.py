"""How many runs of one flow there may be at once, over all workers (`@flow(at_once=…)`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Connection, delete, func, insert, select, text

from core.clock import Clock, to_us
from core.db import Database
from core.errors import Conflict
from core.ids import digest_of
from flows.admission import Admitted
from flows.models import slot


class AllTaken(Conflict):
    """So many runs of this flow are at work that no other may begin."""

    code = "too_many_runs"
    public = "This is being done as often as it may be at once. Try again in a moment; nothing was changed."
    remedy = "Wait for a run of this flow to end, then call again."


class Slots:
    """Counts the runs of the flows that declare a number; all others pass without being counted."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @contextmanager
    def held(self, admitted: Admitted, longest: timedelta) -> Iterator[None]:
        """Hold a slot of the run's flow, given back at the end or when `longest` is over; raises AllTaken."""
        at_once = admitted.flow.at_once
        if at_once is None:
            yield
            return
        self._take(admitted, at_once, longest)
        try:
            yield
        finally:
            with self._database.write() as connection:
                connection.execute(delete(slot).where(slot.c.run_id == admitted.run_id))

    def _take(self, admitted: Admitted, at_once: int, longest: timedelta) -> None:
        now, flow_id = self._clock.now(), admitted.flow.id
        with self._database.write() as connection:
            _one_at_a_time(connection, flow_id)
            connection.execute(delete(slot).where(slot.c.flow_id == flow_id, slot.c.until < to_us(now)))
            taken = connection.execute(select(func.count()).where(slot.c.flow_id == flow_id)).scalar_one()
            if taken >= at_once:
                raise AllTaken
            row = {"run_id": admitted.run_id, "flow_id": flow_id, "until": to_us(now + longest)}
            connection.execute(insert(slot), row)


def _one_at_a_time(connection: Connection, flow_id: str) -> None:
    # SQLite has one writer anyway; on PostgreSQL two that count would not see each other's row.
    if connection.dialect.name != "sqlite":
        number = int(digest_of(f"slots:{flow_id}")[:15], 16)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
