"""What strangers can make grow stays within bounds, and slows nobody down but them; on both databases."""

from typing import Any

import pytest
from sqlalchemy import func, select

from auth import clients
from auth.models import auth_code, authorization_request, client, login_event, session
from core import purge
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth
from tests.support.raw_mcp import RawAnswer, send
from tests.support.server import ALICE

BODY = b'{"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"], "token_endpoint_auth_method": "none"}'
PROXY = {"COUNTERSIGN_TRUSTED_PROXIES": "1"}
PRODUCTION = {"COUNTERSIGN_ENV": "production"}


def register(served: Served, address: str) -> RawAnswer:
    headers = [("Content-Type", "application/json"), ("X-Forwarded-For", address)]
    return send("POST", f"{served.base_url}/oauth/register", headers, BODY)


def count_of(served: Served, table: Any) -> int:
    with served.parts.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def try_sign_in(served: Served, email: str, password: str) -> int:
    browser = FormBrowser(served.base_url)
    browser.open("/login")
    browser.fill("E-mail", email)
    browser.fill("Password", password)
    browser.submit("Sign in")
    return browser.page.status


@pytest.mark.db
def test_one_address_registers_twenty_clients_in_ten_minutes_and_others_go_on(served_factory):
    served = served_factory(**PROXY)
    statuses = [register(served, "192.0.2.1").status for _ in range(21)]
    refused = register(served, "192.0.2.1")
    other, own = register(served, "192.0.2.2").status, register(served, "127.0.0.1").status
    served.clock.move(minutes=10, seconds=1)

    assert statuses == [201] * 20 + [429]
    assert (refused.status, refused.headers["retry-after"]) == (429, "600")
    assert (other, own, register(served, "192.0.2.1").status) == (201, 201, 201)
    assert count_of(served, client) == 23


def test_clients_that_somebody_connected_do_not_count(served_factory, monkeypatch):
    monkeypatch.setattr(clients, "ADDRESS_FLOOD", 1)
    served = served_factory(**PROXY)
    one = RawOAuth(served.base_url, client_id=register(served, "192.0.2.1").json["client_id"])
    one.redirect_uri = "https://claude.ai/api/mcp/auth_callback"
    refused = register(served, "192.0.2.1").status
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    one.code_from(browser)

    assert (refused, register(served, "192.0.2.1").status) == (429, 201)


@pytest.mark.db
def test_a_client_that_nobody_used_is_forgotten_after_thirty_days_and_a_used_one_stays(served):
    used, unused = RawOAuth(served.base_url), RawOAuth(served.base_url)
    used.register()
    unused.register()
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    used.code_from(browser)
    served.clock.move(days=30, seconds=1)
    latest = RawOAuth(served.base_url)
    latest.register()

    assert {one.id for one in served.parts.clients.list()} == {used.client_id, latest.client_id}


@pytest.mark.db
def test_what_is_over_goes_when_something_new_comes(served):
    tables = (session, login_event, authorization_request, auth_code)
    for _ in range(2):  # two of each, of which the first is over when the second comes
        browser = FormBrowser(served.base_url)
        browser.sign_in(ALICE.email, ALICE.password)
        client = RawOAuth(served.base_url)
        client.register()
        client.code_from(browser)
        counts = [count_of(served, table) for table in tables]
        served.clock.move(days=2)

    assert counts[0] == counts[2] == counts[3] == 1
    assert counts[1] == 4  # of this sign-in and this proof, each by its two keys


def test_what_is_not_over_stays(served):
    for _ in range(3):
        browser = FormBrowser(served.base_url)
        browser.sign_in(ALICE.email, ALICE.password)
        served.clock.move(hours=5)

    assert count_of(served, session) == 3
    assert count_of(served, login_event) == 6


def test_a_purge_takes_a_little_at_a_time(served, monkeypatch):
    monkeypatch.setattr(purge, "AT_A_TIME", 2)
    for n in range(5):
        try_sign_in(served, f"person{n}@example.test", "x")  # two rows each
    served.clock.move(days=2)
    try_sign_in(served, "another@example.test", "x")

    assert count_of(served, login_event) == 10 - 2 + 2


def test_behind_a_proxy_nobody_told_us_of_a_stranger_locks_nobody_out(served_factory):
    served = served_factory(**PRODUCTION)
    wrong = {try_sign_in(served, f"person{n}@example.test", "Spring2026!") for n in range(31)}

    assert wrong == {401}
    assert try_sign_in(served, ALICE.email, ALICE.password) == 200


def test_behind_a_proxy_that_we_know_the_address_of_the_stranger_counts(served_factory):
    served = served_factory(**PRODUCTION, **PROXY)

    assert [try_sign_in(served, f"person{n}@example.test", "x") for n in range(31)] == [401] * 30 + [429]
