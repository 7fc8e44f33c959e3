"""Codes and tokens: cases C23, C24 and C26 of public bug reports, races and revocation, over HTTP only."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from sqlalchemy import create_engine, text

from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import FORM, RawOAuth
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, Instance, Person

REFUND, READ = "orders:refund", "mcp:flows:read"
TOKEN = {"access_token", "refresh_token", "expires_in", "scope", "token_type"}


class Connected:
    """A person, a client, and a way to new codes and tokens."""

    def __init__(self, base_url: str, person: Person = ALICE, **registration: object) -> None:
        self.base_url = base_url
        self.browser = FormBrowser(base_url)
        self.browser.sign_in(person.email, person.password)
        self.client = RawOAuth(base_url)
        assert self.client.register(**registration).status == 201

    def code(self, **named: tuple[str, ...]) -> str:
        return self.client.code_from(self.browser, **named)

    def tokens(self, **named: tuple[str, ...]) -> dict[str, str]:
        answer = self.client.exchange(self.code(**named))
        assert answer.status == 200, answer.raw
        return dict(answer.json)

    def works(self, token: str) -> bool:
        status = RawMcp(f"{self.base_url}/mcp", token).request("tools/list").status
        assert status in (200, 401)
        return status == 200


@pytest.fixture
def served(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    with Served(new_instance()) as running:
        yield running


@pytest.fixture
def alice(served: Served) -> Connected:
    return Connected(served.base_url)


def said(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, answer.json.get("error", "")


def audit(instance: Instance, event: str) -> list[tuple[str, str]]:
    """Return (grant id, code) of the audit events of this kind."""
    engine = create_engine(instance.database_url)
    try:
        with engine.connect() as connection:
            wanted = text("SELECT grant_id, code FROM cs_audit WHERE event = :event ORDER BY id")
            return [tuple(row) for row in connection.execute(wanted, {"event": event})]
    finally:
        engine.dispose()


# --- C23 ----------------------------------------------------------------------------------------------------------


def test_c23_a_code_used_twice_ends_the_tokens_it_gave_and_no_others(served, alice):
    others = alice.tokens()
    code = alice.code()
    tokens = alice.client.exchange(code).json
    served.clock.move(seconds=15)
    again = alice.client.exchange(code)

    assert said(again) == (400, "invalid_grant")
    assert not alice.works(tokens["access_token"])
    assert said(alice.client.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert alice.works(others["access_token"])
    assert [reason for _, reason in audit(served.instance, "token.reused")] == ["code_reused"]


def test_c23_an_innocent_repeat_within_ten_seconds_ends_nothing(served, alice):
    code = alice.code()
    tokens = alice.client.exchange(code).json
    served.clock.move(seconds=9)
    again = alice.client.exchange(code)

    assert said(again) == (400, "invalid_grant")
    assert alice.works(tokens["access_token"])
    assert audit(served.instance, "token.reused") == []


@pytest.mark.parametrize(
    "replaced", [{"code_verifier": "w" * 43}, {"code_verifier": None}, {"redirect_uri": "http://127.0.0.1:9/callback"}]
)
def test_c23_a_second_use_without_the_verifier_or_the_redirect_is_never_innocent(alice, replaced):
    code = alice.code()
    tokens = alice.client.exchange(code).json
    again = alice.client.exchange(code, **replaced)

    assert said(again) == (400, "invalid_grant")
    assert not alice.works(tokens["access_token"])


def test_c23_another_client_does_not_burn_a_code_and_its_use_of_a_spent_one_ends_what_it_gave(served, alice):
    thief = RawOAuth(served.base_url, verifier=alice.client.verifier)
    thief.register()
    code = alice.code()
    before = thief.exchange(code)
    tokens = alice.client.exchange(code)
    worked = alice.works(tokens.json["access_token"])
    after = thief.exchange(code)  # within ten seconds, with the verifier: the code has leaked all the same

    assert said(before) == said(after) == (400, "invalid_grant")
    assert (tokens.status, worked) == (200, True)
    assert not alice.works(tokens.json["access_token"])
    assert [reason for _, reason in audit(served.instance, "token.reused")] == ["code_reused"]


def test_c23_a_code_dies_of_age(served, alice):
    code = alice.code()
    served.clock.move(seconds=121)

    assert said(alice.client.exchange(code)) == (400, "invalid_grant")


@pytest.mark.parametrize("code", ["", "x", "cs_ac_" + "x" * 43, "\x00", "é", "x" * 5000, "' OR 1=1 --"])
def test_c23_what_is_no_code_is_a_json_error(alice, code):
    assert said(alice.client.exchange(code)) == (400, "invalid_grant")


def test_c23_a_code_of_an_ended_connection_gives_nothing(alice):
    alice.tokens()
    code = alice.code()
    for grant in grants_of(alice.browser):
        end(alice.browser, grant)
    still = alice.client.exchange(code)  # its own grant has no token yet, so it is not on the page
    assert still.status == 200
    for grant in grants_of(alice.browser):
        end(alice.browser, grant)

    assert not alice.works(still.json["access_token"])


def together(times: int, call: Callable[[], RawAnswer]) -> list[RawAnswer]:
    """Make the same call from so many threads at one moment."""
    barrier = threading.Barrier(times)

    def wait_and_call(_: int) -> RawAnswer:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(wait_and_call, range(times)))


# --- C24 ----------------------------------------------------------------------------------------------------------


def test_c24_the_number_of_tokens_of_one_generation_is_bounded(alice):
    refresh_token = alice.tokens()["refresh_token"]
    answers = [alice.client.refresh(refresh_token) for _ in range(25)]
    access = {answer.json["access_token"] for answer in answers}

    assert {answer.status for answer in answers} == {200}
    assert len(access) == 10
    assert all(alice.works(token) for token in access)
    assert {answer.json["refresh_token"] for answer in answers} == {answers[0].json["refresh_token"]}
    assert alice.client.refresh(answers[0].json["refresh_token"]).status == 200


def test_c24_a_repeat_gets_no_token_of_another_narrowing_nor_one_that_was_taken_back(alice):
    refresh_token = alice.tokens()["refresh_token"]
    answers = [alice.client.refresh(refresh_token) for _ in range(10)]
    narrow = alice.client.refresh(refresh_token, scope=READ)
    for answer in answers[2:]:
        token = {"token": answer.json["access_token"], "client_id": alice.client.client_id}
        assert alice.client.post_form("/oauth/revoke", token).status == 200
    left = {answer.json["access_token"] for answer in answers[:2]}
    again = []
    for _ in range(3):
        again.append(alice.client.refresh(refresh_token))
        token = again[-1].json.get("access_token", "none")
        alice.client.post_form("/oauth/revoke", {"token": token, "client_id": alice.client.client_id})

    assert narrow.status == 429
    assert [answer.status for answer in again] == [200, 200, 429]
    assert {answer.json["access_token"] for answer in again[:2]} == left
    assert int(again[2].headers["retry-after"]) > 0


def test_c24_a_repeat_in_the_grace_gets_the_same_successor_and_a_late_one_ends_the_family(served, alice):
    others = alice.tokens()
    tokens = alice.tokens()
    first = alice.client.refresh(tokens["refresh_token"]).json
    served.clock.move(seconds=59)
    second = alice.client.refresh(tokens["refresh_token"]).json
    served.clock.move(seconds=2)
    thief = alice.client.refresh(tokens["refresh_token"])

    assert first["refresh_token"] == second["refresh_token"] != tokens["refresh_token"]
    assert said(thief) == (400, "invalid_grant")
    assert not any(alice.works(one["access_token"]) for one in (tokens, first, second))
    assert said(alice.client.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert alice.works(others["access_token"])
    assert [reason for _, reason in audit(served.instance, "token.reused")] == ["refresh_token_reused"]


def test_c24_a_repeat_from_another_address_is_on_record(new_instance):
    with Served(new_instance(), COUNTERSIGN_TRUSTED_PROXIES="1") as served:
        alice = Connected(served.base_url)
        refresh_token = alice.tokens()["refresh_token"]
        for address in ("203.0.113.7", "203.0.113.7", "198.51.100.9"):
            given = {"grant_type": "refresh_token", "refresh_token": refresh_token}
            body = urlencode(given | {"client_id": alice.client.client_id}).encode()
            answer = send("POST", f"{served.base_url}/oauth/token", [FORM, ("X-Forwarded-For", address)], body)
            assert answer.status == 200
        log = served.instance.run("client", "log", alice.client.client_id).stdout

        assert [code for _, code in audit(served.instance, "token.repeated")] == ["other_address"]
        assert log.count("other_address") == 1
        assert alice.works(answer.json["access_token"])


def test_c24_another_client_cannot_use_or_end_a_family(served, alice):
    thief = RawOAuth(served.base_url)
    thief.register()
    tokens = alice.tokens()
    fresh = thief.refresh(tokens["refresh_token"])
    alice.client.refresh(tokens["refresh_token"])
    served.clock.move(minutes=5)
    old = thief.refresh(tokens["refresh_token"])

    assert said(fresh) == said(old) == (400, "invalid_grant")
    assert alice.works(tokens["access_token"])


def test_c24_a_refresh_token_is_no_access_token_and_the_other_way_round(alice):
    tokens = alice.tokens()

    assert not alice.works(tokens["refresh_token"])
    assert said(alice.client.refresh(tokens["access_token"])) == (400, "invalid_grant")


def test_c24_times_of_life_count_from_use_and_end_for_good(served, alice):
    tokens = alice.tokens()
    served.clock.move(minutes=59)
    alive = alice.works(tokens["access_token"])
    served.clock.move(minutes=1)
    expired = alice.works(tokens["access_token"])
    refresh_token = tokens["refresh_token"]
    for _ in range(3):
        served.clock.move(days=29)
        refresh_token = alice.client.refresh(refresh_token).json["refresh_token"]
    served.clock.move(days=4)  # 91 days after the consent

    assert (alive, expired) == (True, False)
    assert said(alice.client.refresh(refresh_token)) == (400, "invalid_grant")


def test_c24_an_idle_refresh_token_dies(served, alice):
    tokens = alice.tokens()
    served.clock.move(days=31)

    assert said(alice.client.refresh(tokens["refresh_token"])) == (400, "invalid_grant")


def test_a_client_that_registered_no_refresh_gets_no_refresh_token(served):
    alice = Connected(served.base_url, grant_types=["authorization_code"])

    assert "refresh_token" not in alice.tokens()


# --- C26 ----------------------------------------------------------------------------------------------------------


def scopes_of(answer: RawAnswer) -> set[str]:
    return set(answer.json["scope"].split())


def test_c26_a_refresh_narrows_its_access_token_and_never_the_grant(alice):
    tokens = alice.tokens(tick=(REFUND,))
    everything = set(tokens["scope"].split())
    narrow = alice.client.refresh(tokens["refresh_token"], scope=f" {READ}  {READ} offline_access")
    same = [
        alice.client.refresh(tokens["refresh_token"], scope=scope)
        for scope in (None, "", "offline_access", tokens["scope"], tokens["scope"] + " offline_access")
    ]
    after = alice.client.refresh(narrow.json["refresh_token"])

    assert scopes_of(narrow) == {READ}
    assert [scopes_of(answer) for answer in same] == [everything] * 5
    assert scopes_of(after) == everything


@pytest.mark.parametrize("scope", ["mcp:admin", "mcp:*", "console:flows:read", f"{READ} stock:adjust", '"'])
def test_c26_more_than_was_granted_is_refused_and_spends_nothing(served, alice, scope):
    tokens = alice.tokens()
    refused = alice.client.refresh(tokens["refresh_token"], scope=scope)
    served.clock.move(minutes=5)  # had it been spent, the next use would be a reuse

    assert said(refused) == (400, "invalid_scope")
    assert alice.client.refresh(tokens["refresh_token"]).status == 200


def test_c26_a_narrowed_token_gets_a_403_that_names_what_it_needs_and_holds(alice):
    tokens = alice.tokens(tick=(REFUND,))
    narrow = alice.client.refresh(tokens["refresh_token"], scope=READ).json["access_token"]
    refused = RawMcp(f"{alice.base_url}/mcp", narrow).call("orders_refund", {"order_id": "1001", "reason": "x"})
    value = refused.headers["www-authenticate"]
    named = value.partition('scope="')[2].partition('"')[0].split()

    assert refused.status == 403
    assert value.startswith("Bearer ")
    assert 'error="insufficient_scope"' in value
    assert value.count("scope=") == 1
    assert {READ, REFUND, "mcp:action:invoke"} <= set(named)
    assert not any(scope.startswith("console:") for scope in named)


# --- C27: who speaks at the token endpoint, and how ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "path", "body"),
    [
        ([("Content-Type", "application/json")], "/oauth/token", b'{"grant_type":"refresh_token"}'),
        ([FORM], "/oauth/token?client_secret=x", b"grant_type=refresh_token"),
        ([FORM], "/oauth/token?code=x", b"grant_type=authorization_code"),
        ([FORM], "/oauth/token", b"grant_type=refresh_token&grant_type=refresh_token"),
        ([FORM], "/oauth/token", b"grant_type=refresh_token&client_id=a&client_id=b"),
        ([], "/oauth/token", b"grant_type=refresh_token"),
    ],
)
def test_c27_a_request_in_another_form_is_told_so(server, headers, path, body):
    assert said(send("POST", server.base_url + path, headers, body)) == (400, "invalid_request")


@pytest.mark.parametrize("grant_type", ["password", "implicit", "", "é", "\x00"])
def test_c27_no_other_grant_exists(server, grant_type):
    body = urlencode({"grant_type": grant_type, "username": "a", "password": "b"}).encode()
    answer = send("POST", f"{server.base_url}/oauth/token", [FORM], body)

    assert said(answer) == (400, "unsupported_grant_type")


@pytest.mark.parametrize(
    ("basic", "form"),
    [
        ("Basic !!!", {}),
        ("Basic " + "/w==", {}),
        ("Basic", {}),
        ("Bearer x", {}),
        ("Basic Y2xfeDp5", {"client_id": "cl_other"}),
        (None, {}),
        (None, {"client_id": "cl_unknown"}),
        (None, {"client_id": "local:x"}),
        (None, {"client_id": "\x00"}),
    ],
)
def test_c27_whoever_is_not_known_is_401_whatever_the_method(server, basic, form):
    headers = [FORM, *([("Authorization", basic)] if basic else [])]
    body = urlencode({"grant_type": "refresh_token", "refresh_token": "x", **form}).encode()
    answer = send("POST", f"{server.base_url}/oauth/token", headers, body)

    assert said(answer) == (401, "invalid_client")
    assert answer.headers["cache-control"] == "no-store"


def test_c27_a_public_client_with_a_secret_is_not_that_client(server):
    client = RawOAuth(server.base_url)
    client.register()

    assert said(client.refresh("x", client_secret="made up")) == (401, "invalid_client")
    assert said(client.refresh("x", client_secret="")) == (400, "invalid_grant")


@pytest.mark.parametrize("path", ["/oauth/token", "/token", "/oauth/register", "/register", "/oauth/revoke"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_machine_endpoints_never_answer_html(server, path, method):
    answer = send(method, server.base_url + path)

    assert answer.status == 405
    assert json.loads(answer.raw)
    assert "text/html" not in answer.headers["content-type"]


@pytest.mark.parametrize(
    "path", ["/oauth/token", "/oauth/register", "/oauth/revoke", "/.well-known/oauth-protected-resource/mcp"]
)
def test_c07_browser_clients_may_ask_and_read_errors(server, path):
    origin = ("Origin", "http://localhost:6274")
    preflight = send(
        "OPTIONS",
        server.base_url + path,
        [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")],
    )
    real = send("POST", server.base_url + path, [origin, FORM], b"grant_type=x")

    assert preflight.status == 204
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    for answer in (preflight, real):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


# --- taking back --------------------------------------------------------------------------------------------------


def grants_of(browser: FormBrowser) -> list[str]:
    links = browser.open("/connections").all("a")
    found = {urlsplit(link.attrs.get("href", "")).path for link in links}
    return sorted(path for path in found if path.startswith("/connections/gr_"))


def end(browser: FormBrowser, grant: str) -> None:
    browser.open(grant)
    browser.submit("End access")


def test_a_client_takes_back_its_access_token_or_its_whole_family(alice):
    tokens = alice.tokens()
    second = alice.client.refresh(tokens["refresh_token"]).json
    one = alice.client.post_form(
        "/oauth/revoke", {"token": second["access_token"], "client_id": alice.client.client_id}
    )
    left = [alice.works(token["access_token"]) for token in (tokens, second)]
    given = {"token": second["refresh_token"], "client_id": alice.client.client_id, "token_type_hint": "access_token"}
    all_of_it = alice.client.post_form("/oauth/revoke", given)

    assert (one.status, all_of_it.status) == (200, 200)
    assert left == [True, False]
    assert not alice.works(tokens["access_token"])
    assert said(alice.client.refresh(second["refresh_token"])) == (400, "invalid_grant")


def test_nobody_takes_back_another_clients_token_and_an_unknown_one_is_fine(served, alice):
    thief = RawOAuth(served.base_url)
    thief.register()
    tokens = alice.tokens()
    for token in (tokens["access_token"], tokens["refresh_token"], "unknown", "\x00"):
        assert thief.post_form("/oauth/revoke", {"token": token, "client_id": thief.client_id}).status == 200
    nobody = thief.post_form("/oauth/revoke", {"token": tokens["access_token"]})
    empty = thief.post_form("/oauth/revoke", {"client_id": thief.client_id})

    assert said(nobody) == (401, "invalid_client")
    assert said(empty) == (400, "invalid_request")
    assert alice.works(tokens["access_token"])


def test_ending_a_connection_ends_its_tokens_at_once_and_no_others(alice):
    first = alice.tokens()
    [grant] = grants_of(alice.browser)
    second = alice.tokens()
    end(alice.browser, grant)

    assert not alice.works(first["access_token"])
    assert said(alice.client.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert alice.works(second["access_token"])


def test_nobody_sees_changes_or_ends_another_persons_connection(served, alice):
    token = alice.tokens()["access_token"]
    [grant] = grants_of(alice.browser)
    bob = FormBrowser(served.base_url)
    bob.sign_in(BOB.email, BOB.password)
    csrf = next(node.attrs["value"] for node in bob.open("/").all("input") if node.attrs.get("name") == "csrf")
    form = [("csrf", csrf), ("scope", READ), ("password", BOB.password)]
    answers = [bob.open(grant).status, bob.post(grant, form).status, bob.post(f"{grant}/end", form).status]

    assert answers == [404, 404, 404]
    assert alice.works(token)


def test_a_removed_client_and_a_disabled_person_lose_everything_at_once(served, alice):
    bob = Connected(served.base_url, BOB)
    of_alice, of_bob = alice.tokens(), bob.tokens()
    served.instance.run("client", "remove", alice.client.client_id)
    served.instance.run("operator", "disable", BOB.email)
    page = bob.browser.open("/connections")

    assert not alice.works(of_alice["access_token"])
    assert said(alice.client.refresh(of_alice["refresh_token"])) == (401, "invalid_client")
    assert alice.browser.open(alice.client.authorize_url()).status == 400
    assert not bob.works(of_bob["access_token"])
    assert said(bob.client.refresh(of_bob["refresh_token"])) == (400, "invalid_grant")
    assert urlsplit(page.url).path == "/login"


def test_a_local_token_works_at_mcp_until_it_ends_and_opens_no_page(served, alice):
    issue = ("token", "issue", "--name", "nightly", "--operator", ALICE.email, "--scope", READ, "--ttl", "1h")
    token = served.instance.run(*issue).stdout.split()[0]
    works = alice.works(token)
    page = send(
        "GET", f"{served.base_url}/", [("Authorization", f"Bearer {token}"), ("Cookie", f"countersign={token}")]
    )
    refreshed = alice.client.refresh(token)
    as_client = send(
        "GET", f"{served.base_url}/oauth/authorize?{urlencode({'client_id': 'local:nightly', 'response_type': 'code'})}"
    )
    [grant] = grants_of(alice.browser)
    end(alice.browser, grant)

    assert works
    assert (page.status, urlsplit(page.headers["location"]).path) == (303, "/login")
    assert said(refreshed) == (400, "invalid_grant")
    assert as_client.status == 400
    assert not alice.works(token)


def test_no_secret_of_an_oauth_run_is_in_the_log_or_readable_in_the_database(server_factory):
    server = server_factory(workers=1)
    client = RawOAuth(server.base_url)
    secret = client.register(token_endpoint_auth_method="client_secret_post").json["client_secret"]
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    code = client.code_from(browser)
    first = client.exchange(code, client_secret=secret).json
    second = client.refresh(first["refresh_token"], client_secret=secret).json
    client.exchange(code, client_secret="wrong" + secret)
    send("GET", f"{server.base_url}/oauth/token?code={code}&refresh_token={second['refresh_token']}")
    RawMcp(server.mcp_url, second["access_token"]).request("tools/list")
    cookies = [cookie.value or "" for cookie in browser.cookies]
    tokens = [one[name] for one in (first, second) for name in ("access_token", "refresh_token")]
    secrets = [secret, code, client.verifier, ALICE.password, *tokens, *cookies]
    stored = b"".join(path.read_bytes() for path in server.instance.folder.glob("countersign.db*")).decode("latin-1")

    assert len([one for one in secrets if len(one) > 10]) == len(secrets)
    assert not [one[:8] for one in secrets if one in server.log()]
    assert not [one[:8] for one in secrets if one in stored]


def test_state_and_code_come_back_once_each(alice):
    callback = alice.browser.consent(alice.client.authorize_url())
    query = parse_qs(urlsplit(callback).query)

    assert {name: len(values) for name, values in query.items()} == {"code": 1, "state": 1, "iss": 1}
