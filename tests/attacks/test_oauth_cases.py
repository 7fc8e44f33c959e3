"""Discovery, registration and the authorization request: cases C01 to C16 of public bug reports, over HTTP only."""

import http.client
import json
from collections.abc import Iterable
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

import pytest

from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth, challenge_of
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, ServerProcess

ROOT, UNDER = "https://app.example.com", "https://app.example.com/team/a"
CLAUDE = "https://claude.ai/api/mcp/auth_callback"
RESOURCE, SERVER = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
VERIFIER = "v" * 43


def get(server: ServerProcess, path: str, **headers: str) -> RawAnswer:
    return send("GET", f"http://127.0.0.1:{server.port}{path}", headers.items())


def register(server: ServerProcess, *redirect_uris: str, method: str = "none") -> RawOAuth:
    client = RawOAuth(server.base_url, redirect_uri=redirect_uris[0], verifier=VERIFIER)
    assert client.register(redirect_uris=list(redirect_uris), token_endpoint_auth_method=method).status == 201
    return client


def ask(client: RawOAuth, *more: tuple[str, str], **replaced: str | None) -> RawAnswer:
    """Open the authorization endpoint as a stranger does, with parameters doubled by `more`."""
    extra = "".join(f"&{name}={quote(value, safe='')}" for name, value in more)
    return send("GET", client.authorize_url(**replaced) + extra)


def told_to_client(answer: RawAnswer, client: RawOAuth) -> dict[str, list[str]]:
    """Return what a redirect tells the client; an assertion error when it leads elsewhere."""
    location = answer.headers.get("location", "")
    assert answer.status == 303, answer.raw[:300]
    assert location.startswith(client.redirect_uri), location
    return parse_qs(urlsplit(location).query, keep_blank_values=True)


def is_json(answer: RawAnswer) -> bool:
    return answer.headers["content-type"] == "application/json" and bool(answer.json)


@pytest.fixture
def browser(server: ServerProcess) -> FormBrowser:
    signed_in = FormBrowser(server.base_url)
    signed_in.sign_in(ALICE.email, ALICE.password)
    return signed_in


# --- C01 ----------------------------------------------------------------------------------------------------------


def test_c01_discovery_under_a_sub_path(server_factory):
    server = server_factory(workers=1, COUNTERSIGN_BASE_URL=UNDER)
    headers = {"Host": "app.example.com", "MCP-Protocol-Version": "2024-11-05"}
    found = {
        path: get(server, path, **headers)
        for path in (
            f"{RESOURCE}/team/a/mcp",
            f"/team/a/mcp{RESOURCE}",
            RESOURCE,
            f"{SERVER}/team/a",
            f"/team/a{SERVER}",
            SERVER,
            "/.well-known/openid-configuration/team/a",
            "/team/a/.well-known/openid-configuration",
            f"{RESOURCE}/team/b/mcp",
            f"{SERVER}/team/b",
        )
    }

    assert [answer.status for answer in found.values()] == [200, 200, 404, 200, 404, 404, 404, 404, 404, 404]
    assert all(is_json(answer) for answer in found.values())
    assert not any("set-cookie" in answer.headers for answer in found.values())
    assert found[f"{RESOURCE}/team/a/mcp"].json["resource"] == f"{UNDER}/mcp"
    assert found[f"/team/a/mcp{RESOURCE}"].json == found[f"{RESOURCE}/team/a/mcp"].json
    assert found[f"{SERVER}/team/a"].json["issuer"] == UNDER


def test_c01_the_endpoints_answer_with_and_without_the_prefix(server_factory):
    server = server_factory(workers=1, COUNTERSIGN_BASE_URL=UNDER)
    document = get(server, f"{SERVER}/team/a").json
    body = json.dumps({"redirect_uris": [CLAUDE]}).encode()
    headers = [("Content-Type", "application/json")]
    answers = [
        send("POST", f"http://127.0.0.1:{server.port}{path}", headers, body)
        for path in ("/team/a/oauth/register", "/oauth/register")
    ]

    assert document["token_endpoint"] == f"{UNDER}/oauth/token"
    assert [answer.status for answer in answers] == [201, 201]
    login = get(server, "/team/a/oauth/authorize?client_id=x")
    assert login.status == 400
    assert "/team/a/static/style.css" in login.raw.decode()


