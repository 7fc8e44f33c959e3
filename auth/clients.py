"""Clients: the programs that people connect, and what Authlib asks of one."""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from authlib.oauth2.rfc6749 import ClientMixin
from sqlalchemy import Connection, bindparam, exists, func, insert, select, update

from auth.events import ClientEvents, Step
from auth.metadata import PRIVATE_KEY_JWT
from auth.models import ADDED, REGISTERED, client, device, grant, login_event
from auth.purge import UNUSED, tries, unused_clients
from auth.redirects import matches
from auth.registration import Registration
from auth.throttle import Key, address_key, is_one_subscriber, lock
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import NotFound, TooMany
from core.ids import Ids, digest_of
from core.purge import take_some
from core.settings import Retention
from policy.audit import Audit

Also = Callable[[Connection, str], None]

ID = re.compile(r"[!-~]{1,255}", re.ASCII)
FLOOD = 300  # registrations in an hour of which nobody has used one: more is no people connecting
FLOOD_WITHIN = timedelta(hours=1)
ADDRESS_FLOOD = 20  # the same of one network address
ADDRESS_WITHIN = timedelta(minutes=10)
EVERYBODY = Key(digest_of("registrations"))
LIVING = select(client).where(client.c.id == bindparam("id"), client.c.removed_at.is_(None))


