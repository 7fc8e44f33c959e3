"""Connections: what a person has granted, to look at, to change and to end at once."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import exists, func, or_, select, update

from auth.models import client, grant, operator, token
from auth.redirects import shown_host
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import BadRequest, NotFound, ProofFailed
from flows.caller import Role
from flows.models import run
from policy.approval import Proof
from policy.audit import Audit
from policy.scopes import Scopes

ID = re.compile(r"gr_[0-9a-f]{32}", re.ASCII)


class NoRights(BadRequest):
    """A connection without a right is none."""

    code = "nothing_ticked"
    public = "Leave at least one right, or end the connection."
    remedy = "Leave at least one right, or end the connection."


@dataclass(frozen=True, slots=True)
class Connection:
    """One living grant in the words of the page; `effective` is what of `scopes` counts under the role now."""

    grant_id: str
    client_id: str
    client_name: str
    client_kind: str
    hosts: tuple[str, ...]
    scopes: tuple[str, ...]
    effective: frozenset[str]
    version: int
    created_at: datetime
    expires_at: datetime | None
    last_call_at: datetime | None


class Connections:
    """The grants of a person; another person's are unknown."""

    def __init__(self, database: Database, clock: Clock, scopes: Scopes, audit: Audit) -> None:
        self._database = database
        self._clock = clock
        self._scopes = scopes
        self._audit = audit

    def list(self, operator_id: str) -> list[Connection]:
        """Give this person's connections that can still be used, newest first."""
        mine = self._living(operator_id).order_by(grant.c.created_at.desc(), grant.c.id.desc())
        with self._database.read() as connection:
            rows = connection.execute(mine).mappings().all()
            calls = _last_calls(connection, operator_id)
        return [self._connection(row, calls.get(row["id"])) for row in rows]

    def get(self, operator_id: str, grant_id: str) -> Connection:
        """Give one of this person's connections; raise NotFound."""
        _check_id(grant_id)
        with self._database.read() as connection:
            row = connection.execute(self._living(operator_id).where(grant.c.id == grant_id)).mappings().first()
            if row is None:
                raise NotFound
            calls = _last_calls(connection, operator_id, grant_id)
        return self._connection(row, calls.get(grant_id))

    def change(self, operator_id: str, grant_id: str, scopes: Iterable[str], proof: Proof) -> Connection:
        """Make `scopes` the rights of a connection, from the next call on; raise NotFound, NoRights, ProofFailed.

        What can't be consented or the role can't hold is left out, whatever the form says.
        """
        if proof.operator_id != operator_id:
            raise ProofFailed
        _check_id(grant_id)
        wanted = frozenset(scopes)
        with self._database.write() as connection:
            statement = self._living(operator_id).where(grant.c.id == grant_id).with_for_update(of=grant)
            row = connection.execute(statement).mappings().first()
            if row is None:
                raise NotFound
            chosen = self._chosen(wanted, Role(row["role"]))
            before = tuple(row["scopes"].split())
            if set(before) != set(chosen):
                changed = update(grant).where(grant.c.id == grant_id)
                connection.execute(changed.values(scopes=" ".join(chosen), version=grant.c.version + 1))
                self._note_change(connection, row, before, chosen)
        return self.get(operator_id, grant_id)

    def revoke(self, operator_id: str, grant_id: str) -> None:
        """End a connection: no call that starts after this succeeds; raise NotFound for another person's."""
        _check_id(grant_id)
        with self._database.write() as connection:
            mine = select(grant).where(grant.c.id == grant_id, grant.c.operator_id == operator_id)
            row = connection.execute(mine).mappings().first()
            if row is None:
                raise NotFound
            ended = connection.execute(
                update(grant)
                .where(grant.c.id == grant_id, grant.c.revoked_at.is_(None))
                .values(revoked_at=to_us(self._clock.now()))
            )
            if ended.rowcount:
                fields = {"operator_id": operator_id, "client_id": row["client_id"], "grant_id": grant_id}
                self._audit.write(connection, self._audit.row("grant.revoked", **fields))

    def _living(self, operator_id: str) -> Any:
        return (
            select(grant, client.c.name, client.c.kind, client.c.redirect_uris, operator.c.role)
            .join(client, client.c.id == grant.c.client_id)
            .join(operator, operator.c.id == grant.c.operator_id)
            .where(grant.c.operator_id == operator_id, client.c.removed_at.is_(None))
            .where(*usable(to_us(self._clock.now())))
        )

    def _chosen(self, wanted: frozenset[str], role: Role) -> tuple[str, ...]:
        held = self._scopes.of_role(role)
        allowed = tuple(scope for scope in self._scopes.consentable if scope in held)
        chosen = set(self._scopes.with_implied(scope for scope in allowed if scope in wanted))
        if not chosen:
            raise NoRights
        return tuple(scope for scope in allowed if scope in chosen)

    def _note_change(
        self, connection: DatabaseConnection, row: Any, before: tuple[str, ...], after: tuple[str, ...]
    ) -> None:
        fields = {"operator_id": row["operator_id"], "client_id": row["client_id"], "grant_id": row["id"]}
        detail = {
            "added": [scope for scope in after if scope not in before],
            "removed": [scope for scope in before if scope not in after],
        }
        self._audit.write(connection, self._audit.row("grant.changed", detail=detail, **fields))

    def _connection(self, row: Any, last_call_at: int | None) -> Connection:
        scopes = tuple(row["scopes"].split())
        return Connection(
            grant_id=row["id"],
            client_id=row["client_id"],
            client_name=row["name"],
            client_kind=row["kind"],
            hosts=tuple(dict.fromkeys(shown_host(uri) for uri in orjson.loads(row["redirect_uris"]))),
            scopes=scopes,
            effective=self._scopes.effective(scopes, Role(row["role"])),
            version=row["version"],
            created_at=from_us(row["created_at"]),
            expires_at=None if row["expires_at"] is None else from_us(row["expires_at"]),
            last_call_at=None if last_call_at is None else from_us(last_call_at),
        )


