"""The consent page: cases C19 and C20 of public bug reports, over HTTP only."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import BrowserContext

from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.html import values_of
from tests.support.oauth import RawOAuth
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, VERA, Instance, Person, ServerProcess

INVOKE, REFUND, STOCK = "mcp:action:invoke", "orders:refund", "stock:adjust"
FORM = ("Content-Type", "application/x-www-form-urlencoded")
READS = {"mcp:manifest:read", "mcp:schema:read", "mcp:effects:read", "mcp:traces:read", "mcp:flows:read"}
Fields = list[tuple[str, str]]


def signed_in(base_url: str, person: Person = ALICE) -> FormBrowser:
    browser = FormBrowser(base_url)
    browser.sign_in(person.email, person.password)
    return browser


def new_client(base_url: str, name: str = "Case client", **replaced: object) -> RawOAuth:
    client = RawOAuth(base_url)
    assert client.register(client_name=name, **replaced).status == 201
    return client


def filled_form(browser: FormBrowser, client: RawOAuth, button: str = "Connect", **replaced: str | None) -> Fields:
    """Open the consent page and return what its form would send."""
    browser.open(client.authorize_url(**replaced))
    browser.prove()
    pressed = browser.page.button(button)
    form = browser.page.form_of(pressed)
    assert form is not None
    return values_of(browser.page, form, pressed)


def cookie_of(browser: FormBrowser) -> tuple[str, str]:
    return "Cookie", "; ".join(f"{one.name}={one.value}" for one in browser.cookies)


def answer_form(browser: FormBrowser, fields: Fields) -> RawAnswer:
    """Send a form as this browser, and don't follow where it leads."""
    url = f"{browser.base_url}/oauth/authorize"
    return send("POST", url, [FORM, cookie_of(browser)], urlencode(fields).encode())


def replaced(fields: Fields, **named: str) -> Fields:
    return [(name, named.get(name, value)) for name, value in fields]


def code_in(answer: RawAnswer) -> str:
    assert answer.status == 303, answer.raw[:500]
    return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


def works(base_url: str, token: str) -> bool:
    return RawMcp(f"{base_url}/mcp", token).request("tools/list").status == 200


def grants_on_page(browser: FormBrowser) -> set[str]:
    """Return the addresses of the connections that the person sees."""
    links = browser.open("/connections").all("a")
    return {link.attrs["href"] for link in links if "/connections/gr_" in link.attrs.get("href", "")}


# --- C19 ----------------------------------------------------------------------------------------------------------