def test_c01_discovery_at_the_root(server):
    for path in (f"{RESOURCE}/mcp", f"/mcp{RESOURCE}", RESOURCE):
        assert get(server, path).json["resource"] == server.mcp_url
    assert get(server, SERVER).json["issuer"] == server.base_url
    for path in ("/.well-known/openid-configuration", f"{RESOURCE}/other", f"{SERVER}/mcp"):
        answer = get(server, path)
        assert (answer.status, is_json(answer)) == (404, True)


def test_c02_metadata_comes_from_the_base_url_whatever_the_proxy_says(server_factory):
    server = server_factory(workers=1, COUNTERSIGN_BASE_URL=ROOT)
    seen_through = [
        {"X-Forwarded-Proto": "https"},
        {},
        {"X-Forwarded-Host": "app.example.com:443"},
        {"Host": "evil.example", "X-Forwarded-Host": "evil.example"},
    ]
    documents = {get(server, SERVER, **headers).raw for headers in seen_through}
    refresh = urlencode({"grant_type": "refresh_token", "refresh_token": "x", "client_id": "x"}).encode()
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    token = send("POST", f"http://127.0.0.1:{server.port}/oauth/token", form, refresh)

    assert len(documents) == 1
    assert b"http://" not in documents.pop()
    assert (token.status, token.json["error"]) == (401, "invalid_client")
    assert "Secure" in get(server, "/login").headers["set-cookie"]


# --- C04, C05 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["{mcp}", "{mcp}/", "{base}", "{base}/", "HTTP://LOCALHOST:{port}/mcp"])
def test_c04_trailing_slash_in_resource(server, browser, spelling):
    client = register(server, "http://127.0.0.1/callback")
    resource = spelling.format(mcp=server.mcp_url, base=server.base_url, port=server.port)
    code = client.code_from(browser, resource=resource)
    answer = client.exchange(code, resource=resource)

    assert answer.status == 200
    assert RawMcp(server.mcp_url, answer.json["access_token"]).request("tools/list").status == 200


def test_c04_the_document_names_it_without_a_slash_and_no_spelling_redirects(server):
    assert get(server, f"{RESOURCE}/mcp").json["resource"] == server.mcp_url
    slash = send("POST", f"{server.mcp_url}/", [("Content-Type", "application/json")], b"{}")

    assert slash.status in (200, 401, 404)
    assert is_json(slash)


def test_c04_another_resource_is_refused_before_anything_is_spent(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    other = f"{server.base_url}/mcp2"
    at_authorize = told_to_client(ask(client, resource=other), client)
    code = client.code_from(browser)
    refused = client.exchange(code, resource=other)
    tokens = client.exchange(code)
    not_rotated = client.refresh(tokens.json["refresh_token"], resource=other)

    assert at_authorize["error"] == ["invalid_target"]
    assert (refused.status, refused.json["error"]) == (400, "invalid_target")
    assert tokens.status == 200
    assert not_rotated.json["error"] == "invalid_target"
    assert client.refresh(tokens.json["refresh_token"]).status == 200


def test_c04_repeats_of_the_same_resource_pass_and_absence_means_the_one(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    repeated = ask(client, ("resource", f"{server.mcp_url}/"))
    mixed = ask(client, ("resource", "https://evil.example/mcp"))
    answer = client.exchange(client.code_from(browser, resource=None), resource=None)

    assert urlsplit(repeated.headers["location"]).path == "/login"
    assert told_to_client(mixed, client)["error"] == ["invalid_target"]
    assert RawMcp(server.mcp_url, answer.json["access_token"]).request("tools/list").status == 200


def test_c05_issuer_byte_equality(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    named = {get(server, f"{RESOURCE}/mcp").json["authorization_servers"][0] for _ in range(8)}
    said = {get(server, SERVER).json["issuer"] for _ in range(8)}  # both workers
    callback = browser.consent(client.authorize_url())
    denied = browser.consent(client.authorize_url(), button="Cancel")
    error = ask(client, code_challenge=None).headers["location"]
    returned = {parse_qs(urlsplit(url).query)["iss"][0] for url in (callback, denied, error)}

    assert named == said == returned == {server.base_url}


# --- C08 ----------------------------------------------------------------------------------------------------------


def challenge(
    server: ServerProcess, method: str, *headers: tuple[str, str], path: str = "/mcp"
) -> tuple[int, list[str], bytes]:
    """Return status, every `WWW-Authenticate` value and the body."""
    connection = http.client.HTTPConnection("localhost", server.port, timeout=30)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}' if method == "POST" else None
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in [*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body or b"")))]:
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    values = [value for name, value in answer.getheaders() if name.lower() == "www-authenticate"]
    try:
        return answer.status, values, answer.read()
    finally:
        connection.close()


