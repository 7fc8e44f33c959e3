"""Codes and tokens: stored as digests, spent and replaced in one transaction (design D2, D3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, InvalidGrantError
from sqlalchemy import Connection, Row, bindparam, func, insert, or_, select, update

from auth.events import ClientEvents, Step
from auth.models import MACHINE, auth_code, client, grant, operator, token
from auth.throttle import address_key, is_one_subscriber
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import TooMany
from core.ids import Ids, digest_of, urlsafe
from core.seal import Sealer
from core.settings import Settings
from flows.caller import Role
from policy.audit import Audit

ACCESS, REFRESH = "access", "refresh"
MOST_OF_A_MACHINE = 100  # living access tokens: more are made by a program that throws them away
MOST_A_GENERATION = 10  # access tokens; whoever repeats more often gets one of these again
REUSED = {
    "code_reused": "A code was used a second time; the connection that it made is ended.",
    "refresh_token_reused": "A replaced refresh token was used again after its grace; the connection is ended.",
}
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
    .where(auth_code.c.digest == bindparam("digest"), *ALIVE)
)
REFRESH_TOKEN = (
    select(token, *OF_GRANT, grant.c.client_id, operator.c.role)
    .join(grant, grant.c.id == token.c.grant_id)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == grant.c.client_id)
    .where(token.c.digest == bindparam("digest"), token.c.kind == REFRESH, grant.c.client_id == bindparam("client_id"))
    .where(*ALIVE)
)
OF_MACHINE = (
    select(grant.c.id, *OF_GRANT, grant.c.client_id, operator.c.role)
    .join(operator, operator.c.id == grant.c.operator_id)
    .join(client, client.c.id == grant.c.client_id)
    .where(grant.c.client_id == bindparam("client_id"), operator.c.kind == MACHINE, *ALIVE)
)
SPEND = (
    update(auth_code)
    .where(auth_code.c.digest == bindparam("code"), auth_code.c.used_at.is_(None))
    .where(auth_code.c.expires_at > bindparam("at"))
    .values(used_at=bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class StoredCode(AuthorizationCodeMixin):  # type: ignore[misc] # Authlib has no types
    """An authorization code as it stands in the database, whoever presents it."""

    digest: str
    client_id: str
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
    client_id: str
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
class MachineAccess:
    """The one grant of a machine's client, as it stands in the database."""

    client_id: str
    grant_id: str
    operator_id: str
    role: Role
    scopes: tuple[str, ...]
    resource: str
    granted_at: datetime


