"""Calls that a client took back: told to one worker, heard by the one that runs it (design D1)."""

from datetime import datetime, timedelta

import orjson
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from core.clock import Clock, to_us
from core.db import Database
from core.ids import digest_of
from core.purge import Rows, take_some
from policy.models import cancellation
from policy.principal import Principal

KEPT = timedelta(minutes=10)  # longer than any run


class Cancellations:
    """Passes on what clients don't want any more; only the grant that made a call can take it back."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def key(self, principal: Principal, session: str | None, request_id: int | str) -> str:
        """Give the name of one call: a client counts its ids anew in each session."""
        return digest_of(orjson.dumps([principal.caller.grant_id, session, request_id]).decode())

    def note(self, key: str) -> None:
        """Pass on that the call of this name isn't wanted any more."""
        now = self._clock.now()
        row = {"digest": key, "at": to_us(now)}
        dialect = sqlite if self._database.is_sqlite else postgresql
        with self._database.write() as connection:
            take_some(connection, cancellations(now))
            noted = dialect.insert(cancellation).values(row)
            connection.execute(noted.on_conflict_do_update(index_elements=["digest"], set_={"at": row["at"]}))

    def is_noted(self, key: str, since: datetime) -> bool:
        """Tell whether the call of this name, which began at `since`, isn't wanted any more."""
        wanted = select(cancellation.c.at).where(cancellation.c.digest == key, cancellation.c.at >= to_us(since))
        with self._database.read() as connection:
            return connection.execute(wanted).first() is not None


def cancellations(now: datetime) -> Rows:
    """Give those whose call has ended, one way or the other."""
    over = cancellation.c.at < to_us(now - KEPT)
    return Rows(name="cs_cancellation", key=cancellation.c.digest, kept=KEPT, over=over)
