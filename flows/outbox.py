"""Messages leave after commit, at least once: rows written with the run, delivered by a thread of each web process."""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, insert, select, update

from core.clock import Clock, from_us, to_us
from core.db import Database
from core.ids import Ids
from core.mail import Mail, Mailer
from flows.models import outbox
from flows.world import Message

log = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
CLOSE_SECONDS = 10.0
A_ROUND = 20  # messages
CLAIM = timedelta(minutes=2)  # longer than a delivery can take, so that nobody delivers it beside us
FIRST_RETRY = timedelta(seconds=30)
MOST_TRIES = 8  # the last about an hour after the first

INSERT = insert(outbox)
DUE = (
    select(outbox)
    .where(outbox.c.status == "waiting", outbox.c.due_at <= bindparam("now"))
    .order_by(outbox.c.due_at)
    .limit(A_ROUND)
)
# Whoever moves `due_at` has it; the old value is in the condition, so two processes can't both (design D5).
CHANGE = update(outbox).where(
    outbox.c.id == bindparam("key"), outbox.c.status == "waiting", outbox.c.due_at == bindparam("seen")
)
AGAIN = (
    update(outbox)
    .where(outbox.c.id == bindparam("key"), outbox.c.run_id == bindparam("of_run"), outbox.c.status == "failed")
    .values(status="waiting", attempts=0, due_at=bindparam("now"), ended_at=None, problem=None)
)
OF_RUN = select(outbox).where(outbox.c.run_id == bindparam("run_id")).order_by(outbox.c.id)


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a run and how its delivery stands: waiting, sent or failed."""

    id: str
    to: str
    subject: str
    status: str
    attempts: int
    due_at: datetime
    ended_at: datetime | None
    problem: str | None


class Outbox:
    """Keeps messages in the run's transaction and delivers those that are due."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, mailer: Mailer) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._mailer = mailer
        self._wake = threading.Event()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closing = False

    def put(self, connection: Connection, run_id: str, message: Message) -> str:
        """Keep one message in the caller's transaction and give its id, which is also its Message-ID."""
        now, message_id = to_us(self._clock.now()), self._ids.new("msg")
        payload = {"to": message.to, "subject": message.subject, "text": message.text}
        connection.execute(
            INSERT,
            {
                "id": message_id,
                "run_id": run_id,
                "target": message.target,
                "payload": orjson.dumps(payload).decode(),
                "status": "waiting",
                "attempts": 0,
                "due_at": now,
                "created_at": now,
            },
        )
        return message_id

    def wake(self) -> None:
        """Let the thread look now: something was committed."""
        self._wake.set()

    def of_run(self, run_id: str) -> list[Sent]:
        """Give the messages of a run; the caller has checked that the reader may see it."""
        with self._database.read() as connection:
            rows = connection.execute(OF_RUN, {"run_id": run_id}).all()
        return [
            Sent(
                id=row.id,
                **{name: orjson.loads(row.payload).get(name, "") for name in ("to", "subject")},
                status=row.status,
                attempts=row.attempts,
                due_at=from_us(row.due_at),
                ended_at=None if row.ended_at is None else from_us(row.ended_at),
                problem=row.problem,
            )
            for row in rows
        ]

    def send_again(self, connection: Connection, run_id: str, message_id: str) -> bool:
        """Let a message that failed leave again, in the caller's transaction; False when it isn't a failed one."""
        now = to_us(self._clock.now())
        return connection.execute(AGAIN, {"key": message_id, "of_run": run_id, "now": now}).rowcount == 1

    def deliver_due(self) -> int:
        """Deliver what is due, 20 at most, and give how many left; what fails is tried again later, 8 times in all."""
        return sum(self._deliver(row) for row in self._due())

    def has_due(self) -> bool:
        """Tell whether a message is due; one that failed isn't, until it is tried again."""
        return bool(self._due())

    def start(self, *chores: Callable[[], object]) -> None:
        """Start this process's thread once; each round it delivers what is due and does the chores."""
        if self._process == os.getpid():
            return
        with self._start:
            if self._process == os.getpid():
                return
            self._process = os.getpid()
            self._closing = False
            self._thread = threading.Thread(
                target=self._run, args=((self.deliver_due, *chores),), name="outbox", daemon=True
            )
            self._thread.start()
            atexit.register(self.close)

    def close(self) -> None:
        """Deliver what is due, then end the thread."""
        thread, self._closing = self._thread, True
        self._wake.set()
        if thread is not None and self._process == os.getpid():
            thread.join(CLOSE_SECONDS)

    def _run(self, chores: tuple[Callable[[], object], ...]) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(ROUND_SECONDS)
            self._wake.clear()
            is_last = self._closing
            for chore in chores:
                try:
                    chore()
                except Exception:  # nobody else sees it: said here, tried again next round
                    log.warning("a round of the outbox thread failed", exc_info=True)

    def _due(self) -> Sequence[Row[Any]]:
        with self._database.read() as connection:
            return connection.execute(DUE, {"now": to_us(self._clock.now())}).all()

    def _deliver(self, row: Row[Any]) -> bool:
        """Claim one message and hand it over; False when it didn't leave, or somebody else has it."""
        claimed_until = to_us(self._clock.now() + CLAIM)
        if not self._change(row.id, row.due_at, due_at=claimed_until, attempts=row.attempts + 1):
            return False
        payload = orjson.loads(row.payload)
        try:
            self._mailer.deliver(Mail(row.id, payload["to"], payload["subject"], payload["text"]))
        except (OSError, ValueError, KeyError) as error:
            self._put_off(row, claimed_until, error)
            return False
        return self._change(row.id, claimed_until, status="sent", ended_at=to_us(self._clock.now()), problem=None)

    def _put_off(self, row: Row[Any], claimed_until: int, error: Exception) -> None:
        problem = type(error).__name__  # the words of a mail server may hold addresses
        log.warning("message %s could not be delivered, try %d: %s", row.id, row.attempts + 1, problem)
        now = self._clock.now()
        if row.attempts + 1 >= MOST_TRIES:
            self._change(row.id, claimed_until, status="failed", ended_at=to_us(now), problem=problem)
        else:
            again_at = to_us(now + FIRST_RETRY * 2**row.attempts)
            self._change(row.id, claimed_until, due_at=again_at, problem=problem)

    def _change(self, message_id: str, seen: int, **values: object) -> bool:
        with self._database.write() as connection:
            done = connection.execute(CHANGE.values(**values), {"key": message_id, "seen": seen})
        return done.rowcount == 1
