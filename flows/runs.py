"""The rows of a write's run: who may repeat it under which name, how it stands, and its one conditional end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from core.db import Database
from core.errors import Conflict
from flows.effects import Verb
from flows.envelope import Status
from flows.models import request_key, run, step
from flows.reconcile import REAPED
from flows.trace import RUN_BY_ID, RunRecord, record_of

INTERRUPTED = "The server stopped in the middle of this. Nothing was changed, and it can be tried again."
MOST_REAPED = 100  # a round
KEY = ("operator_id", "client_id", "flow_id", "request_id")

INSERT_RUN = insert(run)
INSERT_STEP = insert(step)
DROP_STEPS = delete(step).where(step.c.run_id == bindparam("run_id"))
CALLED = select(step.c.run_id).where(step.c.run_id == bindparam("run_id"), step.c.verb == Verb.CALL.value).limit(1)
EXTEND = (
    update(run)
    .where(run.c.id == bindparam("key"), run.c.status == Status.RUNNING.value)
    .values(lease_until=bindparam("until"))
)
SAME_KEY = [request_key.c[name] == bindparam(name) for name in KEY]
HOLDER = (
    select(request_key.c.plan, request_key.c.created_at, *run.c)
    .join_from(request_key, run, run.c.id == request_key.c.run_id)
    .where(*SAME_KEY)
)
FREE_KEY = delete(request_key).where(request_key.c.run_id == bindparam("run_id"))
# The one way in which a run ends: whoever finds it not running any more changes nothing (design D6).
END = (
    update(run)
    .where(run.c.id == bindparam("key"), run.c.status == Status.RUNNING.value)
    .values({name: bindparam(f"new_{name}") for name in ("status", "result", "code", "message", "ended_at")})
)
OVERDUE = (
    select(run.c.id)
    .where(run.c.status == Status.RUNNING.value, run.c.lease_until < bindparam("now"))
    .order_by(run.c.lease_until)
    .limit(MOST_REAPED)
)
REAP = END.where(run.c.lease_until < bindparam("now"))


@dataclass(frozen=True, slots=True)
class Held:
    """The run that holds a request id, and the digest of the arguments that it was given."""

    plan: str
    run: RunRecord


class Runs:
    """Writes and reads the rows; each method is part of its caller's transaction."""

    def __init__(self, database: Database, key_lifetime: timedelta) -> None:
        self._database = database
        self._key_lifetime = key_lifetime // timedelta(microseconds=1)
        dialect = sqlite if database.is_sqlite else postgresql
        claim = dialect.insert(request_key).on_conflict_do_nothing()
        self._claim_key = claim.execution_options(preserve_rowcount=True)  # else psycopg's is gone for an INSERT

    def accept(self, connection: Connection, row: Mapping[str, Any], plan: str) -> Held | None:
        """Insert the run with its request key, or give the run that already holds the key."""
        if row["request_id"] is not None:
            held = self._claim(connection, row, plan)
            if held is not None:
                return held
        connection.execute(INSERT_RUN, row)
        return None

    def holder(self, connection: Connection, key: Mapping[str, Any], now: int) -> Held | None:
        """Give the run that holds the key (operator, client, flow, request id), unless its 30 days are over."""
        row = self._find_row(connection, key)
        return None if row is None or self._is_over(row, now) else Held(row.plan, record_of(row))

    def get(self, connection: Connection, run_id: str) -> RunRecord:
        """Give an accepted run."""
        return record_of(connection.execute(RUN_BY_ID, {"id": run_id}).one())

    def end(self, connection: Connection, run_id: str, *, now: int, **outcome: Any) -> bool:
        """Write the outcome (status, result, code, message); False when the run isn't running any more."""
        return connection.execute(END, _new(run_id, now, outcome)).rowcount == 1

    def add_steps(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert the steps of a run."""
        if rows:
            connection.execute(INSERT_STEP, rows)

    def drop_steps(self, connection: Connection, run_id: str) -> None:
        """Delete the steps of a run that were written before its call."""
        connection.execute(DROP_STEPS, {"run_id": run_id})

    def extend(self, connection: Connection, run_id: str, until: int) -> bool:
        """Move the end of a run's lease; False when it isn't running any more."""
        return connection.execute(EXTEND, {"key": run_id, "until": until}).rowcount == 1

    def free_key(self, connection: Connection, run_id: str) -> None:
        """Let the request id of a run be used again."""
        connection.execute(FREE_KEY, {"run_id": run_id})

    def overdue(self, now: int) -> Sequence[str]:
        """Give the ids of running runs whose lease is over, at most 100."""
        with self._database.read() as connection:
            return connection.execute(OVERDUE, {"now": now}).scalars().all()

    def reap(self, connection: Connection, run_id: str, now: int) -> RunRecord | None:
        """End a run whose lease is over; None when it had ended by itself.

        Where it hasn't called the outside nothing was changed, and its key is free again.
        """
        has_called = connection.execute(CALLED, {"run_id": run_id}).first() is not None
        status, message = (Status.UNKNOWN, REAPED) if has_called else (Status.INTERRUPTED, INTERRUPTED)
        outcome = {"status": status.value, "result": None, "code": status.value, "message": message}
        # A run that leaves for its call meanwhile has moved its lease: this then changes nothing.
        if connection.execute(REAP, {**_new(run_id, now, outcome), "now": now}).rowcount != 1:
            return None
        if not has_called:
            self.free_key(connection, run_id)
        return self.get(connection, run_id)

    def _claim(self, connection: Connection, row: Mapping[str, Any], plan: str) -> Held | None:
        key = {name: row[name] for name in KEY}
        values = {**key, "plan": plan, "run_id": row["id"], "created_at": row["started_at"]}
        if connection.execute(self._claim_key, values).rowcount == 1:
            return None
        holder = self._find_row(connection, key)
        if holder is not None:
            if not self._is_over(holder, row["started_at"]):
                return Held(holder.plan, record_of(holder))
            self.free_key(connection, holder.id)  # this run's key: another call may have taken it over by now
        if connection.execute(self._claim_key, values).rowcount != 1:
            raise Conflict
        return None

    def _find_row(self, connection: Connection, key: Mapping[str, Any]) -> Row[Any] | None:
        return connection.execute(HOLDER, {name: key[name] for name in KEY}).one_or_none()

    def _is_over(self, row: Row[Any], now: int) -> bool:
        return bool(row.created_at + self._key_lifetime < now)


def _new(run_id: str, now: int, outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": run_id, "new_ended_at": now, **{f"new_{name}": value for name, value in outcome.items()}}