def assert_challenge(values: list[str], server: ServerProcess, *, error: str | None) -> None:
    [value] = values
    assert value.startswith("Bearer ")
    assert value.count(f'resource_metadata="{server.base_url}{RESOURCE}/mcp"') == 1
    assert value.count("resource_metadata=") == value.count("scope=") == 1
    assert 'scope="mcp:' in value
    assert "write" not in value
    assert value.count("error=") == (0 if error is None else 1)
    if error is not None:
        assert f'error="{error}"' in value


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("accept", [None, "text/event-stream"])
def test_c08_401_challenge_form_on_every_method(server, method, accept):
    status, values, body = challenge(server, method, *([("Accept", accept)] if accept else []))

    assert status == 401
    assert_challenge(values, server, error=None)
    assert (body == b"") == (method == "HEAD")
    assert method == "HEAD" or json.loads(body)


@pytest.mark.parametrize(
    ("authorization", "error"),
    [
        ("Bearer garbage", "invalid_token"),
        ("Bearer ", "invalid_token"),
        ("Bearer", "invalid_token"),
        ("Bearer cs_at_" + "x" * 43, "invalid_token"),
        ("Bearer {good}, Bearer {good}", "invalid_token"),
        ("Bearer {good} {good}", "invalid_token"),
        ("Bearer {good}x", "invalid_token"),
        ("Bearer {refresh}", "invalid_token"),
        ("Bearer \u00e4", "invalid_token"),
        ("Basic eHl6", None),
        ("Token {good}", None),
        ("{good}", None),
    ],
)
def test_c08_what_is_no_bearer_token_of_ours_is_challenged(server, browser, authorization, error):
    tokens = tokens_of(server, browser)
    sent = authorization.format(good=tokens["access_token"], refresh=tokens["refresh_token"])
    status, values, body = challenge(server, "POST", ("Authorization", sent))

    assert status == 401
    assert_challenge(values, server, error=error)
    assert json.loads(body)
    assert tokens["access_token"].encode() not in body


def test_c08_the_scheme_counts_in_any_case_and_the_query_never(server, browser):
    token = tokens_of(server, browser)["access_token"]
    lower = RawMcp(server.mcp_url).request("tools/list", headers={"Authorization": f"bearer {token}"})
    upper = RawMcp(server.mcp_url).request("tools/list", headers={"Authorization": f"BEARER {token}"})
    status, values, _ = challenge(server, "POST", path=f"/mcp?access_token={token}")
    two = challenge(server, "POST", ("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}"))

    assert (lower.status, upper.status, status) == (200, 200, 401)
    assert_challenge(values, server, error=None)
    assert two[0] in (400, 401)


def test_c08_a_session_cookie_opens_nothing_at_mcp_and_a_token_no_page(server, browser):
    token = tokens_of(server, browser)["access_token"]
    cookie = "; ".join(f"{one.name}={one.value}" for one in browser.cookies)
    status, values, _ = challenge(server, "POST", ("Cookie", cookie))
    page = get(server, "/connections", Authorization=f"Bearer {token}")

    assert status == 401
    assert_challenge(values, server, error=None)
    assert (page.status, urlsplit(page.headers["location"]).path) == (303, "/login")


