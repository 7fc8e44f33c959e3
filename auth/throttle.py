"""Slows down guessing: failures are counted per key, shared by all workers, and the pause grows with them."""

import ipaddress
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, delete, func, insert, select, text, update

from auth.models import login_event
from auth.purge import tries
from core.clock import Clock, to_us
from core.db import Database
from core.errors import TooMany
from core.ids import Ids, digest_of
from core.purge import take_some
from core.settings import Retention

ADDRESS_FACTOR = 6  # many people sign in from one address: an office, a proxy
PROOF_FACTOR = 4  # of a person, over all sessions; each session has its own count beside it


@dataclass(frozen=True, slots=True)
class Limit:
    """So many failures within so long, then a pause until the oldest of them is older than that."""

    failures: int
    within: timedelta


LIMITS = (  # each counts by itself, so that the pause grows from minutes to a day
    Limit(5, timedelta(minutes=15)),
    Limit(15, timedelta(hours=2)),
    Limit(40, timedelta(hours=24)),
)


@dataclass(frozen=True, slots=True)
class Key:
    """What is counted: a digest, since addresses of people don't belong into a log of tries."""

    digest: str
    factor: int = 1
    is_forgiven: bool = True  # whether a success ends the count of the failures before it


@dataclass(frozen=True, slots=True)
class Try:
    """One try that was allowed and counts as failed until it is said to have succeeded."""

    ids: tuple[str, ...]


class Throttle:
    """Counts a try before it is judged, so that parallel tries can't outrun the count."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, retention: Retention) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._retention = retention

    def begin(self, *keys: Key) -> Try:
        """Count one try under each key, as failed; raise TooMany (and count nothing) when one is over a limit."""
        now = self._clock.now()
        names = [self._ids.new("le") for _ in keys]
        rows = [
            {"id": name, "key": key.digest, "at": to_us(now), "succeeded": False}
            for name, key in zip(names, keys, strict=True)
        ]
        with self._database.write() as connection:
            take_some(connection, tries(now, self._retention.tries))
            for key in sorted(keys, key=lambda key: key.digest):  # one order of locks
                lock(connection, key)
                self._require_free(connection, key, to_us(now))
            connection.execute(insert(login_event), rows)
        return Try(tuple(names))

    def succeeded(self, one: Try) -> None:
        """Take the try back from the failures; earlier failures of its keys, addresses excepted, are forgiven."""
        with self._database.write() as connection:
            connection.execute(update(login_event).where(login_event.c.id.in_(one.ids)).values(succeeded=True))

    def forget(self, one: Try) -> None:
        """Take back a try that was never judged."""
        with self._database.write() as connection:
            connection.execute(delete(login_event).where(login_event.c.id.in_(one.ids)))

    def is_paused(self, key: Key) -> bool:
        """Tell whether the next try under `key` would be refused."""
        with self._database.read() as connection:
            return self._pause(connection, key, to_us(self._clock.now())) > 0

    def _require_free(self, connection: Connection, key: Key, now: int) -> None:
        pause = self._pause(connection, key, now)
        if pause > 0:
            raise TooMany(retry_after=max(1, -(-pause // 1_000_000)), detail="sign-in throttled")

    def _pause(self, connection: Connection, key: Key, now: int) -> int:
        since = self._last_success(connection, key) if key.is_forgiven else 0
        return max(self._wait(connection, key, now, since, limit) for limit in LIMITS)

    def _wait(self, connection: Connection, key: Key, now: int, since: int, limit: Limit) -> int:
        """Give the microseconds until the try that fills the limit leaves the window; 0 when there is room."""
        span = limit.within // timedelta(microseconds=1)
        nth = connection.execute(
            select(login_event.c.at)
            .where(
                login_event.c.key == key.digest,
                login_event.c.at > max(now - span, since),
                login_event.c.succeeded.is_(False),
            )
            .order_by(login_event.c.at.desc())
            .offset(limit.failures * key.factor - 1)
            .limit(1)
        ).scalar()
        return 0 if nth is None else nth + span - now

    def _last_success(self, connection: Connection, key: Key) -> int:
        last = select(func.max(login_event.c.at)).where(
            login_event.c.key == key.digest, login_event.c.succeeded.is_(True)
        )
        return connection.execute(last).scalar() or 0


def lock(connection: Connection, key: Key) -> None:
    """Let one transaction after the other count `key`."""
    # SQLite has one writer anyway; on PostgreSQL two counts of one key would not see each other's row.
    if connection.dialect.name != "sqlite":
        number = int(key.digest[:15], 16)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def email_key(email: str) -> Key:
    """Count by the account that is tried, whether it exists or not."""
    return Key(digest_of(f"email:{email}"))


def address_key(address: str | None) -> Key:
    """Count by the network address, of IPv6 the /64 that one subscriber has."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return Key(digest_of("address:unknown"), ADDRESS_FACTOR, is_forgiven=False)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = ipaddress.ip_network((parsed, 64), strict=False).network_address
    return Key(digest_of(f"address:{parsed}"), ADDRESS_FACTOR, is_forgiven=False)


def is_one_subscriber(address: str | None) -> bool:
    """Tell whether `address` can be one subscriber's: what comes from this machine or by a socket is the proxy's."""
    try:
        return not ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


def proof_key(operator_id: str) -> Key:
    """Count by the person who proves a decision: apart from sign-in, so that strangers can't lock it."""
    return Key(digest_of(f"proof:{operator_id}"), PROOF_FACTOR)


def session_key(session_digest: str) -> Key:
    """Count by the browser session that proves a decision, so that a thief of one uses up that one's tries."""
    return Key(digest_of(f"session:{session_digest}"))


def forgive(connection: Connection, ids: Ids, now: int, *keys: Key) -> None:
    """End the count of failures under `keys` (their pause too) at `now` (microseconds), in the caller's transaction."""
    rows = [{"id": ids.new("le"), "key": key.digest, "at": now, "succeeded": True} for key in keys]
    connection.execute(insert(login_event), rows)
