"""Attacks by and through clients' metadata documents and signed assertions, over HTTP against two workers.

Cases C12 and G3-G11 of the checklist; RFC 7523 3, RFC 8725; SSRF as far as a URL or an answer carries it. Which
network addresses are refused is shown in tests/auth/test_outside.py and test_fetching.py, where names can be given any.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.support.agent import connect
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth
from tests.support.publisher import Publisher, publishing
from tests.support.raw_mcp import RawMcp, send
from tests.support.server import ALICE, Instance, ServerProcess
from tests.support.signing import TYPE, claims_of, key_set, new_key, signed, unsigned

pytestmark = pytest.mark.db
APP = "tests.support.fetching_app:create_app()"
CHATGPT, BACK = "https://chatgpt.com/oauth/abc/client.json", "https://chatgpt.com/connector/oauth/abc"
KEYS = "https://chatgpt.com/oauth/jwks.json"
RSA, EC, STRANGER = new_key("RS256", "rsa"), new_key("ES256", "ec"), new_key("ES256", "ec")


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publisher]:
    with publishing(tmp_path_factory.mktemp("publisher")) as running:
        yield running


@pytest.fixture(scope="module")
def server(new_instance: Callable[[], Instance], publisher: Publisher) -> Iterator[ServerProcess]:
    """Two workers whose fetches lead to the publisher."""
    instance = new_instance()
    publisher.tell(instance.folder)
    with ServerProcess(instance, app=APP) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: ServerProcess) -> FormBrowser:
    signed_in = FormBrowser(server.base_url)
    signed_in.sign_in(ALICE.email, ALICE.password)
    return signed_in


@pytest.fixture(scope="module")
def chatgpt(server: ServerProcess, browser: FormBrowser, publisher: Publisher) -> RawOAuth:
    """A client of ChatGPT's shape that somebody has connected; its document wants signatures and lists no `none`."""
    publisher.publish_client(CHATGPT, redirect_uris=[BACK], token_endpoint_auth_method="private_key_jwt", jwks_uri=KEYS)
    publisher.publish(KEYS, key_set(RSA, EC), Cache_Control="max-age=3600")
    client = RawOAuth(server.base_url, client_id=CHATGPT, redirect_uri=BACK)
    answer = client.exchange(client.code_from(browser), **with_assertion(signed(RSA, claims(client))))
    assert answer.status == 200, answer.raw
    return client


def claims(client: RawOAuth, **replaced: Any) -> dict[str, Any]:
    return claims_of(client.client_id, f"{client.base_url}/oauth/token", **replaced)


def with_assertion(assertion: str) -> dict[str, str]:
    return {"client_assertion_type": TYPE, "client_assertion": assertion}


def forget_tries(server: ServerProcess) -> None:
    """Let the throttle begin anew: these tests fetch more than a person does."""
    engine = create_engine(server.instance.database_url)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM cs_login_event"))
    engine.dispose()


def refused_as(client: RawOAuth, assertion: str, **more: str | None) -> str:
    """Send a refresh with this assertion; return the sentence of its 401."""
    answer = client.refresh("cs_rt_" + "A" * 43, **with_assertion(assertion), **more)
    assert (answer.status, answer.json["error"]) == (401, "invalid_client"), answer.raw
    return str(answer.json["error_description"])


def is_taken(client: RawOAuth, assertion: str, **more: str | None) -> bool:
    """Tell whether the assertion proved the client: what is refused then is the token."""
    answer = client.refresh("cs_rt_" + "A" * 43, **with_assertion(assertion), **more)
    return (answer.status, answer.json["error"]) == (400, "invalid_grant")


# --- the metadata -------------------------------------------------------------------------------------------------


def test_the_server_says_what_it_takes(server):
    document = send("GET", f"{server.base_url}/.well-known/oauth-authorization-server").json

    assert document["client_id_metadata_document_supported"] is True
    assert {"none", "private_key_jwt"} <= set(document["token_endpoint_auth_methods_supported"])
    assert document["token_endpoint_auth_signing_alg_values_supported"] == ["RS256", "ES256"]


