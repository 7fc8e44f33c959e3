"""Confirmations as stored: single statements, each in the caller's transaction, times in microseconds."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Update,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from core.ids import digest_of
from flows.caller import Caller
from flows.envelope import Status
from flows.models import run
from flows.operation import Flow, Rule
from policy.models import confirm_token, confirmation

MOST_TOKENS = 5
ID = re.compile("cf_[0-9a-f]{32}")


class State(StrEnum):
    """How a confirmation stands."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    SPENT = "spent"
    EXPIRED = "expired"


OPEN = (State.PENDING, State.APPROVED)
ENDED = {"open_key": None, "arguments": None}  # a call that can't run any more keeps no arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One row of cs_confirmation."""

    id: str
    open_key: str | None
    state: str
    rule: str
    operator_id: str
    client_id: str
    grant_id: str
    flow_id: str
    flow_version: int
    digest: str
    arguments: str | None
    summary: str
    reason: str | None
    created_at: int
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    approved_at: int | None
    note: str | None
    used_at: int | None
    run_id: str | None

    def state_at(self, now: int) -> State:
        """Give the state that counts at `now`: an open one whose time is over is expired, whatever the row says."""
        state = State(self.state)
        return State.EXPIRED if state in OPEN and self.expires_at <= now else state

    @property
    def unconfirmed(self) -> bool:
        """Whether it was approved without a person (rule `client`)."""
        return self.approved_at is not None and self.decided_by is None

    def was_asked_by(self, caller: Caller) -> bool:
        """Whether exactly this operator asked, by this client under this grant."""
        asker = (self.operator_id, self.client_id, self.grant_id)
        return asker == (caller.operator_id, caller.client_id, caller.grant_id)

    def covers(self, flow: Flow, digest: str, rule: Rule) -> bool:
        """Whether it was asked for exactly this call under this rule."""
        return (self.flow_id, self.flow_version, self.digest, self.rule) == (flow.id, flow.version, digest, rule.value)


def open_key(caller: Caller, flow: Flow, digest: str, rule: Rule) -> str:
    """Give the identity of a call while it waits; a stricter rule makes it another question."""
    identity = [caller.operator_id, caller.client_id, caller.grant_id, flow.id, flow.version, digest, rule.value]
    return digest_of(orjson.dumps(identity).decode())


def one_at_a_time(connection: Connection, grant_id: str) -> None:
    """Let no other transaction open confirmations of this grant before this one ends, so that counting them holds."""
    if connection.dialect.name == "postgresql":  # SQLite's BEGIN IMMEDIATE did it already
        key = int(digest_of(f"confirmation:{grant_id}")[:15], 16)
        connection.execute(select(func.pg_advisory_xact_lock(literal(key))))


def find(connection: Connection, confirmation_id: str) -> Stored | None:
    """Give the confirmation of this id, which may be any text."""
    return _first(connection, confirmation.c.id == confirmation_id) if ID.fullmatch(confirmation_id) else None


def find_of(connection: Connection, caller: Caller, confirmation_id: str) -> Stored | None:
    """Give the confirmation of this id if exactly this principal asked for it."""
    found = find(connection, confirmation_id)
    return found if found is not None and found.was_asked_by(caller) else None


def find_by_token(connection: Connection, caller: Caller, token: str) -> Stored | None:
    """Give the confirmation of this token if exactly this principal asked for it."""
    holds = select(confirm_token.c.confirmation_id).where(confirm_token.c.digest == digest_of(token))
    found = _first(connection, confirmation.c.id == holds.scalar_subquery())
    return found if found is not None and found.was_asked_by(caller) else None


def find_open(connection: Connection, key: str) -> Stored | None:
    """Give the open confirmation of this call."""
    return _first(connection, confirmation.c.open_key == key)


