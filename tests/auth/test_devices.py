"""Devices without a browser (RFC 8628): the two codes, the page where one is typed, and the tokens that come once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from sqlalchemy import func, select, update

from auth import devices
from auth.events import ClientEvents
from auth.models import device, grant, token
from auth.registration import registration_by_hand
from policy.models import audit
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.html import NotOnPage, values_of
from tests.support.oauth import RawOAuth
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, CommandFailed, Instance, Person, ServerProcess

ON = {"COUNTERSIGN_DEVICE_GRANT": "on"}
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
READ, SCHEMA, INVOKE, REFUND = "mcp:flows:read", "mcp:schema:read", "mcp:action:invoke", "orders:refund"


@pytest.fixture
def served(served_factory: Callable[..., Served]) -> Served:
    return served_factory(**ON)


@pytest.fixture(scope="module")
def shared(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    """One instance for all tests that leave nothing which others notice."""
    with Served(new_instance(), **ON) as running:
        yield running


class Device:
    """A program on a device that shows a code, and polls."""

    def __init__(self, served: Any, *, client_id: str | None = None) -> None:
        self.base_url = served.base_url
        if client_id is None:
            wanted = registration_by_hand("Television", (), "none", None, device=True)
            client_id = served.parts.clients.add(wanted).client.id
        self.client = RawOAuth(served.base_url, client_id=client_id)
        self.begun: dict[str, Any] = {}

    def begin(self, **given: str) -> RawAnswer:
        answer = self.client.post_form("/oauth/device", {"client_id": self.client.client_id} | given)
        self.begun = answer.json if answer.status == 200 else {}
        return answer

    def poll(self, **replaced: str | None) -> RawAnswer:
        given = {
            "grant_type": GRANT_TYPE,
            "device_code": self.begun.get("device_code"),
            "client_id": self.client.client_id,
        }
        return self.client.post_form("/oauth/token", given | replaced)

    def works(self, access_token: str) -> bool:
        return RawMcp(f"{self.base_url}/mcp", access_token).request("tools/list").status == 200


def signed_in(served: Any, person: Person = ALICE) -> FormBrowser:
    browser = FormBrowser(served.base_url)
    browser.sign_in(person.email, person.password)
    return browser


def typed(browser: FormBrowser, code: str) -> FormBrowser:
    browser.open("/device")
    browser.fill("The code on the device", code)
    browser.submit("Continue")
    return browser


def allow(browser: FormBrowser, code: str, *, untick: tuple[str, ...] = ()) -> FormBrowser:
    typed(browser, code)
    for scope in untick:
        browser.untick(scope)
    browser.prove()
    browser.submit("Allow")
    return browser


def said(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, answer.json.get("error", "")


def count_of(served: Served, table: Any) -> int:
    with served.parts.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def events_in(served: Served, event: str) -> list[tuple[str | None, str | None]]:
    with served.parts.database.read() as connection:
        found = connection.execute(select(audit.c.client_id, audit.c.code).where(audit.c.event == event)).all()
    return [(row.client_id, row.code) for row in found]


# --- the whole way ------------------------------------------------------------------------------------------------


@pytest.mark.db
def test_a_typed_code_lets_a_device_read_and_nothing_else(served):
    one = Device(served)
    begun = one.begin(scope=f"{READ} {REFUND} {INVOKE} nope")
    waiting = one.poll()
    page = allow(signed_in(served), begun.json["user_code"]).page
    served.clock.move(seconds=5)
    answer = one.poll()
    refreshed = one.client.refresh(answer.json["refresh_token"])
    mcp = RawMcp(f"{served.base_url}/mcp", refreshed.json["access_token"])

    assert begun.json.keys() == {"device_code", "user_code", "expires_in", "verification_uri", "interval"}
    assert begun.json["verification_uri"] == f"{served.base_url}/device"
    assert (begun.json["expires_in"], begun.json["interval"]) == (600, 5)
    assert begun.headers["cache-control"] == "no-store"
    assert said(waiting) == (400, "authorization_pending")
    assert "Allowed" in page.text
    assert answer.json["scope"] == READ
    assert not mcp.call("orders_get", {"order_id": 1042}).result["isError"]
    assert mcp.call("orders_refund", {"order_id": 1042, "reason": "x"}).status == 403
    assert "Television" in signed_in(served).open("/connections").text


@pytest.mark.parametrize("spelling", [str.lower, lambda c: c.replace("-", ""), lambda c: f" {c[0]} {c[1:]} "])
def test_a_code_is_read_in_any_spelling(shared, spelling):
    one = Device(shared)
    code = one.begin().json["user_code"]

    assert "Television" in typed(signed_in(shared), spelling(code)).page.text


def test_without_a_scope_every_reading_right_is_offered_and_the_reader_ticks(shared):
    one = Device(shared)
    code = one.begin().json["user_code"]
    allow(signed_in(shared), code, untick=(SCHEMA,))
    scopes = set(one.poll().json["scope"].split())

    assert READ in scopes
    assert not {SCHEMA, INVOKE, REFUND} & scopes


def test_a_denied_device_is_told_so(shared):
    one = Device(shared)
    browser = typed(signed_in(shared), one.begin().json["user_code"])
    browser.submit("Cancel")

    assert "Denied" in browser.page.text
    assert said(one.poll()) == (400, "access_denied")
    assert (one.client.client_id, None) in events_in(shared, "grant.denied")


# --- who may ----------------------------------------------------------------------------------------------------------


def test_it_is_off_by_default(served_factory):
    served = served_factory()
    one = Device(served)
    metadata = send("GET", f"{served.base_url}/.well-known/oauth-authorization-server").json

    assert said(one.begin()) == (400, "unauthorized_client")
    assert said(one.poll(device_code="x")) == (400, "unauthorized_client")
    assert signed_in(served).open("/device").status == 404
    assert "device_authorization_endpoint" not in metadata
    assert GRANT_TYPE not in metadata["grant_types_supported"]


def test_it_is_for_the_clients_that_an_administrator_named(served):
    client = RawOAuth(served.base_url)
    client.register(grant_types=["authorization_code", GRANT_TYPE])
    one = Device(served, client_id=client.client_id)
    before = said(one.begin())
    served.instance.run("client", "device", client.client_id, "on")
    begun = one.begin().json
    served.instance.run("client", "device", client.client_id, "off")
    metadata = send("GET", f"{served.base_url}/.well-known/oauth-authorization-server").json

    assert before == said(one.begin()) == (400, "unauthorized_client")
    assert typed(signed_in(served), begun["user_code"]).page.status == 400
    assert said(one.poll(device_code=begun["device_code"])) == (400, "unauthorized_client")
    assert metadata["device_authorization_endpoint"] == f"{served.base_url}/oauth/device"
    assert GRANT_TYPE in metadata["grant_types_supported"]
    with pytest.raises(CommandFailed):
        served.instance.run("client", "device", "cl_unknown", "on")


def test_what_was_allowed_is_over_when_the_switch_is_turned_off_and_on_again(served):
    one = Device(served)
    allow(signed_in(served), one.begin().json["user_code"])
    for may in (False, True):
        served.parts.clients.set_device(one.client.client_id, may=may)

    assert said(one.poll()) == (400, "expired_token")
    assert count_of(served, token) == 0


def test_a_client_that_an_administrator_named_is_kept_without_any_connection(served):
    clients = [RawOAuth(served.base_url) for _ in range(2)]
    for client in clients:
        client.register()
    one = Device(served, client_id=clients[0].client_id)
    served.parts.clients.set_device(one.client.client_id, may=True)
    served.clock.move(days=31)
    RawOAuth(served.base_url).register()  # takes away what nobody has used

    assert one.begin().status == 200
    assert served.parts.clients.find(clients[1].client_id) is None


def test_the_list_of_clients_says_which_may(served):
    may, other = Device(served), RawOAuth(served.base_url)
    other.register(client_name="Other")
    lines = served.instance.run("client", "list").stdout.splitlines()
    column = lines[0].index("DEVICES")
    told = {line.split()[0]: line[column:].split()[0] for line in lines[1:]}

    assert (told[may.client.client_id], told[other.client_id]) == ("on", "off")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"client_id": "nobody"}, (401, "invalid_client")),
        ({"client_secret": "made up"}, (401, "invalid_client")),
        ({"resource": "https://other.example/mcp"}, (400, "invalid_target")),
        ({"scope": 'x"'}, (400, "invalid_scope")),
    ],
)
def test_a_bad_request_is_a_json_error(shared, given, answer):
    assert said(Device(shared).begin(**given)) == answer


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_the_endpoint_answers_posts_alone(shared, method):
    answer = send(method, f"{shared.base_url}/oauth/device")

    assert answer.status == 405
    assert "html" not in answer.headers.get("content-type", "")


# --- the code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["?user_code={}", "?code={}", "?code={}&request={}"])
def test_a_code_is_never_filled_in(shared, query):
    code = Device(shared).begin().json["user_code"]
    page = signed_in(shared).open("/device" + query.format(code, code))
    field = next(node for node in page.all("input") if node.attrs.get("name") == "code")

    assert not field.attrs.get("value")
    assert code not in page.text
    assert "Television" not in page.text


def test_the_fifth_wrong_code_ends_the_session(served):
    browser = signed_in(served)
    code = Device(served).begin().json["user_code"]
    pages = [typed(browser, "BCDF-GHJK").page for _ in range(5)]
    after = browser.open("/device")

    assert [page.status for page in pages] == [400] * 4 + [403]
    assert pages[-1].link("Sign in again").attrs["href"] == "/device"
    assert not pages[-1].all("form"), "nothing is left to be sent by a session that has ended"
    assert events_in(served, "device.guessed") == [(None, "session_ended")]
    assert urlsplit(after.url).path == "/login"
    assert "Television" in typed(signed_in(served), code).page.text  # a person who signs in again goes on


def test_a_right_code_in_between_forgives_nothing(served):
    browser = signed_in(served)
    for n in range(5):
        code = Device(served).begin().json["user_code"]
        typed(browser, code)
        wrong = typed(browser, "BCDF-GHJK").page.status
        assert wrong == (403 if n == 4 else 400)


def test_a_person_is_slowed_down_over_all_sessions(served):
    for _ in range(4):
        browser = signed_in(served)
        for _ in range(5):
            typed(browser, "BCDF-GHJK")
    paused = typed(signed_in(served), "BCDF-GHJK").page

    assert paused.status == 429
    assert int(paused.headers["retry-after"]) == 900
    assert "Try again in 15 minutes" in paused.text
    assert events_in(served, "device.guessed")[-1] == (None, "throttled")


@pytest.mark.parametrize(
    "wrong", ["", "BCDFGHJ", "BCDFGHJKL", "AEIOUYAE", "\x00" * 8, "é" * 8, "B" * 5000, "1234-5678"]
)
def test_what_is_no_code_looks_like_one_that_is_not_waiting(served, wrong):
    browser = signed_in(served)
    page = browser.open("/device")
    csrf = next(node.attrs["value"] for node in page.all("input") if node.attrs.get("name") == "csrf")
    answer = browser.post("/device", [("csrf", csrf), ("code", wrong)])

    assert answer.status == 400
    assert "isn’t waiting" in answer.text


def test_an_expired_an_answered_and_a_used_code_look_alike(served):
    one, two, three = Device(served), Device(served), Device(served)
    browser = signed_in(served)
    used, denied = one.begin().json["user_code"], two.begin().json["user_code"]
    allow(browser, used)
    one.poll()
    typed(browser, denied).submit("Cancel")
    expired = three.begin().json["user_code"]
    pages = [typed(signed_in(served), code).page for code in (used, denied)]
    served.clock.move(minutes=10)
    pages.append(typed(signed_in(served), expired).page)

    assert [page.status for page in pages] == [400] * 3
    assert said(three.poll()) == (400, "expired_token")


# --- the page ---------------------------------------------------------------------------------------------------------


def question(browser: FormBrowser, code: str) -> list[tuple[str, str]]:
    """Type a code and return what the form that follows would send."""
    typed(browser, code)
    browser.prove()
    button = browser.page.button("Allow")
    form = browser.page.form_of(button)
    assert form is not None
    return values_of(browser.page, form, button)


@pytest.mark.parametrize("lost", ["csrf", "password"])
def test_without_the_form_or_the_proof_nothing_is_granted(served, lost):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    answer = browser.post("/device", [(name, value) for name, value in fields if name != lost])

    assert answer.status in (400, 403)
    assert said(one.poll()) == (400, "authorization_pending")
    assert count_of(served, grant) == 0


def test_another_persons_session_answers_nothing(served):
    one = Device(served)
    fields = question(signed_in(served), one.begin().json["user_code"])
    bob = signed_in(served, BOB)
    csrf = next(n.attrs["value"] for n in bob.open("/device").all("input") if n.attrs.get("name") == "csrf")
    forged = [(name, {"csrf": csrf, "password": BOB.password}.get(name, value)) for name, value in fields]

    assert bob.post("/device", forged).status == 410
    assert said(one.poll()) == (400, "authorization_pending")


@pytest.mark.parametrize("request_", ["", "\x00", "x", "x" * 20_000, "WyJhIiwiYiJd.aaaaaa.bbbb"])
def test_a_request_that_was_not_sealed_here_answers_nothing(shared, request_):
    one, browser = Device(shared), signed_in(shared)
    fields = question(browser, one.begin().json["user_code"])
    forged = [(name, request_ if name == "request" else value) for name, value in fields]

    assert browser.post("/device", forged).status == 410
    assert said(one.poll()) == (400, "authorization_pending")


def test_no_form_grants_more_than_reading(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin(scope=READ).json["user_code"])
    widened = [("scope", INVOKE), ("scope", REFUND), ("scope", SCHEMA), ("scope", "mcp:*")]
    browser.post("/device", fields + widened)

    assert one.poll().json["scope"] == READ


def test_nothing_ticked_connects_nothing(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    answer = browser.post("/device", [(name, value) for name, value in fields if name != "scope"])

    assert answer.status == 400
    assert said(one.poll()) == (400, "authorization_pending")


def test_a_second_answer_changes_nothing_and_is_told_how_it_stands(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    no = [("answer", "deny"), *((name, value) for name, value in fields if name != "answer")]
    pages = [browser.post("/device", given) for given in (fields, fields, no)]

    assert [page.status for page in pages] == [200] * 3
    assert "Allowed" in pages[0].text
    assert pages[1].text == pages[0].text, "a second click is no error after success"
    assert "allowed this device already" in pages[2].text
    assert one.poll().status == 200
    assert count_of(served, grant) == 1


def test_a_no_stays_a_no(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    browser.submit("Cancel")
    late = browser.post("/device", fields)

    assert late.status == 200
    assert "Denied" in late.text
    assert said(one.poll()) == (400, "access_denied")
    assert count_of(served, grant) == 0


def test_whoever_answers_second_is_not_told_that_it_was_allowed(served):
    one, alice, bob = Device(served), signed_in(served), signed_in(served, BOB)
    code = one.begin().json["user_code"]
    typed(bob, code)
    allow(alice, code)
    bob.prove()
    bob.submit("Allow")

    assert bob.page.status == 410
    assert "not waiting" in bob.page.text
    assert "Allowed" not in bob.page.text
    assert count_of(served, grant) == 1


def test_an_allowed_device_whose_grant_was_ended_does_not_stand(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    browser.post("/device", fields)
    with served.parts.database.write() as connection:
        connection.execute(update(grant).values(revoked_at=1))

    assert browser.post("/device", fields).status == 410
    assert said(one.poll()) == (400, "invalid_grant")


@pytest.mark.db
def test_of_parallel_answers_one_counts(served):
    one, browser = Device(served), signed_in(served)
    fields = question(browser, one.begin().json["user_code"])
    cookie = "; ".join(f"{one.name}={one.value}" for one in browser.cookies)
    headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Cookie", cookie)]
    body = urlencode(fields).encode()
    with ThreadPoolExecutor(4) as pool:
        pages = list(pool.map(lambda _: send("POST", f"{served.base_url}/device", headers, body), range(4)))

    assert [page.status for page in pages] == [200] * 4
    assert all(b"Allowed. Go back" in page.raw for page in pages)
    assert count_of(served, grant) == 1
    assert one.poll().status == 200


def test_the_page_cannot_be_framed_or_kept_and_asks_for_a_sign_in(shared):
    signed_out = FormBrowser(shared.base_url).open("/device")
    page = signed_in(shared).open("/device")

    assert urlsplit(signed_out.url).path == "/login"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    with pytest.raises(NotOnPage):
        page.button("Allow")


# --- the polls --------------------------------------------------------------------------------------------------------


def test_who_asks_too_soon_waits_longer(served):
    one = Device(served)
    one.begin()
    answers = [said(one.poll())[1] for _ in range(2)]
    served.clock.move(seconds=9)
    answers.append(said(one.poll())[1])
    served.clock.move(seconds=15)
    answers.append(said(one.poll())[1])

    assert answers == ["authorization_pending", "slow_down", "slow_down", "authorization_pending"]
    assert [e.code for e in served.parts.events.list(one.client.client_id)] == [None, None]  # no failures


def test_another_client_gets_nothing_by_a_code(served):
    one, thief = Device(served), Device(served)
    code = one.begin().json
    allow(signed_in(served), code["user_code"])
    stolen = thief.poll(device_code=code["device_code"])
    own = one.poll()
    again = thief.poll(device_code=code["device_code"])

    assert said(stolen) == said(again) == (400, "invalid_grant")
    assert own.status == 200
    assert not one.works(own.json["access_token"])  # its code has leaked


def test_a_code_is_used_once_and_a_late_second_use_ends_what_it_gave(served):
    one = Device(served)
    allow(signed_in(served), one.begin().json["user_code"])
    tokens = one.poll().json
    innocent = one.poll()
    alive = one.works(tokens["access_token"])
    served.clock.move(seconds=11)
    late = one.poll()

    assert said(innocent) == said(late) == (400, "invalid_grant")
    assert alive
    assert not one.works(tokens["access_token"])


@pytest.mark.parametrize("code", [None, "", "x", "cs_dc_" + "x" * 43, "\x00", "é", "x" * 5000])
def test_what_is_no_device_code_is_a_json_error(shared, code):
    assert said(Device(shared).poll(device_code=code))[0] == 400


@pytest.mark.parametrize("cut", ["client", "operator", "setting"])
def test_a_device_that_was_cut_off_before_it_asked_gets_nothing(served, cut):
    one = Device(served)
    allow(signed_in(served), one.begin().json["user_code"])
    if cut == "client":
        served.parts.clients.remove(one.client.client_id)
    elif cut == "operator":
        served.parts.operators.disable(served.parts.operators.find_by_email(ALICE.email).id)
    else:
        served.parts.clients.set_device(one.client.client_id, may=False)

    assert said(one.poll())[0] in (400, 401)
    assert count_of(served, token) == 0


def test_a_grant_for_another_address_of_this_server_gives_no_token(served):
    one = Device(served)
    allow(signed_in(served), one.begin().json["user_code"])
    with served.parts.database.write() as connection:
        connection.execute(update(grant).values(resource="https://old.example/mcp"))

    assert said(one.poll()) == (400, "invalid_grant")
    assert count_of(served, token) == 0


@pytest.mark.db
def test_parallel_polls_have_one_winner(server_factory):
    server: ServerProcess = server_factory(**ON)
    client_id = server.instance.run("client", "add", "--name", "TV", "--device", "--method", "none").stdout.strip()
    one = Device(server, client_id=client_id)
    allow(signed_in(server), one.begin().json["user_code"])
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: one.poll(), range(20)))
    won = [answer for answer in answers if answer.status == 200]

    assert len(won) == 1
    assert {said(answer) for answer in answers if answer.status != 200} == {(400, "invalid_grant")}
    assert one.works(won[0].json["access_token"])


# --- how many ---------------------------------------------------------------------------------------------------------


def test_so_many_codes_of_a_client_wait_at_a_time(served, monkeypatch):
    monkeypatch.setattr(devices, "MOST_WAITING", 3)
    one = Device(served)
    statuses = [one.begin().status for _ in range(4)]
    served.clock.move(minutes=10)

    assert statuses == [200, 200, 200, 429]
    assert one.begin().status == 200


@pytest.mark.db
def test_codes_that_are_asked_for_at_one_moment_do_not_outrun_the_count(served, monkeypatch):
    write = ClientEvents.write

    def slowly(*given: Any, **fields: Any) -> None:  # after the count and the new row, before the end of both
        time.sleep(0.05)
        write(*given, **fields)

    monkeypatch.setattr(devices, "MOST_WAITING", 3)
    monkeypatch.setattr(ClientEvents, "write", slowly)
    one = Device(served)
    with ThreadPoolExecutor(12) as pool:
        statuses = sorted(pool.map(lambda _: one.begin().status, range(12)))

    assert statuses == [200] * 3 + [429] * 9


def test_one_address_makes_twenty_codes(served_factory):
    served = served_factory(COUNTERSIGN_TRUSTED_PROXIES="1", **ON)
    address = ("X-Forwarded-For", "203.0.113.7")
    statuses = []
    for _ in range(21):
        body = f"client_id={Device(served).client.client_id}".encode()
        headers = [("Content-Type", "application/x-www-form-urlencoded"), address]
        statuses.append(send("POST", f"{served.base_url}/oauth/device", headers, body).status)

    assert statuses == [200] * 20 + [429]


def test_old_codes_go_with_new_ones(served):
    Device(served).begin()
    served.clock.move(days=2)
    Device(served).begin()

    assert count_of(served, device) == 1
