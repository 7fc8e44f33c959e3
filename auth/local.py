"""Named local identities: a token for a script on a person's own machine, made at the command line."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, update

from auth.models import LOCAL, PERSON, client, grant, token
from auth.operators import Operator, Operators
from auth.tokens import ACCESS
from core.clock import Clock, to_us
from core.db import Database
from core.errors import BadRequest, NotFound
from core.ids import Ids, digest_of
from core.settings import Settings
from flows.caller import Surface
from policy.audit import Audit
from policy.scopes import Scopes

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
LONGEST = timedelta(days=366)


class UnknownScope(BadRequest):
    """A scope that nobody can consent to, or that this person's role can't hold."""

    code = "unknown_scope"
    remedy = "Take scopes from the list in the sentence."


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, shown this once."""

    token: str
    client_id: str
    grant_id: str
    scopes: tuple[str, ...]
    expires_at: datetime

    def __repr__(self) -> str:
        return f"IssuedToken({self.client_id}, {self.grant_id})"


class LocalIdentities:
    """Issues tokens of clients `local:NAME`; each is a grant of its own under Connections, and opens no page."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        operators: Operators,
        scopes: Scopes,
        settings: Settings,
        audit: Audit,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._operators = operators
        self._scopes = scopes
        self._settings = settings
        self._audit = audit

    def issue(self, name: str, email: str, scopes: Iterable[str], ttl: timedelta) -> IssuedToken:
        """Make a token that acts as this operator until `ttl` is over; raise BadRequest, UnknownScope, NotFound."""
        if not NAME.fullmatch(name):
            raise BadRequest("A name has 1 to 64 letters, digits, dots, dashes and underscores.")
        if not timedelta(0) < ttl <= LONGEST:
            raise BadRequest("A token lives from 1 second to 366 days.")
        owner = self._owner(email)
        granted = granted_by_hand(self._scopes, tuple(scopes), owner)
        now = self._clock.now()
        issued = IssuedToken(self._ids.token("cs_at"), f"local:{name}", self._ids.new("gr"), granted, now + ttl)
        with self._database.write() as connection:
            self._ensure_client(connection, issued.client_id, name)
            self._store(connection, issued, owner.id, to_us(now))
        return issued

    def _owner(self, email: str) -> Operator:
        owner = self._operators.find_by_email(email)
        if owner is None or owner.disabled_at is not None or owner.kind != PERSON:
            raise NotFound("There is no active operator with this e-mail address.")
        return owner

    def _ensure_client(self, connection: Connection, client_id: str, name: str) -> None:
        if connection.execute(select(client.c.id).where(client.c.id == client_id)).first() is not None:
            # Removing a client ended its grants, so that bringing its name back brings no old token back.
            connection.execute(update(client).where(client.c.id == client_id).values(removed_at=None))
            return
        row = {
            "id": client_id,
            "kind": LOCAL,
            "name": name,
            "auth_method": "none",
            "redirect_uris": "[]",
            "registration": "{}",
            "created_at": to_us(self._clock.now()),
        }
        connection.execute(insert(client), row)

    def _store(self, connection: Connection, issued: IssuedToken, operator_id: str, now: int) -> None:
        until = to_us(issued.expires_at)
        owner = {"operator_id": operator_id, "client_id": issued.client_id}
        granted = {"id": issued.grant_id, "scopes": " ".join(issued.scopes), "version": 1, "expires_at": until}
        connection.execute(insert(grant), {**granted, **owner, "resource": self._settings.resource, "created_at": now})
        secret = {"digest": digest_of(issued.token), "kind": ACCESS, "grant_id": issued.grant_id, "generation": 1}
        connection.execute(insert(token), {**secret, "issued_at": now, "expires_at": until})
        fields: dict[str, Any] = {"detail": {"scopes": list(issued.scopes)}, "surface": Surface.CLI.value, **owner}
        self._audit.write(connection, self._audit.row("grant.made", grant_id=issued.grant_id, **fields))


def granted_by_hand(known: Scopes, scopes: tuple[str, ...], owner: Operator) -> tuple[str, ...]:
    """Give what a grant made at the command line holds; raise UnknownScope for what this operator can't hold."""
    held = known.of_role(owner.role)
    allowed = tuple(scope for scope in known.consentable if scope in held)
    unknown = sorted(set(scopes) - set(allowed))
    if unknown or not scopes:
        named = ", ".join(unknown) or "no scope at all"
        raise UnknownScope(f"{owner.email} can't grant {named}. Possible: {' '.join(allowed)}.")
    implied = set(known.with_implied(scopes))
    return tuple(scope for scope in allowed if scope in implied)