def find_denied(connection: Connection, caller: Caller, flow: Flow, digest: str, since: int) -> Stored | None:
    """Give the newest denial of this call after `since`."""
    grant = and_(confirmation.c.operator_id == caller.operator_id, confirmation.c.grant_id == caller.grant_id)
    call = and_(grant, confirmation.c.flow_id == flow.id, confirmation.c.digest == digest)
    denied = and_(confirmation.c.state == State.DENIED, confirmation.c.decided_at > since)
    newest = select(confirmation).where(call, denied).order_by(confirmation.c.decided_at.desc()).limit(1)
    return _read(connection.execute(newest).mappings().first())


def find_ran_before(connection: Connection, stored: Stored, since: int) -> tuple[str, int] | None:
    """Give the run id and time of the same call of the same person that ran after `since`."""
    ran = or_(*(run.c.status == status for status in (Status.DONE, Status.RUNNING, Status.UNKNOWN)))
    same = and_(confirmation.c.operator_id == stored.operator_id, confirmation.c.digest == stored.digest)
    newest = (
        select(run.c.id, confirmation.c.used_at)
        .join(run, run.c.id == confirmation.c.run_id)
        .where(same, confirmation.c.state == State.SPENT, confirmation.c.used_at > since, ran)
        .order_by(confirmation.c.used_at.desc())
        .limit(1)
    )
    row = connection.execute(newest).first()
    return (row[0], row[1]) if row else None


def outcome_of(connection: Connection, run_id: str | None) -> Status | None:
    """Give how the run ended, or stands; None when its record is gone."""
    found = connection.execute(select(run.c.status).where(run.c.id == run_id)).scalar()
    return Status(found) if found else None


def find_of_run(connection: Connection, run_id: str) -> Stored | None:
    """Give the confirmation that a run was started with."""
    started_with = select(run.c.confirmation_id).where(run.c.id == run_id)
    return _first(connection, confirmation.c.id == started_with.scalar_subquery())


def waiting_for(connection: Connection, operator_id: str, now: int) -> list[Stored]:
    """Give what waits for this person, oldest first."""
    mine = and_(confirmation.c.operator_id == operator_id, confirmation.c.state == State.PENDING)
    rows = connection.execute(
        select(confirmation).where(mine, confirmation.c.expires_at > now).order_by(confirmation.c.id)
    )
    return [Stored(**row) for row in rows.mappings()]


def count_open(connection: Connection, grant_id: str) -> int:
    """Count what this grant has open."""
    is_open = and_(confirmation.c.grant_id == grant_id, confirmation.c.state.in_(OPEN))
    return int(connection.execute(select(func.count()).select_from(confirmation).where(is_open)).scalar_one())


def insert_unless_open(connection: Connection, row: dict[str, Any]) -> None:
    """Insert a confirmation unless the same call has one open."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(confirmation).on_conflict_do_nothing(index_elements=["open_key"])
    connection.execute(statement, row)


def add_reason(connection: Connection, confirmation_id: str, reason: str | None) -> bool:
    """Keep the agent's first reason while nobody has decided; say whether this one was kept."""
    unexplained = and_(confirmation.c.reason.is_(None), confirmation.c.state == State.PENDING)
    chosen = update(confirmation).where(confirmation.c.id == confirmation_id, unexplained)
    return connection.execute(chosen.values(reason=reason)).rowcount == 1


def keep_token(connection: Connection, confirmation_id: str, token: str, now: int) -> None:
    """Keep the digest of a new token; with five alive the newest of them makes room.

    Not the oldest: an agent may hold on to the first token it got while each question how it stands mints another.
    """
    of_it = confirm_token.c.confirmation_id == confirmation_id
    kept = connection.execute(
        select(confirm_token.c.digest, confirm_token.c.created_at).where(of_it).order_by(confirm_token.c.created_at)
    ).all()
    for surplus in kept[MOST_TOKENS - 1 :]:
        connection.execute(delete(confirm_token).where(confirm_token.c.digest == surplus.digest))
    created_at = max(now, kept[-1].created_at + 1) if kept else now  # strictly rising, so that newest is well defined
    connection.execute(
        insert(confirm_token),
        {"digest": digest_of(token), "confirmation_id": confirmation_id, "created_at": created_at},
    )