@dataclass(frozen=True, slots=True)
class Client(ClientMixin):  # type: ignore[misc] # Authlib has no types
    """One registered program; its name is its own word, never proven."""

    id: str
    kind: str
    name: str
    auth_method: str
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    created_at: datetime
    secret_digest: str | None = None
    methods: tuple[str, ...] = ()  # by which it may prove itself, the preferred one first
    signing_algorithm: str | None = None  # the only one it uses; None for either
    jwks_uri: str | None = None  # where its keys are; None for inside its document
    changed_at: datetime | None = None  # when its document last said something else
    introspects: bool = False  # whether it learns about every token of this resource
    uses_device: bool = False  # whether an administrator lets it use the device grant

    def __repr__(self) -> str:
        return f"Client({self.id})"

    @property
    def is_public(self) -> bool:
        """Whether PKCE alone is enough: it has no secret and needs no signature."""
        return "none" in self.methods

    @property
    def signs(self) -> bool:
        """Whether it may prove itself by a signature."""
        return PRIVATE_KEY_JWT in self.methods

    def get_client_id(self) -> str:
        """Give the id."""
        return self.id

    def get_default_redirect_uri(self) -> str | None:
        """Give the one registered address; None when there are several."""
        return self.redirect_uris[0] if len(self.redirect_uris) == 1 else None

    def get_allowed_scope(self, scope: str) -> str:
        """Give `scope` back: what a client may hold is decided at consent, not at registration."""
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Tell whether the address is a registered one; only the port of a loopback address may differ."""
        return any(matches(registered, redirect_uri) for registered in self.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        """Compare in constant time; a client without a secret has none that fits."""
        stored = self.secret_digest
        return stored is not None and hmac.compare_digest(stored, digest_of(client_secret))

    def check_response_type(self, response_type: str) -> bool:
        """Tell whether it is `code`, the only one there is."""
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        """Tell whether the client registered for it."""
        return grant_type in self.grant_types


@dataclass(frozen=True, slots=True)
class Registered:
    """A new client with its secret, which is shown this once."""

    client: Client
    secret: str | None
    metadata: dict[str, Any]

    def __repr__(self) -> str:
        return f"Registered({self.client.id})"


class Clients:
    """Keeps the clients; a removed one is unknown at once, and so are its tokens."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        audit: Audit,
        events: ClientEvents,
        retention: Retention,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._audit = audit
        self._events = events
        self._retention = retention

    def find(self, client_id: str) -> Client | None:
        """Give the living client of this id."""
        if not ID.fullmatch(client_id):
            return None
        with self._database.read() as connection:
            row = connection.execute(LIVING, {"id": client_id}).mappings().first()
        return None if row is None else client_of(row)

    def list(self) -> list[Client]:
        """Give every living client, newest first."""
        newest = select(client).where(client.c.removed_at.is_(None)).order_by(client.c.created_at.desc())
        with self._database.read() as connection:
            rows = connection.execute(newest).mappings().all()
        return [client_of(row) for row in rows]

    def register(self, wanted: Registration, address: str | None) -> Registered:
        """Store a new client (RFC 7591); raise TooMany in a flood of registrations that nobody uses.

        They are counted of one network address first, where `address` is one subscriber's, then of everybody.
        """
        secret, row = self._row(REGISTERED, wanted)
        with self._database.write() as connection:
            lock(connection, EVERYBODY)
            take_some(connection, unused_clients(self._clock.now(), self._retention.unused_clients))
            if is_one_subscriber(address):
                self._count_address(connection, _registrations(address), row["id"])
            self._require_no_flood(connection)
            connection.execute(insert(client), row)
            self._audit.write(connection, self._audit.row("client.registered", client_id=row["id"]))
            self._events.write(connection, row["id"], Step.REGISTER, "It registered itself.")
        return Registered(client_of(row), secret, wanted.metadata())

    def add(self, wanted: Registration, *, also: Also = lambda _connection, _client_id: None) -> Registered:
        """Store a client that whoever runs this server vouches for; `also` is part of the same transaction."""
        secret, row = self._row(ADDED, wanted)
        with self._database.write() as connection:
            connection.execute(insert(client), row)
            also(connection, row["id"])
            self._audit.write(connection, self._audit.row("client.added", client_id=row["id"]))
            self._events.write(connection, row["id"], Step.REGISTER, "An administrator added it.")
        return Registered(client_of(row), secret, wanted.metadata())

    def remove(self, client_id: str) -> None:
        """Forget a client and end every connection through it; raise NotFound."""
        now = to_us(self._clock.now())
        with self._database.write() as connection:
            gone = connection.execute(
                update(client).where(client.c.id == client_id, client.c.removed_at.is_(None)).values(removed_at=now)
            )
            if not gone.rowcount:
                raise NotFound("There is no client by that id.")
            connection.execute(
                update(grant).where(grant.c.client_id == client_id, grant.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            self._audit.write(connection, self._audit.row("client.removed", client_id=client_id))
            self._events.write(connection, client_id, Step.REVOKE, "An administrator removed it; its access ended.")

    def set_device(self, client_id: str, *, may: bool) -> None:
        """Let a client use the device grant, or not any more: then its unused codes are over; raise NotFound."""
        now = to_us(self._clock.now())
        living = (client.c.id == client_id, client.c.removed_at.is_(None))
        with self._database.write() as connection:
            if connection.execute(update(client).where(*living).values(device=may)).rowcount != 1:
                raise NotFound("There is no client by that id.")
            if not may:
                unused = (device.c.client_id == client_id, device.c.used_at.is_(None), device.c.expires_at > now)
                connection.execute(update(device).where(*unused).values(expires_at=now))
            row = self._audit.row("client.device", client_id=client_id, code="on" if may else "off")
            self._audit.write(connection, row)

    def _count_address(self, connection: Connection, key: Key, client_id: str) -> None:
        # The try has the id of its client, which tells whether anybody has used it.
        now = self._clock.now()
        used = exists().where(grant.c.client_id == login_event.c.id)
        of_address = (login_event.c.key == key.digest, login_event.c.at > to_us(now - ADDRESS_WITHIN))
        unused = select(func.count()).select_from(login_event).where(*of_address, ~used)
        if connection.execute(unused).scalar_one() >= ADDRESS_FLOOD:
            raise TooMany("Too many new clients from this address. Try again later.", retry_after=600)
        take_some(connection, tries(now, self._retention.tries))
        tried = {"id": client_id, "key": key.digest, "at": to_us(now), "succeeded": False}
        connection.execute(insert(login_event), tried)

    def _require_no_flood(self, connection: Connection) -> None:
        since = to_us(self._clock.now() - FLOOD_WITHIN)
        unused = select(func.count()).select_from(client).where(UNUSED)
        if connection.execute(unused.where(client.c.created_at > since)).scalar_one() >= FLOOD:
            raise TooMany("Too many new clients. Try again later.", retry_after=600)

    def _row(self, kind: str, wanted: Registration) -> tuple[str | None, dict[str, Any]]:
        secret = self._ids.token("cs_cs") if wanted.auth_method.startswith("client_secret") else None
        row = {
            "id": self._ids.new("cl"),
            "kind": kind,
            "name": wanted.name,
            "secret_digest": None if secret is None else digest_of(secret),
            "auth_method": wanted.auth_method,
            "redirect_uris": orjson.dumps(wanted.redirect_uris).decode(),
            "registration": orjson.dumps(wanted.metadata()).decode(),
            "created_at": to_us(self._clock.now()),
            "changed_at": None,
            "device": wanted.device,
        }
        return secret, row


def _registrations(address: str | None) -> Key:
    return Key(digest_of(f"registrations:{address_key(address).digest}"))


def client_of(row: Any) -> Client:
    """Give the client that a row of `cs_client` describes."""
    registration = orjson.loads(row["registration"])
    return Client(
        id=row["id"],
        kind=row["kind"],
        name=row["name"],
        auth_method=row["auth_method"],
        redirect_uris=tuple(orjson.loads(row["redirect_uris"])),
        grant_types=tuple(registration.get("grant_types", ())),
        created_at=from_us(row["created_at"]),
        secret_digest=row["secret_digest"],
        methods=tuple(registration.get("methods", (row["auth_method"],))),
        signing_algorithm=registration.get("token_endpoint_auth_signing_alg"),
        jwks_uri=registration.get("jwks_uri"),
        introspects=bool(registration.get("introspects")),
        changed_at=None if row["changed_at"] is None else from_us(row["changed_at"]),
        uses_device=bool(row["device"]),
    )