def test_the_official_client_connects_by_its_document(server, browser, publisher):
    url = "https://client.example/official.json"
    publisher.publish_client(url, client_name="Official", redirect_uris=["http://127.0.0.1/callback"])
    before = len(publisher.asked)  # the same publisher serves the tests of both databases
    with connect(server.mcp_url, browser, client_url=url) as agent:
        found = agent.call("orders_list", {"status": "paid"})
        registered_as = agent.storage.client_info.client_id
    page = browser.open("/connections")

    assert not found.is_error
    assert registered_as == url
    assert publisher.asked[before:] == [url]  # once for two workers, several pages and the token endpoint
    assert "described at client.example" in page.text


# --- the client id and its document ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client_id",
    [
        "https://localhost/c",
        "https://127.0.0.1/c",
        "https://[::1]/c",
        "https://[/c",
        "https://[::ffff:169.254.169.254]/c",
        "https://169.254.169.254/latest/meta-data",
        "https://2852039166/c",
        "https://0xa9.0xfe.0xa9.0xfe/c",
        "https://client.example:22/c",
        "https://client.example:443/c",
        "https://user:pass@client.example/c",
        "https://client.example@127.0.0.1/c",
        "https://client.example\\@127.0.0.1/c",
        "https://client.example./c",
        "https://CLIENT.example/c",
        "https://client%2eexample/c",
        "https://clïent.example/c",
        "https://client.example",
        "https://client.example/../c",
        "https://client.example/%2e%2e/c",
        "https://client.example/c#x",
        "https://client.example/c\tx",
        "https://client.example/\r\nHost: x",
        "https://client.example/" + "x" * 300,
        "https://",
    ],
)
def test_a_client_id_in_another_spelling_is_refused_and_nothing_fetched(browser, publisher, client_id):
    asked = len(publisher.asked)
    client = RawOAuth(browser.base_url, client_id=client_id)
    page = browser.open(client.authorize_url())

    assert (page.status, browser.sent_to) == (400, None)
    assert len(publisher.asked) == asked


@pytest.mark.parametrize(
    "client_id", ["http://client.example/c", "ftp://client.example/c", "HTTPS://client.example/c", "file:///c"]
)
def test_another_scheme_is_an_unknown_client(browser, publisher, client_id):
    asked = len(publisher.asked)
    page = browser.open(RawOAuth(browser.base_url, client_id=client_id).authorize_url())

    assert page.status == 400
    assert "not known" in page.text
    assert len(publisher.asked) == asked


def test_a_client_id_given_twice_fetches_neither(browser, publisher):
    publisher.publish_client("https://client.example/twice")
    asked = len(publisher.asked)
    client = RawOAuth(browser.base_url, client_id="https://client.example/twice")
    page = browser.open(client.authorize_url() + "&client_id=https%3A%2F%2Fother.example%2Fc")

    assert page.status == 400
    assert len(publisher.asked) == asked