def mark_expired(connection: Connection, confirmation_id: str, now: int) -> None:
    """Move one confirmation to expired if it is open beyond its time."""
    connection.execute(_expire(confirmation.c.id == confirmation_id, now))


def withdraw(connection: Connection, confirmation_id: str, state: State) -> None:
    """Move one confirmation to expired before its time if it still stands so."""
    stands = and_(confirmation.c.id == confirmation_id, confirmation.c.state == state)
    connection.execute(update(confirmation).where(stands).values(state=State.EXPIRED, **ENDED))


def end_overdue_of(connection: Connection, grant_id: str, now: int) -> None:
    """Move what this grant has open beyond its time to expired, which frees its calls to be asked for again."""
    connection.execute(_expire(confirmation.c.grant_id == grant_id, now))


def end_overdue(connection: Connection, now: int) -> int:
    """Move everything that is open beyond its time to expired; say how many.

    What another transaction holds is skipped: it is just being decided or spent, and waiting could end in a deadlock.
    """
    overdue = select(confirmation.c.id).where(_overdue(now)).with_for_update(skip_locked=True)
    return connection.execute(_expire(confirmation.c.id.in_(overdue), now)).rowcount


def mark_decided(
    connection: Connection,
    stored: Stored,
    now: int,
    *,
    approved_until: int | None,
    decided_by: str | None,
    note: str | None,
) -> bool:
    """Decide it unless it is decided or too late: approved until then, or denied; say whether this decided it."""
    values: dict[str, Any] = {"decided_at": now, "decided_by": decided_by, "note": note}
    if approved_until is None:
        values |= {"state": State.DENIED, **ENDED}
    else:
        values |= {"state": State.APPROVED, "approved_at": now, "expires_at": approved_until}
    undecided = and_(confirmation.c.state == State.PENDING, confirmation.c.expires_at > now)
    chosen = and_(confirmation.c.id == stored.id, confirmation.c.operator_id == stored.operator_id, undecided)
    return connection.execute(update(confirmation).where(chosen).values(values)).rowcount == 1


def mark_spent(
    connection: Connection, confirmation_id: str, run_id: str, now: int, *conditions: ColumnElement[bool]
) -> bool:
    """Spend it for this run unless it is spent or a condition doesn't hold; say whether this spent it."""
    unused = and_(confirmation.c.id == confirmation_id, confirmation.c.used_at.is_(None), *conditions)
    values = {"state": State.SPENT, "used_at": now, "run_id": run_id, **ENDED}
    return connection.execute(update(confirmation).where(unused).values(values)).rowcount == 1


def spendable(flow_version: int, digest: str, now: int) -> ColumnElement[bool]:
    """What must hold of a confirmation at the moment at which it is spent (design D4)."""
    return and_(
        confirmation.c.state == State.APPROVED,
        confirmation.c.approved_at.is_not(None),
        confirmation.c.expires_at > now,
        confirmation.c.flow_version == flow_version,
        confirmation.c.digest == digest,
    )


def _overdue(now: int) -> ColumnElement[bool]:
    return and_(confirmation.c.state.in_(OPEN), confirmation.c.expires_at <= now)


def _expire(chosen: ColumnElement[bool], now: int) -> Update:
    return update(confirmation).where(chosen, _overdue(now)).values(state=State.EXPIRED, **ENDED)


def _first(connection: Connection, *conditions: ColumnElement[bool]) -> Stored | None:
    return _read(connection.execute(select(confirmation).where(*conditions)).mappings().first())


def _read(row: RowMapping | None) -> Stored | None:
    return Stored(**row) if row is not None else None