def _check_id(grant_id: str) -> None:
    # It comes from an address; PostgreSQL raises for a NUL in a text.
    if not ID.fullmatch(grant_id):
        raise NotFound


def _last_calls(connection: DatabaseConnection, operator_id: str, grant_id: str | None = None) -> dict[str, int]:
    latest = select(run.c.grant_id, func.max(run.c.started_at)).where(run.c.operator_id == operator_id)
    if grant_id is not None:
        latest = latest.where(run.c.grant_id == grant_id)
    rows = connection.execute(latest.group_by(run.c.grant_id)).all()
    return {row[0]: row[1] for row in rows}


def usable(now: int) -> tuple[Any, ...]:
    """Give the conditions of a grant that still gives access: not ended, and with a token that lives."""
    living_token = exists().where(
        token.c.grant_id == grant.c.id, token.c.revoked_at.is_(None), token.c.expires_at > now
    )
    return grant.c.revoked_at.is_(None), or_(grant.c.expires_at.is_(None), grant.c.expires_at > now), living_token


def granted_before(connection: DatabaseConnection, operator_id: str, client_id: str, now: int) -> frozenset[str]:
    """Give every scope in this person's living grants to this client."""
    mine = select(grant.c.scopes).where(grant.c.operator_id == operator_id, grant.c.client_id == client_id)
    rows = connection.execute(mine.where(*usable(now))).scalars().all()
    return frozenset(scope for scopes in rows for scope in scopes.split())


def covers(
    connection: DatabaseConnection,
    scopes: Iterable[str],
    *,
    operator_id: str,
    client_id: str,
    redirect_host: str,
    resource: str,
    since: datetime,
    now: datetime,
) -> bool:
    """Tell whether one usable grant of exactly this kind, not made before `since`, has every one of `scopes`."""
    same = select(grant.c.scopes).where(
        grant.c.operator_id == operator_id,
        grant.c.client_id == client_id,
        grant.c.redirect_host == redirect_host,
        grant.c.resource == resource,
        grant.c.created_at >= to_us(since),
    )
    rows = connection.execute(same.where(*usable(to_us(now)))).scalars().all()
    return any(set(scopes) <= set(held.split()) for held in rows)
