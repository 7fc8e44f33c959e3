"""A consent is remembered, and asked again when anything of it grows: checklist C4, S18, S19."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from sqlalchemy import func, select

from auth.models import grant
from tests.auth.https_browser import BASE_URL, HttpsBrowser
from tests.auth.served import Served
from tests.support.oauth import FORM, RawOAuth
from tests.support.publisher import Publisher, publishing
from tests.support.raw_mcp import send
from tests.support.server import ALICE, BOB, Person

URL = "https://claude.ai/oauth/client.json"
CALLBACK = "https://claude.ai/api/mcp/auth_callback"
READ, SCHEMA, REFUND = "mcp:flows:read", "mcp:schema:read", "orders:refund"


@pytest.fixture
def publisher(tmp_path) -> Iterator[Publisher]:
    with publishing(tmp_path) as running:
        running.publish_client(URL, redirect_uris=[CALLBACK, "http://127.0.0.1/callback"])
        yield running


@pytest.fixture
def start(served_factory, publisher) -> Callable[..., Served]:
    return lambda **settings: served_factory(
        fetcher=publisher.fetcher(), **{"COUNTERSIGN_BASE_URL": BASE_URL} | settings
    )


@pytest.fixture
def served(start) -> Served:
    return start()


class Connected:
    """A person and a program at a fixed address, which asks for a connection as often as the test says."""

    def __init__(self, served: Served, person: Person = ALICE, *, client_id: str = URL, to: str = CALLBACK) -> None:
        self.served = served
        self.browser = HttpsBrowser(served)
        self.browser.sign_in(person.email, person.password)
        self.client = RawOAuth(served.base_url, client_id=client_id, redirect_uri=to)

    def ask(self, **replaced: str | None) -> dict[str, list[str]]:
        """Open the authorization request; return what came back to the program, nothing when a page is shown."""
        self.browser.open(self.client.authorize_url(**replaced))
        return {} if self.browser.sent_to is None else parse_qs(urlsplit(self.browser.sent_to).query)

    def agree(self, *tick: str, **replaced: str | None) -> dict[str, str]:
        callback = self.browser.consent(self.client.authorize_url(**replaced), tick=tick)
        return self.redeem(parse_qs(urlsplit(callback).query)["code"][0])

    def redeem(self, code: str) -> dict[str, str]:
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.client.redirect_uri}
        given |= {"client_id": self.client.client_id, "code_verifier": self.client.verifier}
        answer = send("POST", f"{self.served.address}/oauth/token", [FORM], urlencode(given).encode())
        assert answer.status == 200, answer.raw
        return dict(answer.json)


def grants(served: Served) -> int:
    with served.parts.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(grant)).scalar_one())


def test_the_same_again_is_answered_without_the_page_and_makes_a_connection_of_its_own(served):
    alice = Connected(served)
    first = alice.agree()
    answer = alice.ask(scope=READ)
    second = alice.redeem(answer["code"][0])

    assert answer.keys() == {"code", "state", "iss"}
    assert (second["scope"], READ in first["scope"].split()) == (READ, True)
    assert second["refresh_token"] != first["refresh_token"]
    assert grants(served) == 2


@pytest.mark.parametrize(
    "grown",
    [{"scope": f"{READ} {REFUND}"}, {"prompt": "consent"}, {"prompt": "login"}],
    ids=["scopes", "asked", "login"],
)
def test_more_than_before_is_asked(served, grown):
    alice = Connected(served)
    alice.agree()

    assert alice.ask(**grown) == {}
    assert grants(served) == 1


def test_what_another_person_agreed_to_counts_for_nobody_else(served):
    Connected(served).agree()

    assert Connected(served, BOB).ask(scope=READ) == {}


def test_another_redirect_host_is_asked(served, publisher):
    publisher.publish_client(URL, redirect_uris=[CALLBACK, "https://claude.com/api/mcp/auth_callback"])
    Connected(served).agree()

    assert Connected(served, to="https://claude.com/api/mcp/auth_callback").ask(scope=READ) == {}


def test_a_program_on_this_computer_is_asked_every_time(served):
    alice = Connected(served, to="http://127.0.0.1:5/callback")
    alice.agree()

    assert alice.ask(scope=READ) == {}


def test_a_program_that_registered_itself_is_asked_every_time(served):
    body = b'{"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"], "token_endpoint_auth_method": "none"}'
    made = send("POST", f"{served.address}/oauth/register", [("Content-Type", "application/json")], body)
    alice = Connected(served, client_id=made.json["client_id"])
    alice.agree()

    assert alice.ask(scope=READ) == {}


def test_a_program_whose_document_changed_is_asked(served, publisher):
    alice = Connected(served)
    alice.agree()
    publisher.publish_client(URL, redirect_uris=[CALLBACK], client_name="Another name")
    served.clock.move(minutes=6)  # the document is read again

    assert alice.ask(scope=READ) == {}


def test_an_older_sign_in_is_no_answer(served):
    alice = Connected(served)
    alice.agree()
    served.clock.move(minutes=11)

    assert alice.ask(scope=READ) == {}
    assert [node for node in alice.browser.page.all("input") if node.attrs.get("type") == "password"]


def test_a_connection_that_ended_is_asked_again(served):
    alice = Connected(served)
    tokens = alice.agree()
    given = {"token": tokens["refresh_token"], "client_id": URL}
    send("POST", f"{served.address}/oauth/revoke", [FORM], urlencode(given).encode())

    assert alice.ask(scope=READ) == {}


def test_a_connection_that_was_narrowed_answers_for_what_it_has_left(served):
    alice = Connected(served)
    alice.agree()
    [one] = served.parts.connections.list(served.parts.operators.find_by_email(ALICE.email).id)
    alice.browser.open(f"/connections/{one.grant_id}")
    for scope in one.scopes:
        if scope != SCHEMA:
            alice.browser.untick(scope)
    alice.browser.submit("Save")

    assert alice.ask(scope=READ) == {}
    assert "code" in alice.ask(scope=SCHEMA)


def test_a_silent_request_succeeds_where_the_page_would_be_left_out(served):
    alice = Connected(served)
    asked = alice.ask(scope=READ, prompt="none")
    alice.agree()
    answered = alice.ask(scope=READ, prompt="none")
    signed_out = HttpsBrowser(served)
    signed_out.open(alice.client.authorize_url(scope=READ, prompt="none"))

    assert asked["error"] == ["consent_required"]
    assert "code" in answered
    # A document is fetched for nobody but a signed-in person, not even from what is kept.
    assert urlsplit(signed_out.page.url).path == "/login"


@pytest.mark.parametrize(
    ("method", "header"),
    [
        ("HEAD", {}),
        ("GET", {"Sec-Purpose": "prefetch"}),
        ("GET", {"Purpose": "prefetch"}),
        ("GET", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}),
        ("GET", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
        ("GET", {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
    ],
)
def test_what_nobody_opened_grants_nothing(served, method, header):
    alice = Connected(served)
    alice.agree()
    path = alice.client.authorize_url(scope=READ).removeprefix(served.base_url)
    answer = alice.browser.client.open(path, base_url=served.base_url, method=method, headers=header)

    assert answer.status_code == 200
    assert grants(served) == 1


def test_on_a_plain_http_console_nothing_is_remembered(start):
    served = start(COUNTERSIGN_BASE_URL="http://app.example.com", COUNTERSIGN_ENV="development")
    alice = Connected(served)
    alice.agree()

    assert alice.ask(scope=READ) == {}