BAD = {
    "redirect": ({"status": "302 Found", "Location": "https://client.example/good"}, {}),
    "html": ({"Content_Type": "text/html"}, {}),
    "too large": ({}, {"x": "y" * 20_000}),
    "another client's": ({}, {"client_id": "https://client.example/other"}),
    "a secret": ({}, {"client_secret": "s3cret"}),
    "a shared secret": ({}, {"token_endpoint_auth_method": "client_secret_post"}),
    "no name": ({}, {"client_name": None}),
    "no address": ({}, {"redirect_uris": None}),
    "many addresses": ({}, {"redirect_uris": [f"http://127.0.0.1/{n}" for n in range(200)]}),
    "a list as text": ({}, {"token_endpoint_auth_methods_supported": "none"}),
    "keys at home": ({}, {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://127.0.0.1/k"}),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_document_gives_a_page_that_says_so_and_stores_nothing(server, browser, publisher, kind):
    forget_tries(server)
    headers, members = BAD[kind]
    url = f"https://client.example/bad/{kind.replace(' ', '-').replace(chr(39), '')}"
    publisher.publish_client("https://client.example/good")
    publisher.publish(url, publisher.publish_client(url, **members), **headers)
    page = browser.open(RawOAuth(server.base_url, client_id=url).authorize_url())

    assert (page.status, browser.sent_to) == (400, None)
    assert "Connect" not in [page.name_of(button) for button in page.all("button")]
    engine = create_engine(server.instance.database_url)
    with engine.connect() as connection:
        for statement in ("SELECT url FROM cs_fetched WHERE url = :url", "SELECT id FROM cs_client WHERE id = :url"):
            assert connection.execute(text(statement), {"url": url}).all() == []
    engine.dispose()


def test_a_member_named_twice_is_refused(server, browser, publisher):
    url = "https://client.example/twice-inside"
    raw = json.dumps(publisher.publish_client(url))[:-1] + ', "redirect_uris": ["https://evil.example/"]}'
    publisher.publish(url, raw.encode())

    page = browser.open(RawOAuth(server.base_url, client_id=url, redirect_uri="https://evil.example/").authorize_url())

    assert page.status == 400
    assert "twice" in page.text


def test_a_url_client_gets_no_registration_and_no_secret(server):
    body = {"client_id": CHATGPT, "redirect_uris": [BACK], "token_endpoint_auth_method": "private_key_jwt"}
    answer = send(
        "POST", f"{server.base_url}/oauth/register", [("Content-Type", "application/json")], json.dumps(body).encode()
    )

    assert (answer.status, answer.json["error"]) == (400, "invalid_client_metadata")


def test_a_url_client_that_nobody_has_connected_is_unknown_to_the_token_endpoint(server, publisher):
    asked = len(publisher.asked)
    client = RawOAuth(server.base_url, client_id="https://client.example/never")
    answers = [
        client.refresh("cs_rt_" + "A" * 43),
        client.refresh("cs_rt_" + "A" * 43, client_secret="x"),
        client.refresh("cs_rt_" + "A" * 43, **with_assertion(signed(EC, claims(client)))),
    ]

    assert [(a.status, a.json["error"]) for a in answers] == [(401, "invalid_client")] * 3
    assert len(publisher.asked) == asked


# --- C12: preferred and listed methods ----------------------------------------------------------------------------


def test_c12_chatgpt_prefers_a_signature_and_may_come_without(server, browser, publisher):
    forget_tries(server)
    url = "https://chatgpt.com/oauth/both/client.json"
    publisher.publish_client(
        url,
        redirect_uris=[BACK],
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_methods_supported=["none", "private_key_jwt"],
        token_endpoint_auth_signing_alg="RS256",
        jwks_uri=KEYS,
    )
    publisher.publish(KEYS, key_set(RSA, EC), Cache_Control="max-age=3600")
    client = RawOAuth(server.base_url, client_id=url, redirect_uri=BACK)
    plain = client.exchange(client.code_from(browser))
    proven = client.exchange(client.code_from(browser), **with_assertion(signed(RSA, claims(client))))
    code = client.code_from(browser)
    forged = client.exchange(code, **with_assertion(signed(STRANGER, claims(client), alg="ES256")))
    with_secret = client.exchange(code, client_secret="x")
    wrong_algorithm = client.exchange(code, **with_assertion(signed(EC, claims(client))))

    assert [plain.status, proven.status] == [200, 200], proven.raw
    assert [a.status for a in (forged, with_secret, wrong_algorithm)] == [401] * 3
    assert client.exchange(code).status == 200  # a refused client has spent nothing
    assert RawMcp(client.resource, proven.json["access_token"]).request("tools/list").status == 200


def test_c12_a_client_that_only_signs_is_told_so(chatgpt):
    answer = chatgpt.refresh("cs_rt_" + "A" * 43)

    assert (answer.status, answer.json["error"]) == (401, "invalid_client")
    assert "private_key_jwt" in answer.json["error_description"]


# --- assertions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_a_good_assertion_proves_the_client(chatgpt, key):
    issuer = chatgpt.base_url
    good = [
        signed(key, claims(chatgpt)),
        signed(key, claims(chatgpt, aud=issuer)),
        signed(key, claims(chatgpt, aud=[issuer])),
        signed(key, claims(chatgpt, iat=None)),
        signed(key, claims(chatgpt), typ=None),
        signed(key, claims(chatgpt), typ="client-authentication+jwt"),
        signed(key, claims(chatgpt), kid=None),  # there is one of its kind
    ]

    assert [is_taken(chatgpt, one) for one in good] == [True] * len(good)
    assert is_taken(chatgpt, signed(key, claims(chatgpt)), client_id=None)  # RFC 7521 4.2


NOW = int(time.time())
BAD_CLAIMS = {
    "aud of another server": {"aud": "https://evil.example/token"},
    "aud with a slash": {"aud": "https://evil.example/"},
    "aud missing": {"aud": None},
    "aud empty": {"aud": []},
    "aud a number": {"aud": 1},
    "aud an object": {"aud": {}},
    "expired": {"exp": NOW - 600},
    "exp missing": {"exp": None},
    "exp in a year": {"exp": NOW + 31_536_000},
    "exp as text": {"exp": "9999999999"},
    "exp true": {"exp": True},
    "exp without end": {"exp": 1e300},
    "exp negative": {"exp": -1},
    "iat in the future": {"iat": NOW + 3600},
    "iat long ago": {"iat": NOW - 86_400},
    "not yet valid": {"nbf": NOW + 3600},
    "iss of another": {"iss": "https://client.example/c"},
    "sub of another": {"sub": "https://client.example/c"},
    "iss missing": {"iss": None},
    "jti missing": {"jti": None},
    "jti empty": {"jti": ""},
    "jti a number": {"jti": 7},
    "jti without end": {"jti": "x" * 600},
}


@pytest.mark.parametrize("kind", BAD_CLAIMS)
def test_a_signed_assertion_with_a_bad_claim_is_refused(chatgpt, kind):
    refused_as(chatgpt, signed(EC, claims(chatgpt, **BAD_CLAIMS[kind])))


def test_an_assertion_for_several_servers_is_refused(chatgpt):
    for several in (
        [chatgpt.base_url, "https://other.example"],
        [[chatgpt.base_url]],
        f"{chatgpt.base_url} https://other.example",
        f"{chatgpt.base_url}/",
        f"{chatgpt.base_url}/oauth/token/",
        f"{chatgpt.base_url}/token",
        f"{chatgpt.base_url}/mcp",
    ):
        refused_as(chatgpt, signed(EC, claims(chatgpt, aud=several)))


def test_algorithms_can_not_be_confused(chatgpt):
    public = json.dumps(RSA.as_dict(private=False)).encode()
    secrets = [RSA.as_pem(private=False), public, RSA.as_dict(private=False)["n"].encode(), b""]
    forged = [unsigned(claims(chatgpt), alg=alg) for alg in ("none", "None", "NONE", "nOnE", "", None, 1, ["RS256"])]
    forged += [unsigned(claims(chatgpt), b"x" * 64, alg=alg, kid="ec") for alg in ("ES256", "RS256", "ES384")]
    forged += [unsigned(claims(chatgpt), b"\0" * 64, alg="ES256", kid="ec")]
    forged += [signed(secret, claims(chatgpt), kid=kid) for secret in secrets for kid in ("rsa", "ec", None)]
    forged += [signed(RSA, claims(chatgpt), alg="PS256"), signed(RSA, claims(chatgpt), alg="RS512")]

    for one in forged:
        refused_as(chatgpt, one)


def test_a_key_that_the_assertion_brings_is_not_looked_at(chatgpt, publisher):
    asked = len(publisher.asked)
    for header in (
        {"jwk": STRANGER.as_dict(private=False)},
        {"jku": "https://other.example/keys"},
        {"x5u": "https://other.example/cert"},
        {"kid": "https://other.example/keys"},
        {"kid": "../../etc/passwd"},
        {"kid": "' OR 1=1"},
        {"kid": ""},
        {"kid": 1},
        {"kid": None},
    ):
        refused_as(chatgpt, signed(STRANGER, claims(chatgpt), **header))

    assert set(publisher.asked[asked:]) <= {KEYS}


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "at+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": 1},
        {"crit": ["exp"]},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
    ],
)
def test_a_token_made_for_something_else_is_no_assertion(chatgpt, header):
    refused_as(chatgpt, signed(EC, claims(chatgpt), **header))


