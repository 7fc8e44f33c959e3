"""Codes and tokens: stored as digests, spent and replaced in one transaction (design D2, D3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, InvalidGrantError
from sqlalchemy import Connection, Row, bindparam, func, insert, or_, select, update

from auth.models import auth_code, client, grant, operator, token
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import TooMany
from core.ids import Ids, digest_of, urlsafe
from core.seal import Sealer
from core.settings import Settings
from flows.caller import Role
from policy.audit import Audit

ACCESS, REFRESH = "access", "refresh"
MOST_A_GENERATION = 10  # access tokens; parallel refreshes of one client's processes stay below
ALIVE = (  # what a code or token depends on; `now` is bound
    grant.c.revoked_at.is_(None),
    or_(grant.c.expires_at.is_(None), grant.c.expires_at > bindparam("now")),
    operator.c.disabled_at.is_(None),
    client.c.removed_at.is_(None),
)
OF_GRANT = (grant.c.scopes, grant.c.resource, grant.c.created_at.label("granted_at"), grant.c.operator_id)
CODE = (
    select(auth_code, *OF_GRANT, operator.c.role)
    .join(grant, grant.c.id == auth_code.c.grant_id)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == auth_code.c.client_id)
    .where(auth_code.c.digest == bindparam("digest"), auth_code.c.client_id == bindparam("client_id"), *ALIVE)
)
REFRESH_TOKEN = (
    select(token, *OF_GRANT, operator.c.role)
    .join(grant, grant.c.id == token.c.grant_id)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == grant.c.client_id)
    .where(token.c.digest == bindparam("digest"), token.c.kind == REFRESH, grant.c.client_id == bindparam("client_id"))
    .where(*ALIVE)
)
SPEND = (
    update(auth_code)
    .where(auth_code.c.digest == bindparam("code"), auth_code.c.used_at.is_(None))
    .where(auth_code.c.expires_at > bindparam("at"))
    .values(used_at=bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class StoredCode(AuthorizationCodeMixin):  # type: ignore[misc] # Authlib has no types
    """An authorization code of the asking client, as it stands in the database."""

    digest: str
    grant_id: str
    operator_id: str
    role: Role
    scopes: tuple[str, ...]
    resource: str
    redirect_uri: str
    code_challenge: str
    granted_at: datetime
    expires_at: datetime
    used_at: datetime | None

    def get_redirect_uri(self) -> str:
        """Give the address that the code was sent to."""
        return self.redirect_uri

    def get_scope(self) -> str:
        """Give the granted scopes as the wire writes them."""
        return " ".join(self.scopes)


@dataclass(frozen=True, slots=True)
class StoredRefresh:
    """A refresh token of the asking client, as it stands in the database."""

    digest: str
    grant_id: str
    operator_id: str
    role: Role
    scopes: tuple[str, ...]
    resource: str
    generation: int
    granted_at: datetime
    rotated_at: datetime | None

    def check_client(self, _client: object) -> bool:
        """Say yes: it was looked up by its client."""
        return True


@dataclass(frozen=True, slots=True)
class Family:
    """Where a new token belongs: the tokens of one grant, counted by refreshes."""

    grant_id: str
    granted_at: datetime
    generation: int


class Tokens:
    """Stores what the server gives out; nobody can read a code or token back."""

    def __init__(
        self, *, database: Database, ids: Ids, clock: Clock, sealer: Sealer, settings: Settings, audit: Audit
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._sealer = sealer
        self._lifetimes = settings.lifetimes
        self._audit = audit

    def new(self, kind: str) -> str:
        """Give a fresh access or refresh token, stored nowhere yet."""
        return self._ids.token("cs_at" if kind == ACCESS else "cs_rt")

    # --- reading --------------------------------------------------------------------------------------------------

    def find_code(self, raw_code: str, client_id: str) -> StoredCode | None:
        """Give this client's code, used or not, while its grant lives; None for an expired one that nobody used."""
        row = self._find(CODE, raw_code, client_id)
        if row is None or (row.used_at is None and row.expires_at <= to_us(self._clock.now())):
            return None
        return StoredCode(
            digest=row.digest,
            grant_id=row.grant_id,
            operator_id=row.operator_id,
            role=Role(row.role),
            scopes=tuple(row.scopes.split()),
            resource=row.resource,
            redirect_uri=row.redirect_uri,
            code_challenge=row.code_challenge,
            granted_at=from_us(row.granted_at),
            expires_at=from_us(row.expires_at),
            used_at=None if row.used_at is None else from_us(row.used_at),
        )

    def find_refresh(self, raw_token: str, client_id: str) -> StoredRefresh | None:
        """Give this client's refresh token, rotated or not, while it and its grant live."""
        row = self._find(REFRESH_TOKEN, raw_token, client_id)
        if row is None or row.revoked_at is not None or row.expires_at <= to_us(self._clock.now()):
            return None
        return StoredRefresh(
            digest=row.digest,
            grant_id=row.grant_id,
            operator_id=row.operator_id,
            role=Role(row.role),
            scopes=tuple(row.scopes.split()),
            resource=row.resource,
            generation=row.generation,
            granted_at=from_us(row.granted_at),
            rotated_at=None if row.rotated_at is None else from_us(row.rotated_at),
        )

    # --- giving ---------------------------------------------------------------------------------------------------

    def redeem(self, code: StoredCode, answer: Mapping[str, Any]) -> None:
        """Spend the code and store the tokens of `answer`, all or nothing; raise InvalidGrantError for a spent one."""
        now = self._clock.now()
        with self._database.write() as connection:
            spent = connection.execute(SPEND, {"code": code.digest, "at": to_us(now)})
            if spent.rowcount != 1:
                raise InvalidGrantError("The code was used already.")
            family = Family(code.grant_id, code.granted_at, generation=1)
            self._store_access(connection, family, answer["access_token"])
            if "refresh_token" in answer:
                self._store_refresh(connection, family, answer["refresh_token"])

    def rotate(self, presented: StoredRefresh, raw_token: str, access_token: str, narrowed_to: str | None) -> str:
        """Store `access_token` as of the presented token's next generation and give the one successor, stored too.

        A repeat within the grace gets the same successor, whichever key is the current one by then. Raise
        InvalidGrantError when the presented token died meanwhile, TooMany after 10 repeats.
        """
        successors = self._successors(raw_token)
        family = Family(presented.grant_id, presented.granted_at, presented.generation + 1)
        with self._database.write() as connection:
            current = connection.execute(
                select(token).where(token.c.digest == presented.digest).with_for_update()
            ).first()
            if current is None or current.revoked_at is not None or not self.in_grace(current.rotated_at):
                raise InvalidGrantError("The refresh token is not valid any more.")
            if current.rotated_at is None:
                rotated = update(token).where(token.c.digest == presented.digest)
                connection.execute(rotated.values(rotated_at=to_us(self._clock.now())))
                successor = successors[0]
                self._store_refresh(connection, family, successor)
            else:
                successor = self._given_before(connection, family, successors)
            self._store_access(connection, family, access_token, narrowed_to)
        return successor

    def in_grace(self, rotated_at: int | None) -> bool:
        """Tell whether a refresh token rotated at `rotated_at` (microseconds) may still be repeated."""
        if rotated_at is None:
            return True
        return self._clock.now() - from_us(rotated_at) <= self._lifetimes.refresh_grace

    # --- taking back ----------------------------------------------------------------------------------------------

    def end_family(self, grant_id: str, code: str) -> None:
        """End a grant and with it every token that it gave, because of `code`; in a transaction of its own."""
        with self._database.write() as connection:
            ended = connection.execute(
                update(grant)
                .where(grant.c.id == grant_id, grant.c.revoked_at.is_(None))
                .values(revoked_at=to_us(self._clock.now()))
                .returning(grant.c.operator_id, grant.c.client_id)
            ).first()
            if ended is not None:
                row = self._audit.row(
                    "token.reused",
                    operator_id=ended.operator_id,
                    client_id=ended.client_id,
                    grant_id=grant_id,
                    code=code,
                )
                self._audit.write(connection, row)

    def revoke(self, raw_token: str, client_id: str) -> None:
        """Take back a token of this client (RFC 7009): an access token alone, a refresh token with its whole family."""
        with self._database.write() as connection:
            found = connection.execute(
                select(token.c.kind, token.c.grant_id, grant.c.operator_id)
                .join(grant, grant.c.id == token.c.grant_id)
                .where(token.c.digest == digest_of(raw_token), grant.c.client_id == client_id)
            ).first()
            if found is None:
                return
            now = to_us(self._clock.now())
            if found.kind == ACCESS:
                one = update(token).where(token.c.digest == digest_of(raw_token), token.c.revoked_at.is_(None))
                connection.execute(one.values(revoked_at=now))
                return
            ended = connection.execute(
                update(grant).where(grant.c.id == found.grant_id, grant.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            if ended.rowcount:
                fields = {"operator_id": found.operator_id, "client_id": client_id, "grant_id": found.grant_id}
                self._audit.write(connection, self._audit.row("grant.revoked", code="by_client", **fields))

    def _find(self, statement: Any, secret: str, client_id: str) -> Row[Any] | None:
        given = {"digest": digest_of(secret), "client_id": client_id, "now": to_us(self._clock.now())}
        with self._database.read() as connection:
            return connection.execute(statement, given).first()

    def _successors(self, raw_token: str) -> list[str]:
        """Give the refresh token that follows `raw_token` (design D3), and what it was or will be by other keys."""
        return [f"cs_rt_{urlsafe(derived)}" for derived in self._sealer.derive("refresh", raw_token)]

    def _given_before(self, connection: Connection, family: Family, successors: list[str]) -> str:
        """Give that of the possible successors which the presented token has; raise TooMany, InvalidGrantError."""
        of_family = (token.c.grant_id == family.grant_id, token.c.generation == family.generation)
        given = select(func.count()).where(*of_family, token.c.kind == ACCESS)
        if connection.execute(given).scalar_one() >= MOST_A_GENERATION:
            raise TooMany("This refresh token was repeated too often.", retry_after=30)
        by_digest = {digest_of(successor): successor for successor in successors}
        known = connection.execute(select(token.c.digest).where(*of_family, token.c.digest.in_(by_digest))).scalar()
        if known is None:  # its key has been taken away since
            raise InvalidGrantError("The refresh token is not valid any more.")
        return by_digest[known]

    def _store_access(
        self, connection: Connection, family: Family, secret: str, narrowed_to: str | None = None
    ) -> None:
        expires_at = self._clock.now() + self._lifetimes.access_token
        row = self._row(ACCESS, family, secret, expires_at)
        connection.execute(insert(token), {**row, "narrowed_to": narrowed_to})

    def _store_refresh(self, connection: Connection, family: Family, secret: str) -> None:
        # Sliding, but never beyond the longest life of a grant's family (checklist K4).
        idle = self._clock.now() + self._lifetimes.refresh_idle
        expires_at = min(idle, family.granted_at + self._lifetimes.refresh_absolute)
        connection.execute(insert(token), self._row(REFRESH, family, secret, expires_at))

    def _row(self, kind: str, family: Family, secret: str, expires_at: datetime) -> dict[str, Any]:
        return {
            "digest": digest_of(secret),
            "kind": kind,
            "grant_id": family.grant_id,
            "generation": family.generation,
            "issued_at": to_us(self._clock.now()),
            "expires_at": to_us(expires_at),
        }