def tokens_of(server: ServerProcess, browser: FormBrowser) -> dict[str, str]:
    client = register(server, "http://127.0.0.1/callback")
    return dict(client.exchange(client.code_from(browser)).json)


# --- C09, C10 -----------------------------------------------------------------------------------------------------


def members_of(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        for member in value.values():
            yield from members_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from members_of(member)
    else:
        yield value


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic", None])
def test_c09_dcr_answer_no_nulls_no_empties_no_secret_for_none(server, method):
    client = RawOAuth(server.base_url, redirect_uri="http://127.0.0.1:33418/")
    sent = {"client_uri": "", "logo_uri": None, "scope": "", "contacts": None, "token_endpoint_auth_method": method}
    answer = client.register(client_name="X", **sent)
    body = answer.json

    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store")
    assert not [member for member in members_of(body) if member is None or member == ""]
    assert body["redirect_uris"] == ["http://127.0.0.1:33418/"]
    assert body["grant_types"] == ["authorization_code", "refresh_token"]
    assert body["response_types"] == ["code"]
    assert body["token_endpoint_auth_method"] == (method or "none")
    assert isinstance(body["client_id_issued_at"], int)
    secret = method in ("client_secret_post", "client_secret_basic")
    assert ("client_secret" in body, "client_secret_expires_at" in body) == (secret, secret)
    assert not secret or body["client_secret_expires_at"] == 0


def test_c09_a_registered_secret_works_by_either_method_and_nothing_else_does(server, browser):
    client = RawOAuth(server.base_url, redirect_uri=CLAUDE, verifier=VERIFIER)
    secret = client.register(token_endpoint_auth_method="client_secret_basic").json["client_secret"]
    codes = [client.code_from(browser) for _ in range(2)]
    without = client.exchange(codes[0])
    wrong = client.exchange(codes[0], client_secret=secret + "x")
    posted = client.exchange(codes[0], client_secret=secret)
    unknown = RawOAuth(server.base_url, client_id="cl_unknown").exchange(codes[1])

    assert [answer.status for answer in (without, wrong, unknown)] == [401, 401, 401]
    assert {answer.json["error"] for answer in (without, wrong, unknown)} == {"invalid_client"}
    assert posted.status == 200


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'"x"'),
        ("application/json", b"[1]"),
        ("application/json", b"null"),
        ("application/json", b"{"),
        ("application/json", b""),
        ("application/json", b"[" * 50_000),
        ("application/json", b'{"redirect_uris":"https://a/"}'),
        ("application/json", b'{"redirect_uris":[1]}'),
        ("application/json", b'{"redirect_uris":["javascript:alert(1)"]}'),
        ("application/json", b'{"redirect_uris":["https://a.example/"],"client_name":"' + b"n" * 1_100_000 + b'"}'),
        ("text/plain", b'{"redirect_uris":["https://a.example/cb"]}'),
        ("application/x-www-form-urlencoded", b"redirect_uris=https://a.example/cb"),
    ],
)
def test_c10_a_bad_registration_is_a_json_error(server, content_type, body):
    answer = send("POST", f"{server.base_url}/oauth/register", [("Content-Type", content_type)], body)

    assert 400 <= answer.status < 500
    assert is_json(answer)
    assert answer.json["error"]


# --- C14 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["http://127.0.0.1:5/callback", "http://localhost:65535/callback"])
def test_c14_the_port_of_a_loopback_redirect_may_differ(server, uri):
    client = register(server, "http://127.0.0.1/callback", "http://localhost/callback")

    assert urlsplit(ask(client, redirect_uri=uri).headers["location"]).path == "/login"


LOCAL_MISSES = [
    "http://[::1]:5/callback",
    "http://127.0.0.1:5/callback/",
    "http://127.0.0.1:5/Callback",
    "http://127.0.0.1:5/callback?x=1",
    "http://127.0.0.1.evil.example:5/callback",
    "http://127.0.0.1:5@evil.example/callback",
    "https://127.0.0.1:5/callback",
    "http://127.0.0.1:5/callback#f",
    "http://2130706433/callback",
    "http://127.0.0.1:5\t/callback",
    "//evil.example/callback",
    "é",
    'http://127.0.0.1:5/callback"',
]
WEB_MISSES = [
    "https://claude.ai:443/api/mcp/auth_callback",
    "https://claude.ai/api/mcp/auth_callback?x",
    "https://claude.ai.evil.example/api/mcp/auth_callback",
]


