"""What a token is worth at this moment, for a client that has to know (RFC 7662)."""

from typing import Any

from sqlalchemy import or_, select

from auth.bearer import ACCEPTED, accepted_now
from auth.clients import Client
from auth.models import client, grant, operator, token
from auth.tokens import ACCESS
from core.clock import Clock
from core.db import Database
from core.settings import Settings
from flows.caller import Role
from policy.scopes import Scopes

INACTIVE = {"active": False}  # RFC 7662 2.2: nothing else is said, whatever the reason is
TOKEN = (
    select(
        token.c.kind,
        token.c.narrowed_to,
        token.c.issued_at,
        token.c.expires_at,
        grant.c.scopes,
        grant.c.client_id,
        operator.c.id.label("operator_id"),
        operator.c.email,
        operator.c.role,
    )
    .join(grant, grant.c.id == token.c.grant_id)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == grant.c.client_id)
    .where(or_(token.c.kind == ACCESS, token.c.rotated_at.is_(None)), *ACCEPTED)
)


class Introspection:
    """Judges tokens as `auth/bearer.py` does, by the same conditions."""

    def __init__(self, database: Database, scopes: Scopes, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._scopes = scopes
        self._clock = clock
        self._settings = settings

    def of(self, raw_token: str, asking: Client) -> dict[str, Any]:
        """Give what `asking` may know of a token: of its own, or of every one when it was added for that."""
        with self._database.read() as connection:
            given = accepted_now(raw_token, self._clock, self._settings.resource)
            row = connection.execute(TOKEN, given).first()
        if row is None or (row.client_id != asking.id and not asking.introspects):
            return INACTIVE
        return {
            "active": True,
            "scope": self._scope(row),
            "client_id": row.client_id,
            "username": row.email,
            "sub": row.operator_id,
            "aud": self._settings.resource,
            "iss": self._settings.issuer,
            "iat": row.issued_at // 1_000_000,
            "exp": row.expires_at // 1_000_000,
            **({"token_type": "Bearer"} if row.kind == ACCESS else {}),
        }

    def _scope(self, row: Any) -> str:
        granted = row.scopes.split()
        if row.narrowed_to is not None:
            granted = [scope for scope in granted if scope in row.narrowed_to.split()]
        return " ".join(sorted(self._scopes.effective(granted, Role(row.role))))
