"""What the other files of cases leave open: C18, C30, C31, doubled parameters, injection, mix-up, odd methods."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.attacks.test_oauth_cases_tokens import Connected, said
from tests.auth.served import Served
from tests.support.oauth import FORM, RawOAuth
from tests.support.raw_mcp import RawMcp, send
from tests.support.server import ALICE, BOB, VERA, Instance, ServerProcess

READS = {"mcp:manifest:read", "mcp:schema:read", "mcp:effects:read", "mcp:traces:read", "mcp:flows:read"}
READ, REFUND, INVOKE = "mcp:flows:read", "orders:refund", "mcp:action:invoke"
REFUND_IT = {"order_id": 1042, "reason": "It arrived broken."}
MACHINE_PATHS = ("/oauth/token", "/token", "/oauth/register", "/register", "/oauth/revoke", "/oauth/introspect",
                 "/oauth/device")  # fmt: skip
CURSOR = ["cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback",
          "http://localhost:8787/callback"]  # fmt: skip
VSCODE = ["https://insiders.vscode.dev/redirect", "https://vscode.dev/redirect", "http://127.0.0.1/",
          "http://127.0.0.1:33418/"]  # fmt: skip
JSON = [("Content-Type", "application/json")]


@pytest.fixture(scope="module")
def alice(server: ServerProcess) -> Connected:
    return Connected(server.base_url)


@pytest.fixture(scope="module")
def frozen(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    with Served(new_instance()) as running:
        yield running


def granted(one: Connected, scope: str | None) -> set[str]:
    code = one.client.code_from(one.browser, scope=scope)
    return set(one.client.exchange(code).json["scope"].split())


# --- C18 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "more"),
    [
        (f" {READ}", set()),
        (f"{READ}  {READ}", set()),
        ("", set()),
        (None, set()),
        (f"openid email profile offline_access {READ}", set()),
        ("claudeai", set()),
        ("nope", set()),
        ("MCP:READ", set()),
        (" ".join(f"s{n}" for n in range(500)), set()),
        (f"{READ} mcp:* console:* console:flows:read", set()),
        (REFUND, {REFUND, INVOKE}),  # last: what was granted before is ticked from then on
    ],
)
def test_c18_unknown_blank_and_many_scopes_are_dropped_and_reading_is_offered(alice, scope, more):
    assert granted(alice, scope) == READS | more


@pytest.mark.parametrize("scope", [f'{READ}"', "a\\b", "é", "a\x7f"])
def test_c18_a_scope_with_an_illegal_character_is_sent_back(alice, scope):
    page = alice.browser.open(alice.client.authorize_url(scope=scope))
    query = parse_qs(urlsplit(alice.browser.sent_to or "").query)

    assert page.status == 0  # away, to the client
    assert query["error"] == ["invalid_scope"]
    assert (query["state"], query["iss"]) == ([alice.client.state], [alice.base_url])


def test_c18_nobody_hands_on_more_than_their_role_holds(server):
    vera = Connected(server.base_url, VERA)

    assert granted(vera, f"{REFUND} {INVOKE}") == READS


# --- C30 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "works"), [(-5, True), (-60, True), (3599, True), (3600, False), (3661, False)])
def test_c30_a_token_counts_between_its_times_with_a_little_skew(frozen, seconds, works):
    one = Connected(frozen.base_url)
    answer = one.tokens()
    frozen.clock.move(seconds=seconds)
    found = one.works(answer["access_token"])
    frozen.clock.move(seconds=-seconds)

    assert answer["expires_in"] == 3600
    assert found is works


def test_c30_a_worker_that_is_behind_redeems_the_code_of_one_that_is_ahead(frozen):
    one = Connected(frozen.base_url)
    code = one.code()
    frozen.clock.move(seconds=-5)
    answer = one.client.exchange(code)
    frozen.clock.move(seconds=5)

    assert answer.status == 200
    assert one.works(answer.json["access_token"])


def test_c30_a_token_of_the_server_itself_is_no_token_of_the_resource(alice):
    for secret in (alice.code(), alice.tokens()["refresh_token"]):
        assert RawMcp(f"{alice.base_url}/mcp", secret).request("tools/list").status == 401


# --- C31 ----------------------------------------------------------------------------------------------------------


def test_c31_the_challenge_names_what_is_needed_and_held_and_following_it_ends_the_loop(server):
    one = Connected(server.base_url)
    tokens = one.tokens()
    mcp = RawMcp(f"{server.base_url}/mcp", tokens["access_token"])
    read, refused = mcp.call("orders_get", {"order_id": 1042}), mcp.call("orders_refund", REFUND_IT)
    challenge = refused.headers["www-authenticate"]
    wanted = challenge.partition('scope="')[2].partition('"')[0]
    stepped = RawMcp(f"{server.base_url}/mcp", one.tokens(scope=wanted)["access_token"])
    refreshed = one.client.refresh(tokens["refresh_token"]).json["access_token"]
    still = RawMcp(f"{server.base_url}/mcp", refreshed).call("orders_refund", REFUND_IT)

    assert not read.result["isError"]
    assert refused.status == still.status == 403
    assert challenge.startswith('Bearer error="insufficient_scope"')
    assert challenge.count("scope=") == challenge.count("resource_metadata=") == 1
    assert {READ, REFUND, INVOKE} <= set(wanted.split())
    assert not stepped.call("orders_get", {"order_id": 1042}).result["isError"]
    assert stepped.call("orders_refund", REFUND_IT).data["status"] == "confirmation_required"
    assert set(still.headers["www-authenticate"].partition('scope="')[2].partition('"')[0].split()) == set(
        wanted.split()
    )


def test_c31_what_the_role_can_never_hold_is_no_challenge(server):
    vera = Connected(server.base_url, VERA)
    answer = RawMcp(f"{server.base_url}/mcp", vera.tokens()["access_token"]).call("orders_refund", REFUND_IT)

    assert (answer.status, answer.result["isError"]) == (200, True)
    assert "not_allowed" in answer.result["content"][1]["text"]


# --- parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret", "scope", "refresh_token"],
)
def test_no_parameter_of_a_token_request_stands_twice(alice, name):
    fields = [("grant_type", "authorization_code"), ("code", "x"), ("redirect_uri", alice.client.redirect_uri)]
    fields += [("client_id", alice.client.client_id), ("code_verifier", "v" * 43), (name, "x"), (name, "x")]
    answer = send("POST", f"{alice.base_url}/oauth/token", [FORM], urlencode(fields).encode())

    assert said(answer) == (400, "invalid_request")


@pytest.mark.parametrize("name", ["response_type", "client_id", "redirect_uri", "scope", "state", "prompt"])
def test_no_parameter_of_an_authorization_request_stands_twice(alice, name):
    page = alice.browser.open(f"{alice.client.authorize_url()}&{name}=x&{name}=x")

    assert (page.status, alice.browser.sent_to) == (400, None)


@pytest.mark.parametrize("path", MACHINE_PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "TRACE"])
def test_machine_endpoints_take_posts_alone(server, path, method):
    answer = send(method, server.base_url + path)

    assert answer.status == 405
    assert "html" not in answer.headers.get("content-type", "")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/register", "/oauth/revoke", "/oauth/introspect"])
def test_a_body_over_the_limit_is_refused_in_json(server, path):
    kind = JSON if "register" in path else [FORM]
    answer = send("POST", server.base_url + path, kind, b"a" * 1_000_001)

    assert (answer.status, answer.json["error"]) == (413, "too_large")


@pytest.mark.parametrize("header", ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-Host", "X-Forwarded-Proto"])
def test_c02_no_header_moves_an_address(server, header):
    value = "https" if header.endswith("Proto") else "host=evil.example" if header == "Forwarded" else "evil.example"
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"):
        plain = send("GET", server.base_url + path)
        moved = send("GET", server.base_url + path, [(header, value)])

        assert moved.status in (200, 400, 403)
        assert moved.status != 200 or moved.raw == plain.raw
    login = send("GET", f"{server.base_url}/connections", [(header, value)])
    assert "evil.example" not in login.headers.get("location", "")


# --- registration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "https://a.example/\tcb",
        "https://a.example/cb\r\nX: y",
        "https://a.example\\@evil.example/",
        "https:///evil.example",
        "//evil.example/cb",
        "https://[fe80::1%25eth0]/cb",
        "https://[::ffff:127.0.0.1%2580]/",
        "http://[::ffff:127.0.0.1]/cb",
        "http://0x7f.1/cb",
        "http://127.1/cb",
        "https://a.example/cb?code=x",
        "https://a.example/cb?iss=https://evil.example",
        "blob:https://a.example/x",
        "vbscript:x",
        "ftp://a.example/cb",
        "https://é.example/cb",
    ],
)
def test_c10_an_address_that_readers_understand_differently_is_not_registered(server, uri):
    body = json.dumps({"redirect_uris": [uri]}).encode()

    assert said(send("POST", f"{server.base_url}/oauth/register", JSON, body)) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize(
    "body",
    [
        {"redirect_uris": CURSOR, "token_endpoint_auth_method": "none", "application_type": "web"},
        {"redirect_uris": VSCODE, "token_endpoint_auth_method": "none",
         "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]},
        {"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"]},
        {"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"], "x": {"y": 1}, "software_statement": "abc",
         "require_pushed_authorization_requests": False, "jwks": {"keys": []}},
    ],
    ids=["cursor", "vscode", "only redirects", "unknown members"],
)  # fmt: skip
def test_c10_real_registrations_are_taken_and_answered_cleanly(server, body):
    answer = send("POST", f"{server.base_url}/oauth/register", JSON, json.dumps(body).encode())

    assert answer.status == 201, answer.raw
    assert answer.json["redirect_uris"] == body["redirect_uris"]
    assert {"software_statement", "jwks", "x", "registration_access_token"}.isdisjoint(answer.json)
    assert "urn:ietf:params:oauth:grant-type:device_code" not in answer.json["grant_types"]
    assert all(value not in (None, "", []) for value in answer.json.values())


# --- client authentication ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
@pytest.mark.parametrize(
    ("way", "status"),
    [("post", 200), ("basic", 200), ("both, same", 400), ("both, different", 401), ("none", 401), ("wrong", 401)],
)
def test_c27_a_secret_proves_a_client_by_either_way_and_nothing_else_does(alice, method, way, status):
    client = RawOAuth(alice.base_url)
    secret = client.register(token_endpoint_auth_method=method).json["client_secret"]
    code = client.code_from(alice.browser)
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": client.redirect_uri}
    fields |= {"code_verifier": client.verifier, "client_id": client.client_id}
    headers = [FORM]
    if way in ("basic", "both, same", "both, different"):
        headers.append(("Authorization", f"Basic {b64encode(f'{client.client_id}:{secret}'.encode()).decode()}"))
    fields |= {
        "post": {"client_secret": secret},
        "both, same": {"client_secret": secret},
        "both, different": {"client_secret": "other"},
        "wrong": {"client_secret": "wrong"},
    }.get(way, {})
    answer = send("POST", f"{alice.base_url}/oauth/token", headers, urlencode(fields).encode())

    assert answer.status == status
    assert answer.headers["cache-control"] == "no-store"


# --- RFC 9700 -----------------------------------------------------------------------------------------------------


def test_rfc9700_an_injected_code_of_another_person_fails_by_its_verifier(server):
    victim, thief = Connected(server.base_url), Connected(server.base_url, BOB)
    thief.client.client_id = victim.client.client_id  # the same public client
    code = victim.code()
    answer = thief.client.exchange(code)

    assert said(answer) == (400, "invalid_grant")
    assert victim.client.exchange(code).status == 200  # and burns nothing


@pytest.mark.parametrize("kind", ["success", "denial", "error"])
def test_rfc9700_every_answer_names_its_issuer_against_mix_up(alice, kind):
    replaced = {"code_challenge_method": "plain"} if kind == "error" else {}
    button = "Cancel" if kind == "denial" else "Connect"
    url = alice.client.authorize_url(**replaced)
    alice.browser.open(url)
    callback = alice.browser.sent_to or alice.browser.consent(url, button=button)
    query = parse_qs(urlsplit(callback).query)

    assert query["iss"] == [alice.base_url]
    assert ("code" in query) is (kind == "success")


def test_rfc9700_a_code_is_for_the_address_that_it_was_sent_to(alice):
    code = alice.code()
    answer = alice.client.exchange(code, redirect_uri="http://127.0.0.1:9/callback")

    assert said(answer) == (400, "invalid_grant")


@pytest.mark.parametrize("field", ["code", "refresh_token", "access_token", "token"])
def test_rfc9700_no_secret_is_read_from_an_address(alice, field):
    tokens = alice.tokens()
    query = urlencode({field: tokens["refresh_token"], "client_id": alice.client.client_id})
    for path in ("/oauth/token", "/oauth/revoke", "/oauth/introspect"):
        assert said(send("POST", f"{alice.base_url}{path}?{query}", [FORM], b"")) == (400, "invalid_request")
    assert send("POST", f"{alice.base_url}/mcp?access_token={tokens['access_token']}", JSON, b"{}").status == 401
    assert alice.works(tokens["access_token"])


def test_there_is_no_registration_management(server):
    client = RawOAuth(server.base_url)
    made = client.register().json
    for method in ("GET", "PUT", "DELETE"):
        answer: Any = send(method, f"{server.base_url}/oauth/register/{client.client_id}", JSON)
        assert answer.status in (404, 405)
    assert {"registration_access_token", "registration_client_uri"}.isdisjoint(made)


def test_alice_is_who_she_was(alice):
    """The account that these tests share has lost nothing."""
    assert ALICE.email in alice.browser.open("/").text