@pytest.mark.parametrize("uri", [*LOCAL_MISSES, *WEB_MISSES])
@pytest.mark.parametrize(
    "also_wrong",
    [{}, {"response_type": "token"}, {"scope": 'a"b'}, {"code_challenge": None}, {"prompt": "none"}],
    ids=["alone", "response_type", "scope", "pkce", "prompt"],
)
def test_c14_any_other_redirect_is_a_page_and_never_followed(server, uri, also_wrong):
    client = misses_client(server)
    answer = ask(client, redirect_uri=uri, **also_wrong)

    assert answer.status == 400
    assert "location" not in answer.headers
    assert "text/html" in answer.headers["content-type"]
    assert "evil.example" not in answer.raw.decode()


CLIENTS: dict[str, RawOAuth] = {}


def misses_client(server: ServerProcess) -> RawOAuth:
    """Register once a server: what these tests vary is the request."""
    if server.base_url not in CLIENTS:
        CLIENTS[server.base_url] = register(server, "http://127.0.0.1/callback", "http://localhost/callback", CLAUDE)
    return CLIENTS[server.base_url]


def test_c14_an_omitted_redirect_means_the_only_one(server):
    one = register(server, CLAUDE)
    two = register(server, CLAUDE, "https://claude.com/api/mcp/auth_callback")
    broken = ask(one, redirect_uri=None, code_challenge=None)

    assert urlsplit(ask(one, redirect_uri=None).headers["location"]).path == "/login"
    assert told_to_client(broken, one)["error"] == ["invalid_request"]
    assert ask(two, redirect_uri=None).status == 400


def test_c14_the_token_request_repeats_the_same_redirect_port_included(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    here = "http://127.0.0.1:5/callback"
    code = client.code_from(browser, redirect_uri=here)
    refused = [
        client.exchange(code, redirect_uri=uri)
        for uri in ("http://127.0.0.1:6/callback", "http://127.0.0.1/callback", "")
    ]

    assert [(answer.status, answer.json["error"]) for answer in refused] == [(400, "invalid_grant")] * 3
    assert client.exchange(code, redirect_uri=here).status == 200


@pytest.mark.parametrize("client_id", ["cl_unknown", "", "local:nightly", "é", "\x00", "x" * 3000])
def test_c14_an_unknown_client_is_a_page(server, client_id):
    client = RawOAuth(server.base_url, client_id=client_id)
    answer = ask(client)

    assert answer.status == 400
    assert "location" not in answer.headers


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "claude.ai%2eevil.example", "Claude.ai"])
def test_c14_an_address_that_can_only_be_written_otherwise_is_not_registered(server, host):
    answer = RawOAuth(server.base_url).register(redirect_uris=[f"https://{host}/cb"])

    assert (answer.status, answer.json["error"]) == (400, "invalid_redirect_uri")


# --- C15 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["none", "client_secret_post"])
@pytest.mark.parametrize(
    "replaced",
    [
        {"code_challenge": None},
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge": ""},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge_method": "s256"},
        {"code_challenge_method": ""},
        {"code_challenge": "a" * 42},
        {"code_challenge": "a" * 129},
        {"code_challenge": "a" * 43 + "="},
        {"code_challenge": "a" * 43 + "\n"},
        {"code_challenge": "é" * 43},
    ],
)
def test_c15_pkce_downgrade_is_refused_before_consent(server, method, replaced):
    client = register(server, CLAUDE, method=method)
    told = told_to_client(ask(client, **replaced), client)

    assert told["error"] == ["invalid_request"]
    assert told["iss"] == [server.base_url]
    assert told["state"] == [client.state]


