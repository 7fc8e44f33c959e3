"""Devices without a browser: codes that are shown there, typed here, and become tokens once (RFC 8628)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from authlib.oauth2.rfc6749 import AccessDeniedError, InvalidGrantError
from authlib.oauth2.rfc8628 import AuthorizationPendingError, ExpiredTokenError, SlowDownError
from sqlalchemy import Connection, func, insert, select, update

from auth.clients import Client
from auth.events import ClientEvents, Step
from auth.grant_types import INNOCENT_REPEAT, Reused, TokenAnswer
from auth.models import client, device, grant, operator
from auth.purge import device_codes
from auth.sessions import SignedIn, require_living
from auth.throttle import Key, Throttle, address_key, is_one_subscriber, lock
from auth.ticked import NothingTicked
from auth.tokens import ALIVE, Family, Tokens
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import AppError, ProofFailed, TooMany
from core.ids import Ids, digest_of
from core.purge import take_some
from core.seal import Sealer
from core.settings import Settings
from flows.caller import Role
from policy.approval import Proof
from policy.audit import Audit
from policy.scopes import Kind, Scopes, ScopeWords

# 20 letters without vowels, so that no code is a word (RFC 8628 6.1): 8 of them are 34 bits.
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
CODE_LENGTH = 8
INTERVAL = 5  # seconds between two polls
MOST_WAITING = 20  # codes of one client that wait for a person
ADDRESS_FACTOR = 4  # codes for one network address: 20 in 15 minutes, 60 in 2 hours, 160 in a day
ALLOW, DENY = "allow", "deny"


class DeviceCodeOver(AppError):
    """The code can't be answered any more: its time is over, or somebody has answered."""

    code = "device_code_over"
    status = 410
    public = "This code is not waiting for an answer any more. Nothing was connected."
    remedy = "Let the device show a new code, and type that."