@pytest.mark.parametrize(
    "assertion",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d",
        "a.b.c.d.e",
        "x" * 9000,
        "é.é.é",
        "\x00",
        unsigned([], alg="ES256"),
        unsigned("x", alg="ES256"),
        unsigned(None, alg="ES256"),
        ".".join(["W10", "e30", ""]),
        ".".join(["W1tbW1tb" * 100, "e30", ""]),
        ".".join(["e30", "W1tbW1tb" * 1000, ""]),
    ],
)
def test_what_is_no_assertion_is_refused_as_one(chatgpt, assertion):
    refused_as(chatgpt, assertion)
    refused_as(chatgpt, assertion, client_id=None)


def test_an_assertion_beside_another_proof_is_refused(chatgpt):
    assertion = with_assertion(signed(EC, claims(chatgpt)))
    fields = {"grant_type": "refresh_token", "refresh_token": "x", **assertion}
    twice = chatgpt.post_form("/oauth/token", fields | {"client_secret": "x"})
    other_type = chatgpt.post_form("/oauth/token", fields | {"client_assertion_type": "urn:x"})
    no_type = chatgpt.post_form("/oauth/token", {**fields, "client_assertion_type": None})
    no_assertion = chatgpt.post_form("/oauth/token", {**fields, "client_assertion": None})
    other_client = chatgpt.post_form("/oauth/token", fields | {"client_id": "https://client.example/c"})

    assert (twice.status, twice.json["error"]) == (400, "invalid_request")
    for answer in (other_type, no_type, no_assertion, other_client):
        assert (answer.status, answer.json["error"]) == (401, "invalid_client"), answer.raw


