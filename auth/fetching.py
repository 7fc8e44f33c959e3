"""Fetches one small JSON text of a client: from the address that was checked, no redirects, 5 seconds in all."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from werkzeug.datastructures import ResponseCacheControl
from werkzeug.http import parse_age, parse_cache_control_header, parse_date, parse_options_header

from auth.outside import fetchable_host, is_public
from core.errors import BadRequest, Unavailable

PORT = 443
SECONDS = 5.0  # for everything: name, connection, TLS, headers, body
AT_ONCE = 4  # a quarter of a worker's threads (design D1)
LEAST_FRESH, MOST_FRESH = timedelta(minutes=5), timedelta(hours=24)
Resolve = Callable[[str], Sequence[str]]
Connect = Callable[[str, float], socket.socket]


class NotFetched(BadRequest):
    """What a client publishes of itself can't be fetched."""

    code = "client_not_reachable"
    public = "What the program publishes about itself can't be fetched."
    remedy = "Try again in a moment; if that doesn't help, the program's maker has to correct its document."


@dataclass(frozen=True, slots=True)
class Fetched:
    """A text as it came, and how long it may be used."""

    body: bytes
    fresh_for: timedelta


def resolve(host: str) -> list[str]:
    """Give the network addresses of a host; raise OSError."""
    found = socket.getaddrinfo(host, PORT, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def connect(address: str, seconds: float) -> socket.socket:
    """Open a connection to port 443 of a network address; raise OSError."""
    return socket.create_connection((address, PORT), timeout=seconds)


class Fetcher:
    """Makes the only calls that this server makes for a stranger.

    A proxy of the environment is not used. Tests hand over `resolve`, `connect`, `monotonic` and `trust`; the rules
    for URLs and addresses have no switch.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        connect: Connect = connect,
        monotonic: Callable[[], float] = time.monotonic,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._resolve = resolve
        self._connect = connect
        self._monotonic = monotonic
        self._trust = trust
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._resolving = ThreadPoolExecutor(AT_ONCE)  # a resolver knows no time limit; its caller does

    def fetch(self, url: str, *, most: int) -> Fetched:
        """Give at most `most` bytes of JSON; raise NotFetched, or Unavailable when too many fetches run at once."""
        host = fetchable_host(url)
        if host is None:
            raise NotFetched("The address of what the program publishes is not a plain https address.")
        if not self._places.acquire(blocking=False):
            raise Unavailable
        deadline = self._monotonic() + SECONDS
        try:
            return self._fetch(url, host, most, deadline)
        except (NotFetched, OSError, http.client.HTTPException, UnicodeError) as error:
            detail = f"{type(error).__name__}: {error}"
            # The end that the time limit makes looks like a fault of the answer.
            if isinstance(error, TimeoutError) or self._monotonic() >= deadline:
                raise NotFetched(f"{host} didn’t answer within {SECONDS:.0f} seconds.", detail=detail) from None
            if isinstance(error, NotFetched):
                raise
            raise NotFetched(f"{host} can’t be reached by https.", detail=detail) from None
        finally:
            self._places.release()

    def _fetch(self, url: str, host: str, most: int, deadline: float) -> Fetched:
        tcp = self._open(host, deadline)
        with self._trust().wrap_socket(tcp, server_hostname=host, do_handshake_on_connect=False) as tls:
            seconds = self._left(deadline)
            tls.settimeout(seconds)
            with _ended_after(seconds, tls):
                tls.do_handshake()
                fetched = _ask(tls, host, url, most)
        self._left(deadline)
        return fetched

    def _open(self, host: str, deadline: float) -> socket.socket:
        """Connect to an address of the host that was checked; the name is not looked up again."""
        addresses = self._addresses(host, deadline)
        for number, address in enumerate(addresses, start=1):
            left = self._left(deadline)
            try:
                # Half of the time for each but the last: a host may have an address that leads nowhere from here.
                return self._connect(address, left if number == len(addresses) else left / 2)
            except OSError:
                if number == len(addresses):
                    raise
        raise NotFetched(f"{host} has no address on the public internet.")

    def _addresses(self, host: str, deadline: float) -> Sequence[str]:
        try:
            found = self._resolving.submit(self._resolve, host).result(timeout=self._left(deadline))
        except socket.gaierror:
            found = ()
        # One sentence for an unknown name and a forbidden address: the answer maps nobody's own network.
        if not all(is_public(address) for address in found):
            raise NotFetched(f"{host} has no address on the public internet.", detail=f"{host}: {', '.join(found)}")
        return found

    def _left(self, deadline: float) -> float:
        left = deadline - self._monotonic()
        if left <= 0:
            raise TimeoutError
        return left


@contextmanager
def _ended_after(seconds: float, connection: socket.socket) -> Iterator[None]:
    """End the connection after so long: a socket's own limit starts anew with each byte."""

    def end() -> None:
        with suppress(OSError):  # it has ended by itself in this moment
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # past TLS, which would wait for its farewell

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _ask(connection: socket.socket, host: str, url: str, most: int) -> Fetched:
    asking = http.client.HTTPConnection(host)
    asking.sock = connection
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    asking.request("GET", target, headers={"Accept": "application/json", "User-Agent": "Countersign"})
    with asking.getresponse() as answer:
        _require_json(host, answer)
        body = answer.read(most + 1)
        if len(body) > most:
            raise NotFetched(f"What {host} answered is larger than {most} bytes.")
        if answer.length:
            raise NotFetched(f"What {host} answered is not all of it.")
        return Fetched(body, _freshness(answer))


def _require_json(host: str, answer: http.client.HTTPResponse) -> None:
    if answer.status != 200:  # a redirect least of all (CIMD draft)
        raise NotFetched(f"{host} answered with status {answer.status} instead of 200.")
    kind, options = parse_options_header(answer.getheader("Content-Type", ""))
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise NotFetched(f"What {host} answered is not declared as JSON.")
    coding = answer.getheader("Content-Encoding", "identity").lower()
    if coding != "identity" or options.get("charset", "utf-8").lower() != "utf-8":
        raise NotFetched(f"What {host} answered is not plain UTF-8.")


def _freshness(answer: http.client.HTTPResponse) -> timedelta:
    """Give how long the text stays usable, as its host says, within our bounds (RFC 9111 4.2)."""
    try:
        return min(max(_life(answer), LEAST_FRESH), MOST_FRESH)
    except OverflowError:  # a number or a year that no time has
        return LEAST_FRESH


def _life(answer: http.client.HTTPResponse) -> timedelta:
    control = parse_cache_control_header(answer.getheader("Cache-Control"), cls=ResponseCacheControl)
    date, expires = parse_date(answer.getheader("Date")), parse_date(answer.getheader("Expires"))
    life = timedelta()
    if control.no_store or control.no_cache:
        return life
    if control.max_age is not None:
        life = timedelta(seconds=min(control.max_age, MOST_FRESH.total_seconds() * 2))
    elif date is not None and expires is not None:
        life = expires - date
    return life - (parse_age(answer.getheader("Age")) or timedelta())