@dataclass(frozen=True, slots=True)
class Family:
    """Where a new token belongs: the tokens of one grant, counted by refreshes."""

    grant_id: str
    granted_at: datetime
    generation: int


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a refresh gives: the access token with the seconds that it lives, and the one successor."""

    access_token: str
    expires_in: int
    refresh_token: str

    def __repr__(self) -> str:
        return "Rotated"


class Tokens:
    """Stores what the server gives out; nobody can read a code or token back."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        sealer: Sealer,
        settings: Settings,
        audit: Audit,
        events: ClientEvents,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._sealer = sealer
        self._lifetimes = settings.lifetimes
        self._audit = audit
        self._events = events

    def new(self, kind: str) -> str:
        """Give a fresh access or refresh token, stored nowhere yet."""
        return self._ids.token("cs_at" if kind == ACCESS else "cs_rt")

    # --- reading --------------------------------------------------------------------------------------------------

    def find_code(self, raw_code: str) -> StoredCode | None:
        """Give a code of any client, used or not, while its grant lives; None for an expired one that nobody used."""
        row = self._find(CODE, raw_code)
        if row is None or (row.used_at is None and row.expires_at <= to_us(self._clock.now())):
            return None
        return StoredCode(
            digest=row.digest,
            client_id=row.client_id,
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
        row = self._find(REFRESH_TOKEN, raw_token, client_id=client_id)
        if row is None or row.revoked_at is not None or row.expires_at <= to_us(self._clock.now()):
            return None
        return StoredRefresh(
            digest=row.digest,
            client_id=row.client_id,
            grant_id=row.grant_id,
            operator_id=row.operator_id,
            role=Role(row.role),
            scopes=tuple(row.scopes.split()),
            resource=row.resource,
            generation=row.generation,
            granted_at=from_us(row.granted_at),
            rotated_at=None if row.rotated_at is None else from_us(row.rotated_at),
        )

    def find_machine_access(self, client_id: str) -> MachineAccess | None:
        """Give the living grant that a machine's client was added with."""
        with self._database.read() as connection:
            row = connection.execute(OF_MACHINE, {"client_id": client_id, "now": to_us(self._clock.now())}).first()
        if row is None:
            return None
        return MachineAccess(
            client_id=row.client_id,
            grant_id=row.id,
            operator_id=row.operator_id,
            role=Role(row.role),
            scopes=tuple(row.scopes.split()),
            resource=row.resource,
            granted_at=from_us(row.granted_at),
        )

    # --- giving ---------------------------------------------------------------------------------------------------

    def redeem(self, code: StoredCode, answer: Mapping[str, Any]) -> None:
        """Spend the code and store the tokens of `answer`, all or nothing; raise InvalidGrantError for a spent one."""
        now = self._clock.now()
        with self._database.write() as connection:
            spent = connection.execute(SPEND, {"code": code.digest, "at": to_us(now)})
            if spent.rowcount != 1:
                raise InvalidGrantError("The code was used already.")
            self.give_first(connection, Family(code.grant_id, code.granted_at, generation=1), answer)
            self._note(connection, Step.TOKEN, "The code became tokens.", code)

    def give_first(self, connection: Connection, family: Family, answer: Mapping[str, Any]) -> None:
        """Store the tokens of `answer` as the first of a grant, in the transaction that spends what they are for."""
        self._store_access(connection, family, answer["access_token"])
        if "refresh_token" in answer:
            self._store_refresh(connection, family, answer["refresh_token"])

    def rotate(
        self,
        presented: StoredRefresh,
        raw_token: str,
        narrowed_to: str | None,
        address: str | None,
    ) -> Rotated:
        """Give an access token of the presented token's next generation and the one successor, both stored.

        A repeat within the grace gets the same successor, whichever key is the current one by then, with an access
        token of its own (design D3): these are derived as well, so that the eleventh gets one of those before it
        again, and no client is locked out by its own processes. One from another network address is on record. Raise
        InvalidGrantError when the presented token died meanwhile, TooMany when no token of this narrowing is left.
        """
        family = Family(presented.grant_id, presented.granted_at, presented.generation + 1)
        with self._database.write() as connection:
            current = connection.execute(
                select(token).where(token.c.digest == presented.digest).with_for_update()
            ).first()
            if current is None or current.revoked_at is not None or not self.in_grace(current.rotated_at):
                raise InvalidGrantError("The refresh token is not valid any more.")
            if current.rotated_at is not None:
                self._note_elsewhere(connection, presented, current.rotated_by, address)
                successor = self._given_before(connection, family, raw_token)
                return self._repeated(connection, family, raw_token, narrowed_to, successor)
            rotated = update(token).where(token.c.digest == presented.digest)
            values = {"rotated_at": to_us(self._clock.now()), "rotated_by": _address_digest(address)}
            connection.execute(rotated.values(values))
            successor = self._successors(raw_token)[0]
            self._store_refresh(connection, family, successor)
            secret = self._access_of(raw_token, 0)[0]
            expires_at = self._store_access(connection, family, secret, narrowed_to)
            self._note(connection, Step.REFRESH, "The refresh token was replaced.", presented)
        return Rotated(secret, self._seconds_until(expires_at), successor)

    def give_to_machine(self, access: MachineAccess, access_token: str, narrowed_to: str | None) -> int:
        """Store a machine's access token and give the seconds that it lives.

        Raise InvalidGrantError when its grant ended meanwhile, TooMany while a hundred of its tokens live.
        """
        family = Family(access.grant_id, access.granted_at, generation=1)
        with self._database.write() as connection:
            living = select(grant.c.id).where(grant.c.id == access.grant_id, grant.c.revoked_at.is_(None))
            if connection.execute(living.with_for_update()).first() is None:
                raise InvalidGrantError("The access of this client has ended.")
            unexpired = (token.c.grant_id == access.grant_id, token.c.expires_at > to_us(self._clock.now()))
            if connection.execute(select(func.count()).where(*unexpired)).scalar_one() >= MOST_OF_A_MACHINE:
                raise TooMany("This client has a hundred tokens that live. Use one of them.", retry_after=60)
            expires_at = self._store_access(connection, family, access_token, narrowed_to)
            self._note(connection, Step.TOKEN, "The machine got a token.", access)
        return self._seconds_until(expires_at)

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
                owner = {"operator_id": ended.operator_id, "grant_id": grant_id, "code": code}
                self._audit.write(connection, self._audit.row("token.reused", client_id=ended.client_id, **owner))
                self._events.write(connection, ended.client_id, Step.TOKEN, REUSED[code], **owner)

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
            owner = {"operator_id": found.operator_id, "grant_id": found.grant_id}
            if found.kind == ACCESS:
                one = update(token).where(token.c.digest == digest_of(raw_token), token.c.revoked_at.is_(None))
                if connection.execute(one.values(revoked_at=now)).rowcount:
                    self._events.write(connection, client_id, Step.REVOKE, "It took back an access token.", **owner)
                return
            ended = connection.execute(
                update(grant).where(grant.c.id == found.grant_id, grant.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            if ended.rowcount:
                row = self._audit.row("grant.revoked", code="by_client", client_id=client_id, **owner)
                self._audit.write(connection, row)
                self._events.write(connection, client_id, Step.REVOKE, "It ended its connection.", **owner)

    def _find(self, statement: Any, secret: str, **given: str) -> Row[Any] | None:
        bound = {"digest": digest_of(secret), "now": to_us(self._clock.now()), **given}
        with self._database.read() as connection:
            return connection.execute(statement, bound).first()

    # --- a repeated refresh ---------------------------------------------------------------------------------------

    def _successors(self, raw_token: str) -> list[str]:
        """Give the refresh token that follows `raw_token` (design D3), and what it was or will be by other keys."""
        return [f"cs_rt_{urlsafe(derived)}" for derived in self._sealer.derive("refresh", raw_token)]

    def _access_of(self, raw_token: str, number: int) -> list[str]:
        """Give the access token that a refresh token gives at its use of this number, and what it is by other keys."""
        return [f"cs_at_{urlsafe(derived)}" for derived in self._sealer.derive("access", f"{number}:{raw_token}")]

    def _given_before(self, connection: Connection, family: Family, raw_token: str) -> str:
        """Give that of the possible successors which the presented token has; raise InvalidGrantError."""
        by_digest = {digest_of(successor): successor for successor in self._successors(raw_token)}
        known = connection.execute(
            select(token.c.digest).where(*_of_family(family), token.c.digest.in_(by_digest))
        ).scalar()
        if known is None:  # its key has been taken away since
            raise InvalidGrantError("The refresh token is not valid any more.")
        return by_digest[known]

    def _repeated(
        self, connection: Connection, family: Family, raw_token: str, narrowed_to: str | None, successor: str
    ) -> Rotated:
        """Give a repeat its access token: a new one while the generation has less than 10, then one of those."""
        given = select(token).where(*_of_family(family), token.c.kind == ACCESS).order_by(token.c.issued_at.desc())
        rows = connection.execute(given).all()
        if len(rows) < MOST_A_GENERATION:
            secret = self._access_of(raw_token, len(rows))[0]
            expires_at = self._store_access(connection, family, secret, narrowed_to)
            return Rotated(secret, self._seconds_until(expires_at), successor)
        numbers = range(MOST_A_GENERATION)
        by_digest = {digest_of(one): one for n in numbers for one in self._access_of(raw_token, n)}
        for row in rows:
            seconds = self._seconds_until(from_us(row.expires_at))
            if row.digest in by_digest and row.narrowed_to == narrowed_to and row.revoked_at is None and seconds > 0:
                return Rotated(by_digest[row.digest], seconds, successor)
        raise TooMany("This refresh token was repeated too often.", retry_after=30)

    def _note_elsewhere(
        self, connection: Connection, presented: StoredRefresh, rotated_by: str | None, address: str | None
    ) -> None:
        given_to = _address_digest(address)
        if given_to is None or rotated_by in (None, given_to):
            return
        sentence = "A replaced refresh token was repeated from another network address."
        self._note(connection, Step.REFRESH, sentence, presented, code="other_address")
        row = self._audit.row(
            "token.repeated",
            operator_id=presented.operator_id,
            client_id=presented.client_id,
            grant_id=presented.grant_id,
            code="other_address",
        )
        self._audit.write(connection, row)

    # --- storing --------------------------------------------------------------------------------------------------

    def _note(
        self,
        connection: Connection,
        step: Step,
        sentence: str,
        of: StoredCode | StoredRefresh | MachineAccess,
        *,
        code: str | None = None,
    ) -> None:
        owner = {"operator_id": of.operator_id, "grant_id": of.grant_id}
        self._events.write(connection, of.client_id, step, sentence, code=code, **owner)

    def _seconds_until(self, moment: datetime) -> int:
        return int((moment - self._clock.now()).total_seconds())

    def _store_access(
        self, connection: Connection, family: Family, secret: str, narrowed_to: str | None = None
    ) -> datetime:
        expires_at = self._clock.now() + self._lifetimes.access_token
        row = self._row(ACCESS, family, secret, expires_at)
        connection.execute(insert(token), {**row, "narrowed_to": narrowed_to})
        return expires_at

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


def _of_family(family: Family) -> tuple[Any, Any]:
    return token.c.grant_id == family.grant_id, token.c.generation == family.generation


def _address_digest(address: str | None) -> str | None:
    # What comes by a proxy that isn't trusted, or from this machine, tells nothing.
    return address_key(address).digest if is_one_subscriber(address) else None