@pytest.mark.parametrize("name", ["code_challenge", "code_challenge_method"])
def test_c15_a_repeated_challenge_is_refused(server, name):
    client = misses_client(server)
    told = told_to_client(ask(client, (name, "S256" if "method" in name else challenge_of(VERIFIER))), client)

    assert told["error"] == ["invalid_request"]


def test_c15_only_the_right_verifier_redeems_and_a_wrong_one_burns_nothing(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    code = client.code_from(browser)
    wrong = [client.exchange(code, code_verifier=v) for v in ("w" * 43, challenge_of(VERIFIER), "v" * 42, "é" * 43)]
    missing = [client.exchange(code, code_verifier=v) for v in (None, "")]
    right = client.exchange(code)

    assert [(answer.status, answer.json["error"]) for answer in wrong] == [(400, "invalid_grant")] * 4
    assert [(answer.status, answer.json["error"]) for answer in missing] == [(400, "invalid_request")] * 2
    assert right.status == 200


def test_c15_metadata_offers_s256_and_no_other_grant(server):
    document = get(server, SERVER).json

    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["response_types_supported"] == ["code"]
    assert document["grant_types_supported"] == ["authorization_code", "refresh_token", "client_credentials"]
    assert {"none", "client_secret_post", "client_secret_basic"} <= set(
        document["token_endpoint_auth_methods_supported"]
    )


# --- C16 ----------------------------------------------------------------------------------------------------------

STATES = ["a+b/c==", "x&y=z#é", "%20 +", '{"a":"b c"}', "\u2028", "A" * 4096, "0", "", "<script>alert(1)</script>"]


def state_in(url: str) -> list[str]:
    return [value for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True) if name == "state"]


@pytest.mark.parametrize("state", STATES, ids=range(len(STATES)))
def test_c16_state_echo_with_special_characters(server, state):
    person = FormBrowser(server.base_url)  # signs in on the way, so that the state makes the round trip
    client = register(server, "http://127.0.0.1/callback?tenant=1")
    person.open(client.authorize_url(state=state))
    person.sign_in(ALICE.email, ALICE.password)
    person.prove(ALICE.password)
    person.submit("Connect")
    agreed = person.callback_for(client.authorize_url(state=state))
    denied = person.consent(client.authorize_url(state=state), button="Cancel")
    broken = ask(client, state=state, scope='a"b').headers["location"]

    for url in (agreed, denied, broken):
        assert state_in(url) == [state]
        assert urlsplit(url).query.startswith("tenant=1&")
        assert "+" not in url
    assert parse_qs(urlsplit(denied).query)["error"] == ["access_denied"]
    assert parse_qs(urlsplit(broken).query)["error"] == ["invalid_scope"]


def test_c16_no_state_stays_no_state_and_a_repeated_or_endless_one_is_a_page(server, browser):
    client = register(server, "http://127.0.0.1/callback")
    absent = browser.consent(client.authorize_url(state=None))
    repeated = ask(client, ("state", "second"))
    endless = send("GET", client.authorize_url(state="A" * 7000))
    over = send("GET", client.authorize_url(state="A" * 9000))
    unreadable = ask(client, state="a\x00b")

    assert state_in(absent) == []
    assert [answer.status for answer in (repeated, endless, unreadable)] == [400, 400, 400]
    assert 400 <= over.status < 500


@pytest.mark.parametrize("prompt", ["none", "none consent"])
def test_s19_a_silent_request_is_told_that_the_person_must_see_the_page(server, browser, prompt):
    client = register(server, "http://127.0.0.1/callback")
    signed_out = told_to_client(ask(client, prompt=prompt), client)
    browser.open(client.authorize_url(prompt=prompt))

    assert signed_out["error"] == ["login_required"]
    assert parse_qs(urlsplit(browser.sent_to or "").query)["error"] == ["consent_required"]


@pytest.mark.parametrize("response_type", ["token", "code token", "", None, "é", '"'])
def test_s10_only_the_code_flow_exists(server, response_type):
    client = misses_client(server)
    told = told_to_client(ask(client, response_type=response_type), client)

    assert told["error"] == ["unsupported_response_type"]
    assert told["iss"] == [server.base_url]