def test_a_public_client_can_not_be_given_keys_by_an_assertion(server, browser):
    client = RawOAuth(server.base_url)
    client.register()
    client.code_from(browser)

    refused_as(client, signed(EC, claims(client)))


def test_one_client_can_not_sign_for_another(server, browser, publisher, chatgpt):
    forget_tries(server)
    url = "https://client.example/mallory"
    publisher.publish_client(url, token_endpoint_auth_method="private_key_jwt", jwks=key_set(STRANGER))
    mallory = RawOAuth(server.base_url, client_id=url)
    mallory.code_from(browser)

    refused_as(chatgpt, signed(STRANGER, claims(mallory)))
    refused_as(chatgpt, signed(STRANGER, claims(chatgpt)))
    refused_as(mallory, signed(STRANGER, claims(mallory)), client_id=CHATGPT)
    assert is_taken(mallory, signed(STRANGER, claims(mallory)))


def test_of_twenty_uses_of_one_assertion_at_once_one_proves_the_client(chatgpt):
    for key in (EC, RSA):
        assertion = signed(key, claims(chatgpt))
        with ThreadPoolExecutor(10) as pool:
            taken = list(pool.map(lambda _n, one=assertion: is_taken(chatgpt, one), range(20)))

        assert sum(taken) == 1
        assert "used already" in refused_as(chatgpt, assertion)


def test_the_revocation_endpoint_asks_for_the_same_proof(chatgpt, browser):
    tokens = chatgpt.exchange(chatgpt.code_from(browser), **with_assertion(signed(EC, claims(chatgpt)))).json
    given = {"token": tokens["refresh_token"], "client_id": CHATGPT}
    without = chatgpt.post_form("/oauth/revoke", given)
    forged = chatgpt.post_form("/oauth/revoke", given | with_assertion(signed(STRANGER, claims(chatgpt))))
    alive = RawMcp(chatgpt.resource, tokens["access_token"]).request("tools/list").status
    proven = chatgpt.post_form("/oauth/revoke", given | with_assertion(signed(EC, claims(chatgpt))))

    assert [without.status, forged.status, alive, proven.status] == [401, 401, 200, 200]
    assert RawMcp(chatgpt.resource, tokens["access_token"]).request("tools/list").status == 401


def test_neither_assertion_nor_document_is_in_the_log(server, chatgpt):
    assertion = signed(EC, claims(chatgpt))
    is_taken(chatgpt, assertion)

    assert assertion.split(".")[1] not in server.log()
    assert "Traceback" not in server.log()
