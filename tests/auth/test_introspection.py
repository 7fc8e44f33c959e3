"""Introspection (RFC 7662): who may ask, what is said, and that nothing is said of what doesn't live."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest
from sqlalchemy import update

from auth.models import operator
from auth.registration import registration_by_hand
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import FORM, RawOAuth
from tests.support.raw_mcp import RawAnswer, send
from tests.support.server import ALICE, Instance

READ, REFUND = "mcp:flows:read", "orders:refund"
INACTIVE = {"active": False}


@pytest.fixture(scope="module")
def shared(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    """One instance for all tests that leave nothing which others notice."""
    with Served(new_instance()) as running:
        yield running


class Confidential:
    """A client with a secret, a person who connected it, and its tokens."""

    def __init__(self, served: Served, method: str = "client_secret_basic") -> None:
        self.served = served
        self.client = RawOAuth(served.base_url)
        self.secret = self.client.register(token_endpoint_auth_method=method).json.get("client_secret", "")
        browser = FormBrowser(served.base_url)
        browser.sign_in(ALICE.email, ALICE.password)
        code = self.client.code_from(browser, tick=(REFUND,))
        self.tokens = self.client.exchange(code, client_secret=self.secret or None).json

    def ask(self, token: str, **replaced: str | None) -> RawAnswer:
        given = {"token": token, "client_id": self.client.client_id, "client_secret": self.secret} | replaced
        return self.client.post_form("/oauth/introspect", given)


def gateway(served: Served) -> tuple[str, str]:
    wanted = registration_by_hand("Gateway", (), None, None, introspects=True)
    made = served.parts.clients.add(wanted)
    return made.client.id, made.secret or ""


def ask_as(served: Served, who: tuple[str, str], token: str) -> RawAnswer:
    basic = b64encode(":".join(who).encode()).decode()
    body = urlencode({"token": token}).encode()
    return send("POST", f"{served.base_url}/oauth/introspect", [FORM, ("Authorization", f"Basic {basic}")], body)


def said(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, answer.json.get("error", "")


@pytest.mark.db
def test_a_client_learns_what_its_own_tokens_are_worth(served):
    one = Confidential(served)
    access, refresh = one.ask(one.tokens["access_token"]), one.ask(one.tokens["refresh_token"])
    person = served.parts.operators.find_by_email(ALICE.email)
    now = int(served.clock.now().timestamp())

    assert access.headers["cache-control"] == "no-store"
    assert access.json == {
        "active": True,
        "scope": one.tokens["scope"],
        "client_id": one.client.client_id,
        "username": ALICE.email,
        "sub": person.id,
        "aud": f"{served.base_url}/mcp",
        "iss": served.base_url,
        "iat": now,
        "exp": now + 3600,
        "token_type": "Bearer",
    }
    assert (refresh.json["active"], "token_type" in refresh.json) == (True, False)
    assert refresh.json["exp"] == now + 30 * 86400


@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "nonsense", ""])
def test_a_hint_is_only_a_hint(shared, hint):
    one = Confidential(shared)

    assert one.ask(one.tokens["access_token"], token_type_hint=hint).json["active"] is True


@pytest.mark.parametrize("token", ["x", "cs_at_" + "x" * 43, "\x00", "é", "x" * 5000, "' OR 1=1 --"])
def test_what_is_no_token_is_inactive(shared, token):
    answer = Confidential(shared).ask(token)

    assert (answer.status, answer.json) == (200, INACTIVE)


def test_nothing_is_said_of_another_clients_token(shared):
    one, other = Confidential(shared), Confidential(shared, "client_secret_post")

    assert one.ask(other.tokens["access_token"]).json == INACTIVE
    assert one.ask(other.tokens["refresh_token"]).json == INACTIVE


def test_a_gateway_learns_of_every_token_of_this_resource(shared):
    one, who = Confidential(shared), gateway(shared)
    known = ask_as(shared, who, one.tokens["access_token"])

    assert (known.json["active"], known.json["client_id"]) == (True, one.client.client_id)
    assert ask_as(shared, who, "cs_at_" + "x" * 43).json == INACTIVE
    assert ask_as(shared, (who[0], "wrong"), one.tokens["access_token"]).status == 401


def test_a_gateway_is_sent_nowhere_and_gets_no_token(shared):
    client_id, secret = gateway(shared)
    client = RawOAuth(shared.base_url, client_id=client_id)
    browser = FormBrowser(shared.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    given = {"client_id": client_id, "client_secret": secret, "grant_type": "client_credentials"}

    assert browser.open(client.authorize_url()).status == 400
    assert said(client.post_form("/oauth/token", given)) == (400, "unauthorized_client")


def test_an_administrator_adds_a_gateway_by_one_command(served):
    one = Confidential(served)
    client_id, secret = served.instance.run("client", "add", "--name", "Gateway", "--introspects").stdout.split()

    assert ask_as(served, (client_id, secret), one.tokens["access_token"]).json["active"] is True


def test_who_proves_nothing_learns_nothing(shared):
    one = Confidential(shared)
    public = RawOAuth(shared.base_url)
    public.register()
    token = one.tokens["access_token"]

    assert said(public.post_form("/oauth/introspect", {"token": token, "client_id": public.client_id}))[0] == 401
    assert said(public.post_form("/oauth/introspect", {"token": token})) == (401, "invalid_client")
    assert said(one.ask(token, client_secret="wrong")) == (401, "invalid_client")
    assert said(one.ask(token, client_secret=None)) == (401, "invalid_client")
    assert said(one.ask("")) == (400, "invalid_request")


def test_no_registration_makes_a_gateway(shared):
    client = RawOAuth(shared.base_url)
    made = client.register(introspects=True, token_endpoint_auth_method="client_secret_post").json
    one = Confidential(shared)
    given = {"token": one.tokens["access_token"], "client_id": client.client_id}

    assert "introspects" not in made
    answer = client.post_form("/oauth/introspect", given | {"client_secret": made["client_secret"]})
    assert answer.json == INACTIVE


@pytest.mark.parametrize("end", ["revoked", "expired", "rotated", "client", "operator", "reused"])
def test_what_has_ended_is_inactive(served, end):
    one, who = Confidential(served), gateway(served)
    secret = {"client_secret": one.secret}
    token = one.tokens["refresh_token" if end in ("rotated", "reused") else "access_token"]
    if end == "revoked":
        one.client.post_form("/oauth/revoke", {"token": token, "client_id": one.client.client_id, **secret})
    elif end == "expired":
        served.clock.move(minutes=61)
    elif end == "client":
        served.parts.clients.remove(one.client.client_id)
    elif end == "operator":
        served.parts.operators.disable(served.parts.operators.find_by_email(ALICE.email).id)
    else:
        token = one.client.refresh(token, **secret).json["refresh_token"] if end == "reused" else token
        one.client.refresh(one.tokens["refresh_token"], **secret)
        if end == "reused":
            served.clock.move(minutes=5)
            one.client.refresh(one.tokens["refresh_token"], **secret)

    assert ask_as(served, who, token).json == INACTIVE


def test_the_scope_is_what_counts_now(served):
    one = Confidential(served)
    narrow = one.client.refresh(one.tokens["refresh_token"], scope=READ, client_secret=one.secret).json
    narrowed = one.ask(narrow["access_token"]).json["scope"]
    with served.parts.database.write() as connection:
        connection.execute(update(operator).where(operator.c.email == ALICE.email).values(role="viewer"))

    assert narrowed == READ
    assert REFUND not in one.ask(one.tokens["access_token"]).json["scope"].split()


def test_metadata_says_where_and_how(shared):
    metadata = send("GET", f"{shared.base_url}/.well-known/oauth-authorization-server").json

    assert metadata["introspection_endpoint"] == f"{shared.base_url}/oauth/introspect"
    assert "none" not in metadata["introspection_endpoint_auth_methods_supported"]
    assert "client_credentials" in metadata["grant_types_supported"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_a_posted_form_is_read(shared, method):
    answer = send(method, f"{shared.base_url}/oauth/introspect?token=x")
    in_query = send("POST", f"{shared.base_url}/oauth/introspect?token=x", [FORM], b"")
    as_json = send("POST", f"{shared.base_url}/oauth/introspect", [("Content-Type", "application/json")], b"{}")

    assert answer.status == 405
    assert said(in_query) == said(as_json) == (400, "invalid_request")
    assert "html" not in answer.headers["content-type"]
