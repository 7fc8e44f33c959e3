"""Signing in, sessions, passwords and changed connections, attacked over HTTP only."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from sqlalchemy import create_engine, select, text

from policy.models import audit
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import FORM, RawOAuth, token_for
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, VERA, Instance, Person

COOKIE = "countersign"
NEW = "a sentence that only alice would say"
REFUND = "orders:refund"


@pytest.fixture
def served(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    with Served(new_instance()) as running:
        yield running


def signed_in(base_url: str, person: Person = ALICE) -> FormBrowser:
    browser = FormBrowser(base_url)
    browser.sign_in(person.email, person.password)
    return browser


def cookie_of(browser: FormBrowser, name: str = COOKIE) -> str:
    return next((one.value or "" for one in browser.cookies if one.name == name), "")


def is_signed_in(base_url: str, session: str) -> bool:
    return send("GET", f"{base_url}/", [("Cookie", f"{COOKIE}={session}")]).status == 200


def hidden(browser: FormBrowser, name: str) -> str:
    return next(node.attrs["value"] for node in browser.page.all("input") if node.attrs.get("name") == name)


def try_sign_in(browser: FormBrowser, email: str, password: str) -> int:
    browser.open("/login")
    browser.fill("E-mail", email)
    browser.fill("Password", password)
    browser.submit("Sign in")
    return browser.page.status


# --- signing in ---------------------------------------------------------------------------------------------------


def test_unknown_person_and_wrong_password_get_the_same_answer(server):
    browser = FormBrowser(server.base_url)
    pages = []
    for email, password in ((ALICE.email, "wrong password"), ("nobody@example.test", ALICE.password), ("\x00", "x")):
        status = try_sign_in(browser, email, password)
        shown = browser.page.root.text()
        pages.append((status, shown))

    assert {status for status, _ in pages} == {401}
    assert len({text for _, text in pages}) == 1


def test_the_session_id_changes_at_sign_in_and_a_planted_one_stays_worthless(server):
    planted = "cs_ss_" + "a" * 43
    browser = FormBrowser(server.base_url)
    browser.open("/login")
    fields = urlencode(
        {"form": hidden(browser, "form"), "return": "", "email": ALICE.email, "password": ALICE.password}
    ).encode()
    cookies = f"{COOKIE}={planted}; {COOKIE}-form={cookie_of(browser, COOKIE + '-form')}"
    answer = send("POST", f"{server.base_url}/login", [FORM, ("Cookie", cookies)], fields)

    assert answer.status == 303
    assert f"{COOKIE}={planted}" not in answer.headers["set-cookie"]
    assert not is_signed_in(server.base_url, planted)


def test_signing_in_again_ends_the_session_that_the_browser_had(server):
    browser = signed_in(server.base_url)
    first = cookie_of(browser)
    browser.open("/login?again")  # a signed-in person is sent on, so the form is fetched as a stranger
    stranger = FormBrowser(server.base_url)
    stranger.open("/login")
    fields = {"form": hidden(stranger, "form"), "email": BOB.email, "password": BOB.password}
    cookies = f"{COOKIE}={first}; {COOKIE}-form={cookie_of(stranger, COOKIE + '-form')}"
    send("POST", f"{server.base_url}/login", [FORM, ("Cookie", cookies)], urlencode(fields).encode())

    assert not is_signed_in(server.base_url, first)


@pytest.mark.parametrize("attack", ["no cookie", "other browser's cookie", "no seal", "forged seal", "cross-site"])
def test_a_sign_in_form_counts_only_in_the_browser_that_was_shown_it(server, attack):
    victim, attacker = FormBrowser(server.base_url), FormBrowser(server.base_url)
    victim.open("/login")
    attacker.open("/login")
    fields = {"form": hidden(attacker, "form"), "email": BOB.email, "password": BOB.password}
    cookie = cookie_of(attacker, COOKIE + "-form")
    headers = [FORM]
    if attack == "other browser's cookie":
        cookie = cookie_of(victim, COOKIE + "-form")
    if attack == "no seal":
        del fields["form"]
    if attack == "forged seal":
        fields["form"] = fields["form"][:-2] + "xx"
    if attack == "cross-site":
        headers.append(("Sec-Fetch-Site", "cross-site"))
    if attack != "no cookie":
        headers.append(("Cookie", f"{COOKIE}-form={cookie}"))
    answer = send("POST", f"{server.base_url}/login", headers, urlencode(fields).encode())

    assert answer.status == 400
    assert f"{COOKIE}=cs_ss_" not in answer.headers.get("set-cookie", "")


def test_guessing_is_slowed_down_and_the_pause_grows(served):
    browser = FormBrowser(served.base_url)
    statuses = [try_sign_in(browser, ALICE.email, f"guess {n}") for n in range(6)]
    right = try_sign_in(browser, ALICE.email, ALICE.password)
    wait = int(browser.page.headers["retry-after"])
    served.clock.move(seconds=wait)
    second = [try_sign_in(browser, ALICE.email, f"guess {n}") for n in range(6)]
    served.clock.move(minutes=16)
    third = [try_sign_in(browser, ALICE.email, f"guess {n}") for n in range(6)]
    served.clock.move(minutes=16)

    assert statuses == [401] * 5 + [429]
    assert (right, 0 < wait <= 900) == (429, True)
    assert second == third == [401] * 5 + [429]
    assert try_sign_in(browser, ALICE.email, ALICE.password) == 429
    assert int(browser.page.headers["retry-after"]) > 900
    assert try_sign_in(browser, BOB.email, BOB.password) == 200


def test_a_success_forgives_the_failures_before_it(served):
    for _ in range(3):
        browser = FormBrowser(served.base_url)
        assert [try_sign_in(browser, ALICE.email, "wrong") for _ in range(4)] == [401] * 4
        assert try_sign_in(browser, ALICE.email, ALICE.password) == 200


def test_a_new_password_from_the_command_line_ends_the_pause_that_a_stranger_made(served):
    stranger = FormBrowser(served.base_url)
    for n in range(6):
        try_sign_in(stranger, ALICE.email, f"guess {n}")
    locked_out = try_sign_in(FormBrowser(served.base_url), ALICE.email, ALICE.password)
    served.instance.run("operator", "password", ALICE.email, env={"COUNTERSIGN_OPERATOR_PASSWORD": NEW})
    served.clock.move(seconds=60)  # the command had the machine's clock

    assert locked_out == 429
    assert try_sign_in(FormBrowser(served.base_url), ALICE.email, NEW) == 200


def test_the_spelling_of_an_address_is_no_way_around_the_throttle(served):
    browser = FormBrowser(served.base_url)
    spellings = [
        ALICE.email,
        ALICE.email.upper(),
        f" {ALICE.email}",
        f"{ALICE.email}\t",
        ALICE.email.title(),
        ALICE.email,
    ]

    assert [try_sign_in(browser, one, "wrong") for one in spellings] == [401] * 5 + [429]


def test_many_accounts_from_one_address_are_slowed_down_as_well(served):
    browser = FormBrowser(served.base_url)
    statuses = [try_sign_in(browser, f"person{n}@example.test", "Spring2026!") for n in range(31)]

    assert statuses == [401] * 30 + [429]


@pytest.mark.db
def test_parallel_guesses_do_not_outrun_the_count(server):
    email = "parallel@example.test"
    browsers = [FormBrowser(server.base_url) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda browser: try_sign_in(browser, email, "guess"), browsers))

    assert statuses.count(401) == 5
    assert statuses.count(429) == 7


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/%09/evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "x",
        ".eJw.x.y",
    ],
)
def test_sign_in_leads_nowhere_that_we_did_not_seal(server, target):
    browser = FormBrowser(server.base_url)
    browser.open(f"/login?return={quote(target, safe='')}")
    browser.sign_in(ALICE.email, ALICE.password)

    assert browser.page.url == f"{server.base_url}/"


def test_a_link_opened_without_a_session_signs_in_and_comes_back_with_its_query(server):
    browser = FormBrowser(server.base_url)
    browser.open("/runs?status=done&flow=a%2Bb")
    assert urlsplit(browser.page.url).path == "/login"
    browser.sign_in(ALICE.email, ALICE.password)

    assert browser.page.url == f"{server.base_url}/runs?status=done&flow=a%2Bb"


def test_the_address_to_come_back_to_is_sealed_for_one_purpose(server):
    browser = FormBrowser(server.base_url)
    browser.open("/login")
    other_purpose = hidden(browser, "form")
    browser.open(f"/login?return={other_purpose}")
    browser.sign_in(ALICE.email, ALICE.password)

    assert browser.page.url == f"{server.base_url}/"


def test_an_address_too_long_to_come_back_to_is_a_clean_error(server):
    answer = send("GET", f"{server.base_url}/runs?x={'%C3%A9' * 1200}")

    assert 400 <= answer.status < 500 or urlsplit(answer.headers["location"]).path == "/login"


# --- sessions -----------------------------------------------------------------------------------------------------


def set_cookies(answer: RawAnswer) -> str:
    return answer.headers.get("set-cookie", "")


def test_a_session_ends_after_twelve_idle_hours_and_not_while_it_is_used(served):
    browser = signed_in(served.base_url)
    session = cookie_of(browser)
    for _ in range(3):
        served.clock.move(hours=11)
        assert is_signed_in(served.base_url, session)
    served.clock.move(hours=12, seconds=1)

    assert not is_signed_in(served.base_url, session)


def test_no_session_lives_longer_than_fourteen_days(served):
    browser = signed_in(served.base_url)
    session = cookie_of(browser)
    for _ in range(28):
        served.clock.move(hours=11, minutes=59)
        is_signed_in(served.base_url, session)
    served.clock.move(hours=2)

    assert not is_signed_in(served.base_url, session)


def test_a_remembered_session_lives_fourteen_days(served):
    browser = FormBrowser(served.base_url)
    browser.open("/login")
    browser.tick("Keep me signed in on this device")
    browser.sign_in(ALICE.email, ALICE.password)
    session = cookie_of(browser)
    served.clock.move(days=13)
    alive = is_signed_in(served.base_url, session)
    served.clock.move(days=1, seconds=1)

    assert alive
    assert not is_signed_in(served.base_url, session)


def test_a_clock_that_went_back_lets_no_session_live_on(served):
    session = cookie_of(signed_in(served.base_url))
    served.clock.move(hours=-1)

    assert not is_signed_in(served.base_url, session)


def test_signing_out_ends_the_session_on_the_server(server):
    browser = signed_in(server.base_url)
    session = cookie_of(browser)
    browser.submit("Sign out")

    assert urlsplit(browser.page.url).path == "/login"
    assert not is_signed_in(server.base_url, session)


def test_signing_out_without_a_session_waits_for_no_writer(served):
    with served.parts.database.writing.begin():  # SQLite has one place to write, and it is taken
        answer = send("POST", f"{served.base_url}/logout", [FORM, ("Cookie", f"{COOKIE}=cs_ss_{'a' * 43}")], b"")

    assert (answer.status, urlsplit(answer.headers["location"]).path) == (303, "/login")


def test_another_site_can_neither_sign_out_nor_in(server):
    browser = signed_in(server.base_url)
    by_get = browser.open("/logout")
    forged = browser.post("/logout", [("csrf", "x")])

    assert (by_get.status, forged.status) == (405, 403)
    assert is_signed_in(server.base_url, cookie_of(browser))


@pytest.mark.parametrize(
    "cookie", ["", "x", "cs_ss_" + "x" * 43, "cs_ss_" + "x" * 43 + "\u00e9", "cs_ss_%00", "x" * 4000]
)
def test_what_is_no_session_is_asked_to_sign_in(server, cookie):
    answer = send(
        "GET", f"{server.base_url}/", [("Cookie", f"{COOKIE}={cookie}".encode("latin-1", "replace").decode("latin-1"))]
    )

    assert (answer.status, urlsplit(answer.headers["location"]).path) == (303, "/login")


# --- passwords ----------------------------------------------------------------------------------------------------


def change_password(browser: FormBrowser, old: str, new: str) -> int:
    browser.open("/password")
    browser.fill("Current password", old)
    browser.fill("New password", new)
    browser.submit("Change password")
    return browser.page.status


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("wrong", NEW, 403),
        (ALICE.password, "short", 400),
        (ALICE.password, ALICE.password, 400),
        (ALICE.password, "", 400),
    ],
)
def test_a_password_that_cannot_be_taken_changes_nothing(served, old, new, status):
    assert change_password(signed_in(served.base_url), old, new) == status
    assert signed_in(served.base_url)


def test_a_new_password_ends_every_other_session_and_connection(served):
    browser, elsewhere = signed_in(served.base_url), signed_in(served.base_url)
    token = token_for(browser)["access_token"]
    before = cookie_of(browser)
    status = change_password(browser, ALICE.password, NEW)

    assert (status, urlsplit(browser.page.url).path) == (200, "/")
    assert not is_signed_in(served.base_url, cookie_of(elsewhere))
    assert not is_signed_in(served.base_url, before)
    assert is_signed_in(served.base_url, cookie_of(browser))
    assert RawMcp(f"{served.base_url}/mcp", token).request("tools/list").status == 401
    assert try_sign_in(FormBrowser(served.base_url), ALICE.email, ALICE.password) == 401


def test_a_first_password_is_replaced_before_anything_else_and_the_way_goes_on(served):
    set_must_change(served.instance, ALICE.email)
    client = RawOAuth(served.base_url)
    client.register()
    browser = FormBrowser(served.base_url)
    browser.open(client.authorize_url())
    browser.fill("E-mail", ALICE.email)
    browser.fill("Password", ALICE.password)
    browser.submit("Sign in")
    where = urlsplit(browser.page.url).path
    elsewhere = [
        urlsplit(browser.open(path).url).path for path in ("/", "/runs", "/connections", client.authorize_url())
    ]
    browser.fill("Current password", ALICE.password)
    browser.fill("New password", NEW)
    browser.submit("Change password")

    assert where == "/password"
    assert elsewhere == ["/password"] * 4
    assert urlsplit(browser.page.url).path == "/oauth/authorize"
    assert browser.page.button("Connect")


def set_must_change(instance: Instance, email: str) -> None:
    engine = create_engine(instance.database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE cs_operator SET must_change = true WHERE email = :email"), {"email": email})
    engine.dispose()


def test_every_refused_proof_is_on_record_without_a_secret(served):
    browser = signed_in(served.base_url)
    wanted = [("", NEW), *[("wrong-guess", NEW)] * 5]
    statuses = [change_password(browser, old, new) for old, new in wanted]
    with served.parts.database.read() as connection:
        rows = connection.execute(select(audit).where(audit.c.event == "proof.failed")).mappings().all()

    assert statuses == [403] * 6
    assert sorted(row["code"] for row in rows) == ["missing", "session_ended", *["wrong"] * 4]
    assert {row["operator_id"] for row in rows} == {served.parts.operators.find_by_email(ALICE.email).id}
    assert "wrong-guess" not in str(rows)
    assert urlsplit(browser.open("/runs").url).path == "/login"


# --- changed connections ------------------------------------------------------------------------------------------


def connection_form(browser: FormBrowser) -> tuple[str, list[str]]:
    paths = {urlsplit(link.attrs.get("href", "")).path for link in browser.open("/connections").all("a")}
    [path] = [path for path in paths if path.startswith("/connections/gr_")]
    browser.open(path)
    return path, [
        box.attrs["value"]
        for box in browser.page.all("input")
        if box.attrs.get("name") == "scope" and box.has("checked")
    ]


def test_a_right_added_on_the_page_works_at_once_and_one_taken_away_is_gone_at_once(served):
    browser = signed_in(served.base_url)
    mcp = RawMcp(f"{served.base_url}/mcp", token_for(browser)["access_token"])
    before = mcp.call("orders_refund", {"order_id": "x", "reason": "x"}).status
    connection_form(browser)
    browser.tick(REFUND)
    browser.prove()
    browser.submit("Save")
    added = mcp.call("orders_refund", {"order_id": "x", "reason": "x"}).status
    connection_form(browser)
    browser.untick(REFUND)
    browser.prove()
    browser.submit("Save")
    removed = mcp.call("orders_refund", {"order_id": "x", "reason": "x"}).status

    assert (before, added, removed) == (403, 200, 403)


@pytest.mark.parametrize(
    "password", [None, "", "wrong", BOB.password], ids=["none", "empty", "wrong", "another person's"]
)
def test_no_right_is_added_without_the_proof(served, password):
    browser = signed_in(served.base_url)
    token = token_for(browser)["access_token"]
    path, scopes = connection_form(browser)
    fields = [("csrf", hidden(browser, "csrf")), *[("scope", one) for one in [*scopes, REFUND]]]
    page = browser.post(path, fields + ([] if password is None else [("password", password)]))

    assert page.status == 403
    assert RawMcp(f"{served.base_url}/mcp", token).call("orders_refund", {"order_id": "x", "reason": "x"}).status == 403


def test_no_form_widens_a_connection_beyond_role_and_consent(served):
    browser = signed_in(served.base_url, VERA)
    token_for(browser)
    path, scopes = connection_form(browser)
    forged = ["mcp:*", "console:*", "console:flows:invoke", REFUND, "mcp:action:invoke", "x"]
    fields = [("scope", one) for one in [*scopes, *forged]]
    browser.post(path, [("csrf", hidden(browser, "csrf")), ("password", VERA.password), *fields])

    assert connection_form(browser)[1] == scopes


@pytest.mark.parametrize("grant", ["%00", "gr_x", "gr_" + "0" * 32, "..%2f", "é"])
@pytest.mark.db
def test_an_address_that_is_no_connection_of_mine_is_unknown(server, grant):
    browser = signed_in(server.base_url)
    csrf = hidden(browser, "csrf")
    fields = [("csrf", csrf), ("password", ALICE.password), ("scope", "mcp:flows:read")]
    statuses = {
        browser.open(f"/connections/{quote(grant, safe='%')}").status,
        browser.post(f"/connections/{quote(grant, safe='%')}", fields).status,
        browser.post(f"/connections/{quote(grant, safe='%')}/end", fields).status,
    }

    assert statuses <= {404, 405}


# --- logs ---------------------------------------------------------------------------------------------------------


def test_not_even_authlib_at_debug_writes_a_secret(served, caplog):
    logging.getLogger("authlib").setLevel(logging.DEBUG)
    logging.getLogger("authlib").propagate = True
    caplog.set_level(logging.DEBUG)
    browser = signed_in(served.base_url)
    client = RawOAuth(served.base_url)
    client.register()
    code = client.code_from(browser)
    first = client.exchange(code).json
    second = client.refresh(first["refresh_token"]).json
    logging.getLogger("authlib").setLevel(logging.CRITICAL)
    logging.getLogger("authlib").propagate = False
    tokens = [one[name] for one in (first, second) for name in ("access_token", "refresh_token")]

    assert "authlib" in {record.name.partition(".")[0] for record in caplog.records}
    assert not [secret[:8] for secret in (code, client.verifier, ALICE.password, *tokens) if secret in caplog.text]


def test_the_consent_answer_of_a_signed_out_browser_carries_the_state_on(server):
    client = RawOAuth(server.base_url, state="s+t/a=")
    client.register()
    browser = FormBrowser(server.base_url)
    browser.open(client.authorize_url())
    browser.sign_in(ALICE.email, ALICE.password)
    browser.submit("Cancel")

    assert parse_qs(urlsplit(browser.sent_to or "").query)["state"] == ["s+t/a="]
