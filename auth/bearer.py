"""A bearer token becomes a Principal here, or a challenge (RFC 6750, RFC 9728 5.1; checklist R3-R6)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, or_, select

from auth.metadata import resource_metadata_url
from auth.models import MACHINE, client, grant, operator, token
from core.clock import Clock, to_us
from core.db import Database
from core.ids import digest_of
from core.prepared import PreparedRead
from core.settings import Settings
from flows.caller import Caller, Role, Surface
from flows.envelope import Refusal
from policy.principal import Principal
from policy.scopes import Scopes

# One credential, nothing beside it: `Bearer x, Bearer x` is none. The scheme in any case (RFC 9110 11.1).
CREDENTIALS = re.compile(r"bearer +(cs_at_[\w-]{43})", re.ASCII | re.IGNORECASE)
SCHEME = re.compile(r"\s*bearer(\s|,|$)", re.IGNORECASE)
SKEW = timedelta(minutes=2)  # between workers; a token from farther ahead means that the clock went back (D11)

# Everything that a token depends on, in one statement: revocation is immediate and no cache can outlive it.
ACCEPTED = (
    token.c.digest == bindparam("digest"),
    token.c.revoked_at.is_(None),
    token.c.expires_at > bindparam("now"),
    token.c.issued_at <= bindparam("latest"),
    grant.c.revoked_at.is_(None),
    or_(grant.c.expires_at.is_(None), grant.c.expires_at > bindparam("now")),
    grant.c.resource == bindparam("resource"),
    operator.c.disabled_at.is_(None),
    client.c.removed_at.is_(None),
)
LIVING = (
    select(
        token.c.narrowed_to,
        grant.c.id.label("grant_id"),
        grant.c.scopes,
        grant.c.version,
        operator.c.id.label("operator_id"),
        operator.c.email,
        operator.c.role,
        operator.c.kind,
        client.c.id.label("client_id"),
        client.c.name,
    )
    .join(grant, grant.c.id == token.c.grant_id)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == grant.c.client_id)
    .where(token.c.kind == "access", *ACCEPTED)
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The answer to a request without the right it needs: status, `WWW-Authenticate`, and a JSON body."""

    status: int
    header: str
    body: Mapping[str, Any]


class Bearer:
    """Judges `Authorization` headers; nothing else makes a Principal of a token."""

    def __init__(self, database: Database, scopes: Scopes, clock: Clock, settings: Settings) -> None:
        self._living = PreparedRead(database.reading, LIVING)
        self._scopes = scopes
        self._clock = clock
        self._resource = settings.resource
        self._metadata = resource_metadata_url(settings)
        self._missing = self._challenge(
            401, "unauthorized", "A bearer token of this server is needed.", scopes.read_scopes, sent=False
        )
        self._invalid = self._challenge(
            401, "invalid_token", "The token is unknown, expired or taken back.", scopes.read_scopes
        )

    def principal(self, authorization: str | None, surface: Surface) -> Principal | Challenge:
        """Give what this header acts as: only with a living token for this resource, else the 401 to answer."""
        if authorization is None or not SCHEME.match(authorization):
            return self._missing
        credentials = CREDENTIALS.fullmatch(authorization.strip())
        if credentials is None:
            return self._invalid
        row = self._living.first(accepted_now(credentials[1], self._clock, self._resource))
        return self._invalid if row is None else self._principal(row, surface)

    def forbidden(self, principal: Principal, refusal: Refusal) -> Challenge:
        """Give the 403 to a call that needs more scopes than it has (checklist R6).

        It names the scopes needed and those held, in one challenge: clients of 2025-11-25 ask for exactly what it
        names, later ones add to what they have.
        """
        scopes = {*refusal.missing_scopes, *(s for s in principal.scopes if s in self._scopes.consentable)}
        return self._challenge(403, "insufficient_scope", "This call needs rights that the token lacks.", scopes)

    def _principal(self, row: Any, surface: Surface) -> Principal:
        role = Role(row.role)
        granted = row.scopes.split()
        if row.narrowed_to is not None:
            narrowed = set(row.narrowed_to.split())
            granted = [scope for scope in granted if scope in narrowed]
        caller = Caller(
            operator_id=row.operator_id,
            email=row.email,
            role=role,
            client_id=row.client_id,
            grant_id=row.grant_id,
            surface=surface,
            scopes=self._scopes.effective(granted, role),
            is_machine=row.kind == MACHINE,
        )
        return Principal(caller, client_name=row.name, grant_version=row.version)

    def _challenge(
        self, status: int, code: str, sentence: str, scopes: Iterable[str], *, sent: bool = True
    ) -> Challenge:
        # Clients read this by regular expression: each name once, every value quoted, and `error` only when a
        # token was sent (RFC 6750 3.1).
        parts = [f'error="{code}"', f'error_description="{sentence}"'] if sent else []
        parts += [f'resource_metadata="{self._metadata}"', f'scope="{" ".join(sorted(set(scopes)))}"']
        return Challenge(status, "Bearer " + ", ".join(parts), {"error": code, "error_description": sentence})


def accepted_now(secret: str, clock: Clock, resource: str) -> dict[str, Any]:
    """Give what `ACCEPTED` is to be asked with, for a token of `resource` at this moment."""
    now = clock.now()
    return {"digest": digest_of(secret), "now": to_us(now), "latest": to_us(now + SKEW), "resource": resource}