def test_c19_a_second_look_does_not_harm_the_first(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    first = filled_form(browser, client)
    filled_form(browser, client)

    assert client.exchange(code_in(answer_form(browser, first))).status == 200


def test_c19_the_same_form_twice_gives_the_same_code_also_after_it_was_redeemed(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    first, second = answer_form(browser, fields), answer_form(browser, fields)
    tokens = client.exchange(code_in(first))
    third = answer_form(browser, fields)

    assert first.headers["location"] == second.headers["location"] == third.headers["location"]
    assert tokens.status == 200
    assert works(server.base_url, tokens.json["access_token"])


@pytest.mark.db
def test_c19_the_same_form_in_parallel_makes_one_grant_and_one_code(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    before = grants_on_page(browser)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: answer_form(browser, fields), range(8)))
    codes = {code_in(answer) for answer in answers}

    assert len(codes) == 1
    assert client.exchange(codes.pop()).status == 200
    assert len(grants_on_page(browser) - before) == 1


def test_c19_back_and_approve_again_later_leaves_the_first_tokens_alive(new_instance: Callable[[], Instance]):
    with Served(new_instance()) as served:
        browser, client = signed_in(served.base_url), new_client(served.base_url)
        fields = filled_form(browser, client)
        first = client.exchange(code_in(answer_form(browser, fields)))
        served.clock.move(seconds=60)
        second = client.exchange(code_in(answer_form(browser, fields)))

        assert (first.status, second.status) == (200, 200)
        assert works(served.base_url, first.json["access_token"])
        assert works(served.base_url, second.json["access_token"])


def test_c19_back_and_deny_says_no_and_ends_nothing(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    tokens = client.exchange(code_in(answer_form(browser, fields)))
    denied = parse_qs(urlsplit(answer_form(browser, replaced(fields, answer="deny")).headers["location"]).query)

    assert denied == {
        "error": ["access_denied"],
        "error_description": denied["error_description"],
        "state": [client.state],
        "iss": [server.base_url],
    }
    assert works(server.base_url, tokens.json["access_token"])


def test_c19_other_ticks_the_second_time_count(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client, scope=REFUND)
    wide = code_in(answer_form(browser, fields))
    narrow = code_in(answer_form(browser, [pair for pair in fields if pair != ("scope", REFUND) and pair[1] != INVOKE]))

    assert wide != narrow
    assert set(client.exchange(narrow).json["scope"].split()) == READS


def test_c19_two_tabs_in_crossed_order_keep_each_client_its_own(server):
    browser = signed_in(server.base_url)
    one, two = new_client(server.base_url, "One"), new_client(server.base_url, "Two")
    of_one, of_two = filled_form(browser, one), filled_form(browser, two)
    code_two, code_one = code_in(answer_form(browser, of_two)), code_in(answer_form(browser, of_one))
    crossed = one.exchange(code_two)

    assert (crossed.status, crossed.json["error"]) == (400, "invalid_grant")
    assert one.exchange(code_one).status == two.exchange(code_two).status == 200


def test_c19_a_page_left_open_too_long_offers_to_start_again_with_the_same_request(
    new_instance: Callable[[], Instance],
):
    with Served(new_instance()) as served:
        browser, client = signed_in(served.base_url), new_client(served.base_url)
        browser.open(client.authorize_url(scope=REFUND, state="kept+state"))
        served.clock.move(minutes=31)
        browser.prove()
        browser.submit("Connect")
        expired = browser.page.status
        browser.follow("Start again")
        browser.prove()
        browser.submit("Connect")

        query = parse_qs(urlsplit(browser.sent_to or "").query)
        assert expired == 410
        assert query["state"] == ["kept+state"]
        assert REFUND in client.exchange(query["code"][0]).json["scope"].split()


def test_c19_signed_out_in_another_tab_means_sign_in_then_consent_again(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    browser.open("/")
    browser.submit("Sign out")
    browser.post("/oauth/authorize", fields)

    assert urlsplit(browser.page.url).path == "/login"
    browser.sign_in(ALICE.email, ALICE.password)
    browser.prove()
    browser.submit("Connect")
    assert client.exchange(parse_qs(urlsplit(browser.sent_to or "").query)["code"][0]).status == 200


def test_c19_another_person_cannot_answer_the_form_that_alice_saw(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    browser.open("/")
    browser.submit("Sign out")
    browser.sign_in(BOB.email, BOB.password)
    with_own_csrf = replaced(fields, csrf=filled_form(browser, client)[0][1], password=BOB.password)
    answers = [answer_form(browser, form) for form in (fields, with_own_csrf, replaced(with_own_csrf, answer="deny"))]

    assert [answer.status for answer in answers] == [403, 403, 403]
    assert not any("location" in answer.headers for answer in answers)


def test_c19_a_form_of_an_earlier_session_of_the_same_person_is_asked_again(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    browser.open("/")
    browser.submit("Sign out")
    browser.sign_in(ALICE.email, ALICE.password)
    page = browser.post("/oauth/authorize", fields)

    assert page.status == 403
    assert page.link("Start again")


@pytest.mark.parametrize(
    "broken",
    [
        {"csrf": ""},
        {"csrf": "csrf_" + "x" * 43},
        {"request": ""},
        {"request": "ar_" + "0" * 32},
        {"request": "\x00"},
        {"password": ""},
        {"password": "wrong"},
        {"password": BOB.password},
    ],
)
def test_consent_without_token_request_or_proof_gives_nothing(new_instance: Callable[[], Instance], broken):
    with Served(new_instance()) as served:
        browser, client = signed_in(served.base_url), new_client(served.base_url)
        answer = answer_form(browser, replaced(filled_form(browser, client), **broken))

        assert answer.status in (403, 404)
        assert "location" not in answer.headers
        assert grants_on_page(browser) == set()


@pytest.mark.parametrize("lost", ["csrf", "request", "password"])
def test_consent_with_a_field_left_out_gives_nothing(server, lost):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = [pair for pair in filled_form(browser, client) if pair[0] != lost]
    answer = answer_form(browser, fields)

    assert answer.status in (403, 404)
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "header", [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"), ("Origin", "https://evil.example")]
)
def test_consent_from_a_page_of_another_site_gives_nothing(server, header):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    body = urlencode(filled_form(browser, client)).encode()
    answer = send("POST", f"{server.base_url}/oauth/authorize", [FORM, cookie_of(browser), header], body)

    assert answer.status == 403
    assert "location" not in answer.headers


def test_a_bearer_token_consents_to_nothing(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    token = client.exchange(code_in(answer_form(browser, fields))).json["access_token"]
    headers = [FORM, ("Authorization", f"Bearer {token}")]
    answer = send("POST", f"{server.base_url}/oauth/authorize", headers, urlencode(fields).encode())

    assert (answer.status, urlsplit(answer.headers["location"]).path) == (303, "/login")


# --- what is ticked, offered and given ----------------------------------------------------------------------------


def ticked(browser: FormBrowser) -> set[str]:
    return {box.attrs["value"] for box in browser.page.all("input") if box.has("checked")}


def offered(browser: FormBrowser) -> set[str]:
    return {box.attrs["value"] for box in browser.page.all("input") if box.attrs.get("name") == "scope"}


def test_reading_is_ticked_and_writing_only_when_asked_for_or_granted_before(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    browser.open(client.authorize_url())
    at_first = ticked(browser)
    browser.open(client.authorize_url(scope=f" {REFUND}  {REFUND} openid nope offline_access"))
    asked_for = ticked(browser)
    client.exchange(client.code_from(browser, tick=(STOCK,)))
    browser.open(client.authorize_url())

    assert at_first == READS
    assert asked_for == READS | {REFUND}
    assert ticked(browser) == READS | {STOCK, INVOKE}
    browser.open(new_client(server.base_url).authorize_url())
    assert ticked(browser) == READS  # what was granted to another client counts for nothing


def test_the_answer_says_what_was_granted_and_a_flows_own_scope_brings_the_right_to_call(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    answer = client.exchange(client.code_from(browser, tick=(REFUND,), scope="claudeai"))

    assert set(answer.json["scope"].split()) == READS | {REFUND, INVOKE}
    assert answer.json["token_type"] == "Bearer"
    assert isinstance(answer.json["expires_in"], int)
    assert answer.headers["cache-control"] == "no-store"


def test_no_form_grants_more_than_the_role_and_the_page_offer(server):
    browser, client = signed_in(server.base_url, VERA), new_client(server.base_url)
    fields = filled_form(browser, client, scope=f"{REFUND} mcp:* console:*")
    shown = offered(browser)
    forged = ["mcp:*", "console:*", "console:flows:invoke", "orders:refund", "mcp:action:invoke", "offline_access", "x"]
    answer = client.exchange(code_in(answer_form(browser, fields + [("scope", scope) for scope in forged])))

    assert shown == READS
    assert set(answer.json["scope"].split()) == READS


def test_connect_without_a_right_is_asked_again(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = [pair for pair in filled_form(browser, client) if pair[0] != "scope"]
    browser.post("/oauth/authorize", fields)

    assert browser.page.status == 400
    assert "Tick at least one" in browser.page.text
    assert browser.page.button("Connect")


def test_a_wrong_password_keeps_the_ticks_and_the_right_one_then_connects(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    browser.open(client.authorize_url())
    browser.tick(STOCK)
    browser.prove("not the password")
    browser.submit("Connect")
    wrong = browser.page.status
    kept = ticked(browser)
    browser.prove(ALICE.password)
    browser.submit("Connect")

    assert wrong == 403
    assert STOCK in kept
    assert "code" in parse_qs(urlsplit(browser.sent_to or "").query)


def test_a_thief_of_a_session_guesses_five_times_and_the_person_signs_in_again_and_decides(
    new_instance: Callable[[], Instance],
):
    with Served(new_instance()) as served:
        stolen, client = signed_in(served.base_url), new_client(served.base_url)
        fields = filled_form(stolen, client)
        wrong = [answer_form(stolen, replaced(fields, password=f"guess {n}")) for n in range(7)]
        right = answer_form(stolen, fields)
        fresh = signed_in(served.base_url)

        assert [answer.status for answer in wrong] == [403] * 5 + [303] * 2
        assert {urlsplit(answer.headers["location"]).path for answer in (*wrong[5:], right)} == {"/login"}
        assert code_in(answer_form(fresh, filled_form(fresh, client)))


def test_guesses_over_many_sessions_are_throttled_by_the_person(new_instance: Callable[[], Instance]):
    with Served(new_instance()) as served:
        client = new_client(served.base_url)
        statuses = []
        for _ in range(5):
            stolen = signed_in(served.base_url)
            fields = filled_form(stolen, client)
            statuses += [answer_form(stolen, replaced(fields, password=f"guess {n}")).status for n in range(4)]
        paused = answer_form(stolen, fields)
        served.clock.move(minutes=16)

        assert statuses == [403] * 20
        assert (paused.status, 0 < int(paused.headers["retry-after"]) <= 900) == (429, True)
        assert code_in(answer_form(stolen, fields))


def test_c02_on_https_every_cookie_is_bound_to_the_host_and_to_https(new_instance: Callable[[], Instance]):
    with Served(new_instance(), COUNTERSIGN_BASE_URL="https://app.example.com") as served:
        sign_in = send("GET", f"{served.address}/login")
        cookie = sign_in.headers["set-cookie"]

        assert cookie.startswith("__Host-countersign-form=")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= {part.strip() for part in cookie.split(";")}


# --- C20 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/oauth/authorize", "/authorize"])
def test_c20_the_consent_page_cannot_be_framed_cached_or_cut_off_from_its_redirect(server, path):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    page = browser.open(client.authorize_url().replace("/oauth/authorize", path))
    policy = dict(part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";"))

    assert policy["frame-ancestors"] == policy["base-uri"] == policy["default-src"] == "'none'"
    assert "form-action" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in page.headers


def test_c20_looking_grants_nothing_and_the_answer_is_a_303(server):
    browser, client = signed_in(server.base_url), new_client(server.base_url)
    fields = filled_form(browser, client)
    by_get = send("GET", f"{server.base_url}/oauth/authorize?{urlencode(fields)}", [cookie_of(browser)])
    answer = answer_form(browser, fields)

    assert by_get.status == 400
    assert (answer.status, answer.headers["cache-control"]) == (303, "no-store")
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("uri", "host", "warned"),
    [
        ("https://claude.ai/api/mcp/auth_callback", "claude.ai", False),
        ("http://localhost:5/callback", "localhost:5", True),
        ("https://127.0.0.1:5/callback", "127.0.0.1:5", True),
        ("https://localhost:5/callback", "localhost:5", True),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor:", True),
    ],
)
def test_c20_the_page_says_who_where_to_and_what_and_warns_of_this_computer(server, uri, host, warned):
    browser = signed_in(server.base_url)
    client = RawOAuth(server.base_url, redirect_uri=uri)
    client.register(client_name="Fine client")
    browser.open(client.authorize_url())
    text = browser.page.text

    assert all(part in text for part in ("Fine client", "unverified", host, ALICE.email, f"{server.base_url}/mcp"))
    assert ("this computer" in text.replace("another program on this computer", "")) is warned
    browser.prove()
    browser.submit("Connect")
    assert (browser.sent_to or "").startswith(uri + "?")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("<b>Bank</b>", "<b>Bank</b>"), ("Ba\u202eknaB\u2066", "BaknaB"), ("\u200b\u202e", "Unnamed client")],
)
def test_c20_a_clients_name_is_only_text(server, name, shown):
    browser, client = signed_in(server.base_url), new_client(server.base_url, name)
    browser.open(client.authorize_url())

    assert shown in browser.page.text
    assert not browser.page.all("b", "script") or all(node.text() != "Bank" for node in browser.page.all("b"))
    assert not {"\u202e", "\u2066", "\u200b"} & set(browser.page.body)


class _Listener(BaseHTTPRequestHandler):
    """Stands for the client's own listener, and for a page that frames what it may not."""

    def do_GET(self) -> None:
        self.server.seen.append(self.path)  # type: ignore[attr-defined]
        body = self.server.body  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def listener():
    running = HTTPServer(("127.0.0.1", 0), _Listener)
    running.seen, running.body = [], b"<h1>connected</h1>"  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def sign_in_chromium(context: BrowserContext, server: ServerProcess):
    page = context.new_page()
    page.goto(f"{server.base_url}/login")
    page.get_by_label("E-mail").fill(ALICE.email)
    page.get_by_label("Password").fill(ALICE.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{server.base_url}/")
    return page


@pytest.mark.browser
def test_c20_in_chromium_the_answer_reaches_the_client_without_scripts(server, chromium, listener):
    context = chromium.new_context(java_script_enabled=False)
    try:
        page = sign_in_chromium(context, server)
        uri = f"http://127.0.0.1:{listener.server_port}/callback"
        client = RawOAuth(server.base_url, redirect_uri=uri)
        client.register()
        page.goto(client.authorize_url())
        page.get_by_label("Your password").fill(ALICE.password)
        page.get_by_role("button", name="Connect").click()
        page.wait_for_url(f"{uri}?**")

        query = parse_qs(urlsplit(page.url).query)
        assert client.exchange(query["code"][0]).status == 200
        assert query["iss"] == [server.base_url]
    finally:
        context.close()


@pytest.mark.browser
def test_c20_in_chromium_no_page_frames_the_consent(server, chromium_context, listener):
    page = sign_in_chromium(chromium_context, server)
    client = RawOAuth(server.base_url)
    client.register()
    listener.body = f'<iframe src="{client.authorize_url().replace("&", "&amp;")}"></iframe>'.encode()
    page.goto(f"http://localhost:{listener.server_port}/")
    page.wait_for_load_state("networkidle")

    assert len(page.frames) == 2
    assert page.frames[1].get_by_role("button", name="Connect").count() == 0
