"""The tools that all other tests stand on, tried on small throw-away servers."""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from playwright.sync_api import BrowserContext

from tests.support.browser import FormBrowser
from tests.support.html import NotOnPage, Page
from tests.support.missing import missing_lines, skip_or_fail
from tests.support.network import BeyondLoopback
from tests.support.raw_mcp import RawMcp

CONSENT = """<!doctype html><title>Connect?</title><style>.x{}</style><main><h1>Connect Agent?</h1>
<form method="post" action="/decide" aria-label="Your decision"><input type="hidden" name="csrf" value="c1">
<fieldset><legend>Read</legend><label><input type="checkbox" name="scope" value="a:read" checked> See runs</label>
</fieldset>
<label><input type="checkbox" name="scope" value="orders:refund"><span>Ask to refund orders</span></label>
<label for="p">Password</label><input id="p" type="password" name="password">
<label for="n">Note <small>(optional)</small></label><textarea id="n" name="note"></textarea>
<button name="answer" value="allow">Connect</button><button name="answer" value="deny">Cancel</button></form>
<a href="/elsewhere">Leave</a></main>"""


Posted = tuple[str, str, list[tuple[str, str]], str | None]
Site = tuple[str, list[Posted]]


class _Site(BaseHTTPRequestHandler):
    seen: list[Posted]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/elsewhere":
            self._answer(302, "", ("Location", "http://127.0.0.1:1/callback?code=x"))
        elif path == "/loop":
            self._answer(302, "", ("Location", "/loop"))
        else:
            self._answer(200, CONSENT, ("Set-Cookie", "s=1; Path=/; HttpOnly"), ("Content-Type", "text/html"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append(
            (
                self.path,
                self.headers.get("Cookie", ""),
                parse_qsl(body, keep_blank_values=True),
                self.headers.get("Origin"),
            )
        )
        if self.path == "/mcp":
            self._answer(200, '{"jsonrpc":"2.0","id":1,"result":{}}', ("Content-Type", "application/json"))
        else:
            self._answer(303, "", ("Location", "http://127.0.0.1:33418/callback?code=abc&state=s"))

    def _answer(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[Site]:
    seen: list[Posted] = []
    handler = type("Site", (_Site,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://localhost:{httpd.server_port}", seen
        httpd.shutdown()
        thread.join()


def test_a_form_sends_what_a_browser_sends_and_stops_at_the_callback(site: Site) -> None:
    base, seen = site
    browser = FormBrowser(base)
    browser._account = ("a@example.test", "pw")

    callback = browser.consent(
        base + "/authorize?redirect_uri=http://127.0.0.1:33418/callback", tick=["orders:refund"], untick=["See runs"]
    )

    assert callback == "http://127.0.0.1:33418/callback?code=abc&state=s"
    fields = [("csrf", "c1"), ("scope", "orders:refund"), ("password", "pw"), ("note", ""), ("answer", "allow")]
    assert seen == [("/decide", "s=1", fields, base)]


def test_a_label_that_is_not_there_shows_the_page(site: Site) -> None:
    browser = FormBrowser(site[0])
    browser.open("/")

    with pytest.raises(NotOnPage, match=r"(?s)no field 'Colour'.*Connect Agent"):
        browser.fill("Colour", "red")
    with pytest.raises(NotOnPage, match="no button 'Buy'"):
        browser.submit("Buy")
    with pytest.raises(NotOnPage, match="redirects"):
        browser.open("/loop")


def test_another_origin_is_never_opened(site: Site) -> None:
    browser = FormBrowser(site[0])
    browser.open("/")

    browser.follow("Leave")

    assert browser.sent_to == "http://127.0.0.1:1/callback?code=x"


def test_hidden_words_are_not_text_and_disabled_fields_are_not_sent() -> None:
    page = Page("http://localhost/", 200, {}, "<head><title>T</title></head><script>no()</script><p>Yes<b>!</b>")

    assert (page.text, page.title) == ("Yes !", "T")


def test_raw_calls_carry_both_envelope_and_headers(site: Site) -> None:
    base, _ = site
    raw = RawMcp(base + "/mcp", "cs_at_x")

    assert raw.call("orders_list").result == {}
    assert raw.headers("tools/call", {"name": "orders_list"})["Mcp-Name"] == "orders_list"


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.com", 80), ("2001:db8::1", 80)])
def test_nothing_leaves_loopback(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(BeyondLoopback):
        sock.connect(address)
    with pytest.raises(BeyondLoopback):
        socket.getaddrinfo(*address)


@pytest.mark.db
def test_each_database_is_fresh(
    database_url: str, database_kind: str, new_database_url: Callable[[Path], str], tmp_path: Path
) -> None:
    if database_kind == "sqlite":
        assert not (tmp_path / "countersign.db").exists()
        return
    with psycopg.connect(database_url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE t (x int)")
    with psycopg.connect(new_database_url(tmp_path).replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname = 't'").fetchone() == (0,)


@pytest.mark.browser
def test_chromium_submits_the_same_form(site: Site, chromium_context: BrowserContext) -> None:
    base, seen = site
    page = chromium_context.new_page()
    page.route("http://127.0.0.1:33418/**", lambda route: route.fulfill(body="back"))
    page.goto(base)
    page.get_by_label("Ask to refund orders").check()
    page.get_by_role("button", name="Connect").click()

    page.wait_for_url("http://127.0.0.1:33418/**")
    assert seen[-1][2][:2] == [("csrf", "c1"), ("scope", "a:read")]


def test_a_missing_program_is_a_skip_and_in_ci_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        skip_or_fail("Frobnicator", counts)
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="Frobnicator is missing"):
        skip_or_fail("Frobnicator", counts)

    assert missing_lines(counts) == ["SKIPPED for want of Frobnicator: 1 test(s)"]
