"""auth/fetching.py: one small JSON text, from the address that was checked, within 5 seconds. Over real TLS."""

import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from auth.fetching import AT_ONCE, Fetcher, NotFetched
from core.errors import Unavailable
from tests.support.publisher import PUBLIC, Page, Publisher, publishing
from tests.support.waiting import wait_until

URL = "https://client.example/c.json"
MOST = 16_384


@pytest.fixture(scope="module")
def publisher(tmp_path_factory) -> Iterator[Publisher]:
    with publishing(tmp_path_factory.mktemp("publisher")) as running:
        yield running


def fetch(publisher, url=URL, **replaced):
    return publisher.fetcher(**replaced).fetch(url, most=MOST)


def refused(publisher, url=URL, **replaced) -> str:
    with pytest.raises(NotFetched) as found:
        fetch(publisher, url, **replaced)
    return found.value.public


def clock_that_jumps(after: int, seconds: float):
    """A clock on which `seconds` have gone by once it was asked so often: the 5 seconds are nearly over then."""
    asked = itertools.count()
    return lambda: time.monotonic() + (seconds if next(asked) >= after else 0.0)


def test_a_text_is_fetched_over_tls_with_its_hosts_name(publisher):
    publisher.publish(URL + "?v=1", {"a": 1})

    assert fetch(publisher, URL + "?v=1").body == b'{"a": 1}'
    assert publisher.asked[-1] == URL + "?v=1"


# --- which address ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "addresses",
    [
        [],
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["fd00:ec2::254"],
        ["64:ff9b::a9fe:a9fe"],
        ["2002:7f00:1::1"],
        [PUBLIC, "10.0.0.1"],
        ["10.0.0.1", PUBLIC],
        [PUBLIC, "::1"],
        ["fe80::1%lo"],
        ["nonsense"],
    ],
)
def test_a_host_with_any_address_that_is_not_public_is_never_called(publisher, addresses):
    called: list[str] = []

    sentence = refused(publisher, resolve=lambda _host: addresses, connect=lambda address, _s: called.append(address))

    assert sentence == "client.example has no address on the public internet."
    assert called == []


def test_an_unknown_name_reads_like_a_forbidden_address(publisher):
    def unknown(_host):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert refused(publisher, resolve=unknown) == refused(publisher, resolve=lambda _host: ["192.168.1.1"])


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked(publisher):
    """DNS rebinding: the second look-up would give another address."""
    publisher.publish(URL, {})
    answers, called = iter([[PUBLIC], ["127.0.0.1"]]), []

    def connect(address, seconds):
        called.append(address)
        return socket.create_connection(("127.0.0.1", publisher.port), timeout=seconds)

    fetch(publisher, resolve=lambda _host: next(answers), connect=connect)

    assert called == [PUBLIC]
    assert next(answers) == ["127.0.0.1"]


def test_a_host_whose_first_address_leads_nowhere_is_called_at_its_second(publisher):
    publisher.publish(URL, {})

    def connect(address, seconds):
        if ":" in address:
            raise OSError("no route")
        return socket.create_connection(("127.0.0.1", publisher.port), timeout=seconds)

    assert fetch(publisher, resolve=lambda _host: ["2606:4700::1", PUBLIC], connect=connect).body == b"{}"


def test_the_real_connector_knows_port_443_alone(monkeypatch):
    called = []
    monkeypatch.setattr(socket, "create_connection", lambda place, timeout: called.append(place))
    from auth import fetching  # noqa: PLC0415 - its functions are what is tested

    fetching.connect("93.184.216.34", 1.0)

    assert called == [("93.184.216.34", 443)]


@pytest.mark.parametrize("url", ["http://client.example/c", "https://client.example:8443/c", "https://127.0.0.1/c"])
def test_no_argument_opens_another_scheme_port_or_address(publisher, url):
    asked = len(publisher.asked)

    assert "plain https address" in refused(publisher, url)
    assert len(publisher.asked) == asked


def test_a_certificate_of_another_name_is_refused(publisher):
    assert "can’t be reached by https" in refused(publisher, "https://unlisted.example/c")


def test_a_certificate_of_an_authority_that_nobody_trusts_is_refused(publisher):
    assert "can’t be reached by https" in refused(publisher, trust=ssl.create_default_context)


# --- which answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "204 No Content"])
@pytest.mark.parametrize(
    "location", ["https://other.example/c", "http://169.254.169.254/latest", "https://client.example/d"]
)
def test_a_redirect_is_not_followed(publisher, status, location):
    publisher.publish(URL, {}, status=status, Location=location)
    asked = len(publisher.asked)

    assert "instead of 200" in refused(publisher)
    assert len(publisher.asked) == asked + 1


@pytest.mark.parametrize(
    "kind", [None, "text/html", "text/json", "application/jsonp", "image/svg+json", "application/json; charset=utf-16"]
)
def test_what_is_not_declared_as_json_in_utf_8_is_refused(publisher, kind):
    publisher.publish(URL, {}, Content_Type=kind)

    refused(publisher)


@pytest.mark.parametrize(
    "kind", ["application/json; charset=UTF-8", "application/cimd+json", "application/jwk-set+json"]
)
def test_what_is_declared_as_some_json_is_taken(publisher, kind):
    publisher.publish(URL, {}, Content_Type=kind)

    assert fetch(publisher).body == b"{}"


