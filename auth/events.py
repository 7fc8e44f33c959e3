"""What happened to each client on its way to a token: one row a step, with the reason of a failure in one sentence."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, exists, func, insert, select

from auth.models import client, client_event
from auth.purge import client_events
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.ids import Ids
from core.logs import reference
from core.purge import take_some
from core.settings import Retention

ID = re.compile(r"[!-~]{1,255}", re.ASCII)
MOST_FAILURES = 50  # of one client in `FAILURES_WITHIN`; what a stranger makes fail beyond that is not kept
FAILURES_WITHIN = timedelta(minutes=10)
LONGEST_SENTENCE = 500
MOST_SHOWN = 1000


class Step(StrEnum):
    """Where on its way a client was."""

    REGISTER = "register"
    AUTHORIZE = "authorize"  # the browser came with a request
    CONSENT = "consent"  # the person answered
    TOKEN = "token"  # a code became tokens, or a machine got one
    REFRESH = "refresh"
    DEVICE = "device"
    REVOKE = "revoke"
    INTROSPECT = "introspect"


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One step of one client; `code` is None when it went well."""

    at: datetime
    step: str
    code: str | None
    sentence: str
    operator_id: str | None
    grant_id: str | None
    reference: str | None


class ClientEvents:
    """Keeps the steps of clients; a sentence repeats nothing that was sent, since secrets are sent."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, retention: Retention) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._retention = retention

    def write(self, connection: Connection, client_id: str, step: Step, sentence: str, **fields: Any) -> None:
        """Write a step in the transaction that it describes; `fields` are columns: code, operator_id, grant_id."""
        row = {"id": self._ids.new("ce"), "client_id": client_id, "at": to_us(self._clock.now()), "step": step.value}
        row |= {"sentence": sentence[:LONGEST_SENTENCE], "reference": reference.get()}
        connection.execute(insert(client_event), row | fields)

    def note_failure(
        self, client_id: str, step: Step, code: str, sentence: str, *, is_known: bool = False, **fields: Any
    ) -> None:
        """Write a failure in a transaction of its own: of a client that is known, and not more than anybody reads.

        With `is_known` the caller vouches for the id of a client that isn't stored (yet).
        """
        if not ID.fullmatch(client_id):
            return
        now = self._clock.now()
        recent = select(func.count()).where(
            client_event.c.client_id == client_id,
            client_event.c.code.is_not(None),
            client_event.c.at > to_us(now - FAILURES_WITHIN),
        )
        with self._database.read() as connection:  # most of what strangers send ends here, and waits for no writer
            known = is_known or connection.execute(select(exists().where(client.c.id == client_id))).scalar()
            if not known or connection.execute(recent).scalar_one() >= MOST_FAILURES:
                return
        with self._database.write() as connection:
            take_some(connection, client_events(now, self._retention.client_events))
            self.write(connection, client_id, step, sentence, code=code, **fields)

    def list(self, client_id: str, limit: int = MOST_SHOWN) -> list[ClientEvent]:
        """Give the newest steps of a client, the oldest of them first."""
        newest = select(client_event).where(client_event.c.client_id == client_id)
        newest = newest.order_by(client_event.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            rows = connection.execute(newest).all()
        return [
            ClientEvent(from_us(row.at), row.step, row.code, row.sentence, row.operator_id, row.grant_id, row.reference)
            for row in reversed(rows)
        ]
