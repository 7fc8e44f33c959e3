"""What was fetched of clients, kept as long as its host says, for all workers (checklist G9)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql, sqlite

from auth.fetching import Fetcher, NotFetched
from auth.models import fetched
from auth.outside import fetchable_host, is_listed
from auth.throttle import Key, Throttle
from core.clock import Clock, to_us
from core.db import Database
from core.errors import Forbidden, TooMany, Unavailable
from core.purge import Rows, take_some
from core.settings import Settings

T = TypeVar("T")
Read = Callable[[bytes], T]

KEPT = timedelta(days=30)  # after it stopped being fresh
STALE = timedelta(hours=24)  # how long it may serve those who are connected while its host doesn't answer
RETRY = timedelta(minutes=1)  # between two fetches of a fresh one


class HostRefused(Forbidden):
    """A client whose host this server's settings refuse."""

    code = "client_host_refused"
    public = "This server doesn’t connect programs of this host."
    remedy = "Whoever runs this server decides: COUNTERSIGN_CIMD_ALLOWED_HOSTS and COUNTERSIGN_CIMD_DENIED_HOSTS."


@dataclass(frozen=True, slots=True)
class Counted:
    """The keys of the throttle under which a fetch counts: each one, or those alone that gave nothing of use."""

    keys: tuple[Key, ...]
    failures_alone: bool = False


class Library:
    """Gives what a client publishes, fetched only when the kept text is too old.

    Only a text that its reader found good is kept: errors and bad documents never are.
    """

    def __init__(
        self, *, database: Database, fetcher: Fetcher, throttle: Throttle, clock: Clock, settings: Settings
    ) -> None:
        self._database = database
        self._fetcher = fetcher
        self._throttle = throttle
        self._clock = clock
        self._is_on = settings.cimd
        self._allowed = settings.cimd_allowed_hosts
        self._denied = settings.cimd_denied_hosts | {urlsplit(settings.base_url).hostname or ""}

    def is_allowed(self, url: str) -> bool:
        """Tell whether the settings let this server connect programs of the URL's host, which is never our own."""
        host = fetchable_host(url)
        if not self._is_on or host is None or is_listed(host, self._denied):
            return False
        return not self._allowed or is_listed(host, self._allowed)

    def read(self, url: str, read: Read[T], *, most: int, counted: Counted, may_be_stale: bool = False) -> T:
        """Give what `read` makes of the text at `url`; each fetch that was made counts, as `counted` says.

        Raise HostRefused, NotFetched, TooMany, Unavailable, or what `read` raises. With `may_be_stale`, a kept text
        serves for another day while no other can be had.
        """
        if not self.is_allowed(url):
            raise HostRefused
        row = self._find(url)
        now = to_us(self._clock.now())
        if row is not None and row.fresh_until > now:
            return read(row.body.encode())
        try:
            return self._fetch_counted(url, read, most, counted)
        except (NotFetched, TooMany, Unavailable):
            if may_be_stale and row is not None and row.fresh_until + STALE // timedelta(microseconds=1) > now:
                return read(row.body.encode())
            raise

    def read_again(self, url: str, read: Read[T], *, most: int) -> T | None:
        """Fetch a kept text anew though it is fresh, at most once a minute; None when it is not yet time or fails.

        The minute begins with the try, so that nobody makes us call a host as often as they call us.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            mine = update(fetched).where(fetched.c.url == url, fetched.c.retried_at <= to_us(now - RETRY))
            if connection.execute(mine.values(retried_at=to_us(now))).rowcount != 1:
                return None
        try:
            return self._fetch(url, read, most)
        except (NotFetched, Unavailable):
            return None

    def _fetch_counted(self, url: str, read: Read[T], most: int, counted: Counted) -> T:
        one = self._throttle.begin(*counted.keys)
        try:
            value = self._fetch(url, read, most)
        except Unavailable:  # nothing was called
            self._throttle.forget(one)
            raise
        if counted.failures_alone:
            self._throttle.succeeded(one)
        return value

    def _fetch(self, url: str, read: Read[T], most: int) -> T:
        one = self._fetcher.fetch(url, most=most)
        value = read(one.body)
        now = self._clock.now()
        row = {
            "body": one.body.decode(),
            "fetched_at": to_us(now),
            "fresh_until": to_us(now + one.fresh_for),
            "retried_at": to_us(now),
        }
        with self._database.write() as connection:
            take_some(connection, fetched_texts(now))
            dialect = sqlite if self._database.is_sqlite else postgresql
            kept = dialect.insert(fetched).values(url=url, **row)
            connection.execute(kept.on_conflict_do_update(index_elements=["url"], set_=row))
        return value

    def _find(self, url: str) -> Any:
        with self._database.read() as connection:
            return connection.execute(select(fetched).where(fetched.c.url == url)).first()


def fetched_texts(now: datetime) -> Rows:
    """Give the texts that nobody has asked for in a long time."""
    over = fetched.c.fresh_until < to_us(now - KEPT)
    return Rows(name="cs_fetched", key=fetched.c.url, kept=KEPT, over=over)