def test_a_compressed_answer_is_refused(publisher):
    publisher.publish(URL, {}, Content_Encoding="gzip")

    assert "not plain UTF-8" in refused(publisher)


@pytest.mark.parametrize("length", ["declared", "undeclared", "chunked"])
def test_an_answer_above_the_limit_is_refused_and_one_at_the_limit_taken(publisher, length):
    for size in (MOST, MOST + 1):
        body = b'"' + b"x" * (size - 2) + b'"'
        if length == "chunked":
            publisher.publish(
                URL, b"%x\r\n%s\r\n0\r\n\r\n" % (size, body), Content_Length=None, Transfer_Encoding="chunked"
            )
        else:
            publisher.publish(URL, body, **({} if length == "declared" else {"Content_Length": None}))
        if size == MOST:
            assert len(fetch(publisher).body) == MOST
        else:
            assert "larger than 16384 bytes" in refused(publisher)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 99999 ?\r\n\r\n",
    ],
)
def test_what_is_no_whole_http_answer_is_refused(publisher, raw):
    publisher.pages[URL] = Page(raw)

    refused(publisher)


# --- how long -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n" + b" " * 9000,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 9000,
    ],
)
def test_an_answer_that_drips_is_ended_when_the_time_is_over(publisher, raw):
    publisher.pages[URL] = Page(raw, drip=0.02)
    started = time.monotonic()

    sentence = refused(publisher, monotonic=clock_that_jumps(3, 4.6))

    assert sentence == "client.example didn’t answer within 5 seconds."
    assert time.monotonic() - started < 2


def test_a_host_that_says_nothing_in_tls_is_left_when_the_time_is_over(publisher):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = silent.getsockname()

        sentence = refused(
            publisher,
            connect=lambda _a, seconds: socket.create_connection(place, timeout=seconds),
            monotonic=clock_that_jumps(3, 4.6),
        )

    assert sentence == "client.example didn’t answer within 5 seconds."


def test_a_resolver_that_hangs_costs_no_more_than_the_time(publisher):
    over = threading.Event()
    started = time.monotonic()

    sentence = refused(publisher, resolve=lambda _h: over.wait(10) and [], monotonic=clock_that_jumps(1, 4.7))
    over.set()

    assert sentence == "client.example didn’t answer within 5 seconds."
    assert time.monotonic() - started < 2


def test_more_fetches_at_once_than_a_quarter_of_the_threads_are_told_to_come_again(publisher):
    publisher.publish(URL, {})
    over, waiting = threading.Event(), []
    fetcher: Fetcher = publisher.fetcher(resolve=lambda _h: waiting.append(1) or (over.wait(4) and [PUBLIC]))

    def fetch_quietly():
        with contextlib.suppress(NotFetched):
            fetcher.fetch(URL, most=MOST)

    threads = [threading.Thread(target=fetch_quietly) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    wait_until("all places to be taken", lambda: len(waiting) == AT_ONCE)
    with pytest.raises(Unavailable):
        fetcher.fetch(URL, most=MOST)
    over.set()
    for thread in threads:
        thread.join()

    assert fetcher.fetch(URL, most=MOST).body == b"{}"


# --- how long it may be kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 300),
        ({"Cache_Control": "max-age=3600"}, 3600),
        ({"Cache_Control": "max-age=3600", "Age": "600"}, 3000),
        ({"Cache_Control": "max-age=1"}, 300),
        ({"Cache_Control": "max-age=99999999999999999999"}, 86400),
        ({"Cache_Control": "max-age=-1"}, 300),
        ({"Cache_Control": "max-age=nonsense"}, 300),
        ({"Cache_Control": "no-store, max-age=3600"}, 300),
        ({"Cache_Control": "no-cache, max-age=3600"}, 300),
        ({"Date": "Tue, 01 Dec 2026 10:00:00 GMT", "Expires": "Tue, 01 Dec 2026 12:00:00 GMT"}, 7200),
        ({"Date": "Tue, 01 Dec 2026 10:00:00 GMT", "Expires": "0"}, 300),
        ({"Expires": "Fri, 31 Dec 9999 23:59:59 GMT"}, 300),
        ({"Date": "Tue, 01 Dec 2026 10:00:00 GMT", "Expires": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86400),
        ({"Cache_Control": "max-age=3600", "Age": "nonsense"}, 3600),
        ({"Cache_Control": "max-age=-99999999999999999999"}, 300),
        ({"Date": "Tue, 01 Dec 99999999999999999999 10:00:00 GMT", "Expires": "0"}, 300),
        ({"Date": "Tue, 01 Dec 2026 10:00:00 +99999999999999999999", "Expires": "0"}, 300),
        (
            {
                "Date": "Tue, 01 Dec 2026 10:00:00 GMT",
                "Expires": "Tue, 01 Dec 2020 10:00:00 GMT",
                "Age": "86399999999999",
            },
            300,
        ),
    ],
)
def test_a_text_is_fresh_as_long_as_its_host_says_between_five_minutes_and_a_day(publisher, headers, seconds):
    publisher.publish(URL, {}, **headers)

    assert fetch(publisher).fresh_for == timedelta(seconds=seconds)