@dataclass(frozen=True, slots=True)
class Begun:
    """Two codes: one that the device keeps, and one that its person types; shown this once."""

    device_code: str
    user_code: str
    expires_in: int

    def __repr__(self) -> str:
        return "Begun"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a code asks for, as it stands on the server."""

    digest: str
    client_id: str
    scopes: tuple[str, ...]
    resource: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """A device code that its person has allowed, with the grant that it opens."""

    digest: str
    client_id: str
    grant_id: str
    operator_id: str
    role: Role
    scopes: tuple[str, ...]
    granted_at: datetime


class Devices:
    """Keeps the codes; a device only ever reads, whatever it asks for."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        sealer: Sealer,
        throttle: Throttle,
        tokens: Tokens,
        scopes: Scopes,
        settings: Settings,
        audit: Audit,
        events: ClientEvents,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._sealer = sealer
        self._throttle = throttle
        self._tokens = tokens
        self._scopes = scopes
        self._settings = settings
        self._audit = audit
        self._events = events

    # --- the device asks ------------------------------------------------------------------------------------------

    def begin(self, asking: Client, scopes: Iterable[str], address: str | None) -> Begun:
        """Make the two codes; raise TooMany when so many of this client wait, or of this address were made."""
        if is_one_subscriber(address):
            key = digest_of(f"device:{address_key(address).digest}")
            self._throttle.begin(Key(key, ADDRESS_FACTOR, is_forgiven=False))
        now = self._clock.now()
        life = self._settings.lifetimes.device_code
        begun = Begun(self._ids.token("cs_dc"), self._ids.letters(LETTERS, CODE_LENGTH), int(life.total_seconds()))
        row = {
            "digest": digest_of(begun.device_code),
            "user_code": self._digests(begun.user_code)[0],
            "client_id": asking.id,
            "scope": " ".join(scope for scope in scopes if self._is_for_devices(scope)),
            "resource": self._settings.resource,
            "created_at": to_us(now),
            "expires_at": to_us(now + life),
            "interval": INTERVAL,
        }
        with self._database.write() as connection:
            lock(connection, Key(digest_of(f"device-codes-of:{asking.id}")))
            take_some(connection, device_codes(now, self._settings.retention.requests))
            waiting = (device.c.client_id == asking.id, device.c.decision.is_(None), device.c.expires_at > to_us(now))
            if connection.execute(select(func.count()).where(*waiting)).scalar_one() >= MOST_WAITING:
                raise TooMany("So many devices of this program wait for an answer. Try again later.", retry_after=60)
            connection.execute(insert(device), row)
            self._events.write(connection, asking.id, Step.DEVICE, "A device shows a code.")
        return begun

    # --- the person answers ---------------------------------------------------------------------------------------

    def find(self, typed: str) -> DeviceRequest | None:
        """Give what a typed code asks for, in any case and with any dashes, while it waits; None for all else."""
        letters = re.sub(r"[\s-]", "", typed).upper()
        if len(letters) != CODE_LENGTH or not set(letters) <= set(LETTERS):
            return None
        with self._database.read() as connection:
            found = connection.execute(self._waiting().where(device.c.user_code.in_(self._digests(letters)))).first()
        return None if found is None else _request(found)

    def find_again(self, digest: str) -> DeviceRequest | None:
        """Give a code that was typed before, while it waits."""
        with self._database.read() as connection:
            found = connection.execute(self._waiting().where(device.c.digest == digest)).first()
        return None if found is None else _request(found)

    def offered(self, asked: DeviceRequest, role: Role) -> list[ScopeWords]:
        """Give the reading rights that a person of this role may hand on, in words; those asked for, or all."""
        held = self._scopes.of_role(role)
        wanted = asked.scopes or self._scopes.consentable
        return [self._scopes.words(scope) for scope in wanted if scope in held and self._is_for_devices(scope)]

    def allow(self, asked: DeviceRequest, signed_in: SignedIn, ticked: Iterable[str], proof: Proof) -> None:
        """Grant the ticked rights to the device.

        Raise NothingTicked, DeviceCodeOver, ProofFailed, or NotSignedIn when the session ended meanwhile.
        """
        if proof.operator_id != signed_in.operator_id:
            raise ProofFailed
        given = set(ticked)
        chosen = tuple(words.scope for words in self.offered(asked, signed_in.role) if words.scope in given)
        if not chosen:
            raise NothingTicked
        with self._database.write() as connection:
            require_living(connection, signed_in)
            said = {"operator_id": signed_in.operator_id, "grant_id": self._ids.new("gr")}
            self._decide(connection, asked, {"decision": ALLOW, **said})
            owner = {"operator_id": signed_in.operator_id, "client_id": asked.client_id}
            row = {"id": said["grant_id"], "scopes": " ".join(chosen), "resource": asked.resource, "version": 1}
            connection.execute(insert(grant), row | owner | {"created_at": to_us(self._clock.now())})
            made = self._audit.row(
                "grant.made",
                operator_id=signed_in.operator_id,
                client_id=asked.client_id,
                grant_id=said["grant_id"],
                detail={"scopes": list(chosen), "device": True},
            )
            self._audit.write(connection, made)
            self._events.write(connection, asked.client_id, Step.DEVICE, "The person agreed.", **said)

    def deny(self, asked: DeviceRequest, signed_in: SignedIn) -> None:
        """Say no; raise DeviceCodeOver."""
        with self._database.write() as connection:
            self._decide(connection, asked, {"decision": DENY, "operator_id": signed_in.operator_id})
            owner: dict[str, Any] = {"operator_id": signed_in.operator_id, "client_id": asked.client_id}
            self._audit.write(connection, self._audit.row("grant.denied", detail={"device": True}, **owner))
            said = {"code": "access_denied", "operator_id": signed_in.operator_id}
            self._events.write(connection, asked.client_id, Step.DEVICE, "The person did not agree.", **said)

    def answered(self, digest: str, operator_id: str) -> str | None:
        """Give how this very person answered a code, while that stands: for a form that comes a second time."""
        own = (device.c.digest == digest, device.c.operator_id == operator_id, grant.c.revoked_at.is_(None))
        answer = select(device.c.decision).outerjoin(grant, grant.c.id == device.c.grant_id).where(*own)
        with self._database.read() as connection:
            found: str | None = connection.execute(answer).scalar()
        return found

    def note_guessing(self, signed_in: SignedIn, code: str) -> None:
        """Put on record that a session or a person typed too many wrong codes."""
        with self._database.write() as connection:
            row = self._audit.row("device.guessed", operator_id=signed_in.operator_id, code=code)
            self._audit.write(connection, row)

    # --- the device polls -----------------------------------------------------------------------------------------

    def poll(self, device_code: str, client_id: str) -> Allowed:
        """Give what the code opens; raise the errors of RFC 8628 3.5, or Reused when it was used before."""
        with self._database.read() as connection:
            row = connection.execute(select(device).where(device.c.digest == digest_of(device_code))).first()
        if row is None:
            raise InvalidGrantError("The device code is unknown.")
        if row.used_at is not None:
            self._require_innocent(row, client_id)
        if row.client_id != client_id:
            raise InvalidGrantError("The device code is unknown.")
        if row.decision == DENY:
            raise AccessDeniedError("The person did not agree.")
        if row.expires_at <= to_us(self._clock.now()):
            raise ExpiredTokenError("The device code has expired. Begin again.")
        if row.decision is None:
            self._pace(row)
        return self._allowed(row)

    def redeem(self, allowed: Allowed, answer: TokenAnswer) -> None:
        """Spend the code and store its tokens, all or nothing; raise InvalidGrantError for a spent one."""
        now = to_us(self._clock.now())
        spend = update(device).where(device.c.digest == allowed.digest, device.c.used_at.is_(None))
        with self._database.write() as connection:
            if connection.execute(spend.where(device.c.expires_at > now).values(used_at=now)).rowcount != 1:
                raise InvalidGrantError("The device code was used already.")
            self._tokens.give_first(connection, Family(allowed.grant_id, allowed.granted_at, generation=1), answer)
            said = {"operator_id": allowed.operator_id, "grant_id": allowed.grant_id}
            self._events.write(connection, allowed.client_id, Step.DEVICE, "The device got its tokens.", **said)

    def _require_innocent(self, row: Any, client_id: str) -> None:
        is_own = row.client_id == client_id
        if is_own and self._clock.now() - from_us(row.used_at) <= INNOCENT_REPEAT:
            raise InvalidGrantError("The device code was used already.")
        raise Reused(row.grant_id, "code_reused")

    def _pace(self, row: Any) -> None:
        """Raise that nobody has answered yet; a device that asks too soon waits longer from then on."""
        now = self._clock.now()
        too_soon = row.polled_at is not None and now - from_us(row.polled_at) < timedelta(seconds=row.interval)
        values = {"polled_at": to_us(now), "interval": row.interval + INTERVAL if too_soon else row.interval}
        with self._database.write() as connection:
            connection.execute(update(device).where(device.c.digest == row.digest).values(values))
        if too_soon:
            raise SlowDownError("Wait longer between two polls.")
        raise AuthorizationPendingError("The person has not answered yet.")

    def _allowed(self, row: Any) -> Allowed:
        living = (
            select(grant, operator.c.role)
            .join(operator, operator.c.id == grant.c.operator_id)
            .join(client, client.c.id == grant.c.client_id)
            .where(grant.c.id == row.grant_id, *ALIVE)
        )
        with self._database.read() as connection:
            found = connection.execute(living, {"now": to_us(self._clock.now())}).first()
        if found is None or found.resource != self._settings.resource:
            raise InvalidGrantError("The connection was ended.")  # or made under another base URL
        return Allowed(
            digest=row.digest,
            client_id=row.client_id,
            grant_id=found.id,
            operator_id=found.operator_id,
            role=Role(found.role),
            scopes=tuple(found.scopes.split()),
            granted_at=from_us(found.created_at),
        )

    # --- parts of these -------------------------------------------------------------------------------------------

    def _is_for_devices(self, scope: str) -> bool:
        return scope in self._scopes.consentable and self._scopes.words(scope).kind is Kind.READ

    def _digests(self, letters: str) -> list[str]:
        """Give the forms in which a typed code is stored: under a key, since 34 bits alone could be tried out."""
        return [derived.hex() for derived in self._sealer.derive("user-code", letters)]

    def _waiting(self) -> Any:
        now = to_us(self._clock.now())
        return (
            select(device)
            .join(client, client.c.id == device.c.client_id)
            .where(device.c.decision.is_(None), device.c.expires_at > now)
            .where(client.c.removed_at.is_(None), client.c.device)
        )

    def _decide(self, connection: Connection, asked: DeviceRequest, values: dict[str, str]) -> None:
        now = to_us(self._clock.now())
        waiting = (device.c.digest == asked.digest, device.c.decision.is_(None), device.c.expires_at > now)
        if connection.execute(update(device).where(*waiting).values(values)).rowcount != 1:
            raise DeviceCodeOver


def _request(row: Any) -> DeviceRequest:
    return DeviceRequest(row.digest, row.client_id, tuple(row.scope.split()), row.resource)
