"""Each step of each client is on record with the reason of a failure; strangers can't fill it; it holds no secret."""

from base64 import b64encode
from datetime import datetime
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from sqlalchemy import func, select

from auth import events
from auth.models import client_event
from tests.auth.served import MovableClock, Served
from tests.support.browser import FormBrowser
from tests.support.oauth import FORM, RawOAuth
from tests.support.raw_mcp import send
from tests.support.server import ALICE

Steps = list[tuple[str, str | None]]


@pytest.fixture(autouse=True)
def _ticking(monkeypatch) -> None:
    """Let time pass, since the ids of one moment have no order."""
    stands = MovableClock.now

    def now(clock: MovableClock) -> datetime:
        clock.move(milliseconds=1)
        return stands(clock)

    monkeypatch.setattr(MovableClock, "now", now)


@pytest.fixture
def browser(served) -> FormBrowser:
    one = FormBrowser(served.base_url)
    one.sign_in(ALICE.email, ALICE.password)
    return one


@pytest.fixture
def client(served) -> RawOAuth:
    one = RawOAuth(served.base_url)
    one.register()
    return one


def steps(served: Served, client_id: str) -> Steps:
    return [(one.step, one.code) for one in served.parts.events.list(client_id)]


@pytest.mark.db
def test_a_sign_in_that_goes_well_is_told_step_by_step(served, browser, client):
    tokens = client.exchange(client.code_from(browser)).json
    second = client.refresh(tokens["refresh_token"]).json
    for token in (second["access_token"], second["refresh_token"]):
        client.post_form("/oauth/revoke", {"token": token, "client_id": client.client_id})
    told = served.parts.events.list(client.client_id)

    assert [(one.step, one.code) for one in told] == [
        ("register", None),
        ("authorize", None),
        ("consent", None),
        ("token", None),
        ("refresh", None),
        ("revoke", None),
        ("revoke", None),
    ]
    assert all(one.operator_id and one.sentence for one in told[1:])
    assert len({one.grant_id for one in told[2:]}) == 1


def test_each_failure_has_its_code_and_one_sentence(served, browser, client):
    browser.open(client.authorize_url(redirect_uri="https://evil.example/"))
    browser.open(client.authorize_url(code_challenge_method="plain"))
    browser.consent(client.authorize_url(), button="Cancel")
    code = client.code_from(browser)
    client.exchange(code, code_verifier="w" * 43)
    client.exchange(code, resource="https://evil.example/mcp")
    client.exchange(code, client_secret="made up")
    client.refresh("cs_rt_" + "x" * 43)
    told = [one for one in served.parts.events.list(client.client_id) if one.code is not None]

    assert [(one.step, one.code) for one in told] == [
        ("authorize", "invalid_request"),
        ("authorize", "invalid_request"),
        ("consent", "access_denied"),
        ("token", "invalid_grant"),
        ("token", "invalid_target"),
        ("token", "invalid_client"),
        ("refresh", "invalid_grant"),
    ]
    assert all(one.sentence.endswith(".") and "\n" not in one.sentence for one in told)
    assert all(one.reference for one in told)


def test_a_reuse_says_what_it_ended(served, browser, client):
    code = client.code_from(browser)
    client.exchange(code)
    served.clock.move(seconds=30)
    client.exchange(code)

    assert ("token", "code_reused") in steps(served, client.client_id)


def test_nothing_that_was_sent_is_repeated(served, browser, client):
    code = client.code_from(browser)
    secret = "s3cr3t-made-up-value-that-nobody-else-says"
    client.exchange(code, code_verifier=secret, client_secret=secret)
    client.refresh(secret)
    client.exchange(secret)
    browser.open(client.authorize_url(redirect_uri=f"https://{secret}.example/", state=secret))
    log = served.instance.run("client", "log", client.client_id).stdout

    assert "invalid_grant" in log
    assert secret not in log
    assert code not in log


def test_a_stranger_makes_no_rows_of_clients_that_do_not_exist(served):
    for client_id in ("nobody", "https://nowhere.example/c.json", "\x00", "é", "x" * 5000):
        RawOAuth(served.base_url, client_id=client_id).refresh("x")
        send("GET", f"{served.base_url}/oauth/authorize?{urlencode({'client_id': client_id})}")
    with served.parts.database.read() as connection:
        written = connection.execute(select(func.count()).select_from(client_event)).scalar_one()

    assert written == 0


def test_a_stranger_fills_no_more_than_anybody_reads(served, client, monkeypatch):
    monkeypatch.setattr(events, "MOST_FAILURES", 3)
    for _ in range(6):
        client.refresh("x")
    before = len(steps(served, client.client_id))
    served.clock.move(minutes=11)
    client.refresh("x")

    assert before == 4  # with its registration
    assert len(steps(served, client.client_id)) == 5


def test_a_confidential_client_is_known_by_its_header(served, client):
    client.register(token_endpoint_auth_method="client_secret_basic")
    wrong = ("Authorization", f"Basic {b64encode(f'{client.client_id}:no'.encode()).decode()}")
    answer = send("POST", f"{served.base_url}/oauth/token", [FORM, wrong], b"grant_type=refresh_token&refresh_token=x")

    assert answer.status == 401
    assert steps(served, client.client_id)[-1] == ("refresh", "invalid_client")


def test_old_steps_go_with_new_ones_and_with_the_purge(served, client):
    client.refresh("x")
    served.clock.move(days=31)
    client.refresh("x")
    left = steps(served, client.client_id)
    purged = served.instance.run("purge", "--dry-run").stdout

    assert left == [("refresh", "invalid_grant")]
    assert "cs_client_event" in purged


def test_the_command_says_what_it_knows_and_refuses_what_it_does_not(served, browser, client):
    client.code_from(browser)
    shown = served.instance.run("client", "log", client.client_id, "--limit", "1").stdout
    unknown = served.instance.run("client", "log", "cl_unknown", check=False)

    assert [line.split()[1:3] for line in shown.splitlines()[1:]] == [["consent", "ok"]]
    assert (unknown.returncode, "Nothing is on record" in unknown.stderr) == (1, True)


def test_a_server_may_keep_silent_about_the_issuer_that_it_sends_all_the_same(served_factory):
    served = served_factory(COUNTERSIGN_ADVERTISE_ISS="off")
    metadata = send("GET", f"{served.base_url}/.well-known/oauth-authorization-server").json
    client = RawOAuth(served.base_url)
    client.register()
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    callback = browser.consent(client.authorize_url())

    assert metadata["authorization_response_iss_parameter_supported"] is False
    assert parse_qs(urlsplit(callback).query)["iss"] == [served.base_url]
