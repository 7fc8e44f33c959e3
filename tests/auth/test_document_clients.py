"""Clients by metadata document: when they are fetched, how long they are kept, and what a change does. Over HTTP."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from auth.fetching import Fetcher
from core.errors import Unavailable
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth, mcp_for
from tests.support.publisher import Publisher, publishing
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB
from tests.support.signing import TYPE, claims_of, key_set, new_key, signed

URL = "https://client.example/c.json"
KEYS = "https://keys.example/jwks.json"
SIGNING = {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": KEYS}


@pytest.fixture
def publisher(tmp_path) -> Iterator[Publisher]:
    with publishing(tmp_path) as running:
        running.publish_client(URL)
        yield running


@pytest.fixture
def start(served_factory, publisher) -> Callable[..., Served]:
    """A function that serves an instance, with settings, whose fetches lead to the publisher."""
    return lambda **settings: served_factory(fetcher=publisher.fetcher(), **settings)


@pytest.fixture
def served(start) -> Served:
    return start()


def browser_of(served: Served, person=ALICE) -> FormBrowser:
    browser = FormBrowser(served.base_url)
    browser.sign_in(person.email, person.password)
    return browser


def client_at(served: Served, url: str = URL) -> RawOAuth:
    return RawOAuth(served.base_url, client_id=url)


def open_consent(browser: FormBrowser, client: RawOAuth, **replaced: str | None):
    return browser.open(client.authorize_url(**replaced))


def assertion(served: Served, key: Any, url: str = URL, **replaced: Any) -> dict[str, str]:
    now = int(served.clock.now().timestamp())
    claims = claims_of(url, served.base_url, **{"iat": now, "exp": now + 60} | replaced)
    return {"client_assertion_type": TYPE, "client_assertion": signed(key, claims)}


def rows(served: Served, statement: str) -> list[Any]:
    engine = create_engine(served.instance.database_url)
    with engine.connect() as connection:
        found = connection.execute(text(statement)).all()
    engine.dispose()
    return [tuple(row) for row in found]


def raising(error: type[Exception]) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def tokens_for(served: Served, browser: FormBrowser, client: RawOAuth, **replaced: str | None) -> RawAnswer:
    return client.exchange(client.code_from(browser), **replaced)


# --- when -------------------------------------------------------------------------------------------------------


def test_nothing_is_fetched_for_a_stranger(served, publisher):
    client = client_at(served)
    for replaced in ({}, {"prompt": "none"}, {"response_type": "token"}, {"redirect_uri": "https://evil.example/"}):
        answer = send("GET", client.authorize_url(**replaced))

        assert answer.status == 303
        assert answer.headers["location"].startswith("/login?"), answer.headers
    client.exchange("cs_ac_" + "A" * 43)
    client.refresh("cs_rt_" + "A" * 43)
    client.post_form("/oauth/revoke", {"token": "x", "client_id": URL})

    assert publisher.asked == []
    assert rows(served, "SELECT id FROM cs_client WHERE kind = 'document'") == []


def test_nothing_is_fetched_for_a_person_who_has_the_first_password_still(served, publisher):
    engine = create_engine(served.instance.database_url)
    browser = browser_of(served)
    with engine.begin() as connection:
        connection.execute(text("UPDATE cs_operator SET must_change = true"))
    engine.dispose()

    open_consent(browser, client_at(served))

    assert "/password" in browser.page.url
    assert publisher.asked == []


def test_signing_in_leads_to_the_page_and_the_code_becomes_tokens(served, publisher):
    client = client_at(served)
    browser = FormBrowser(served.base_url)
    browser.open(client.authorize_url(redirect_uri="http://127.0.0.1:4711/callback"))
    before = list(publisher.asked)
    browser.sign_in(ALICE.email, ALICE.password)
    open_consent(browser, client)

    answer = tokens_for(served, browser, client)
    listed = RawMcp(client.resource, answer.json["access_token"]).request("tools/list")
    refreshed = client.refresh(answer.json["refresh_token"])

    assert before == []
    assert answer.status == refreshed.status == 200
    assert listed.status == 200
    assert set(publisher.asked) == {URL}


def test_the_page_names_both_hosts_and_vouches_for_nothing(served, publisher):
    publisher.publish_client(
        URL, client_name="Claude <b>", redirect_uris=["https://other.example/back", "http://localhost/x"]
    )
    browser = browser_of(served)
    far = open_consent(browser, client_at(served), redirect_uri="https://other.example/back").text
    near = open_consent(browser, client_at(served), redirect_uri="http://localhost:99/x").text

    assert "Claude <b>" in far
    assert "unverified" in far
    assert "described at client.example" in far
    assert "goes to other.example" in far
    assert URL in far
    assert "goes to a program on this computer" not in far
    assert "goes to a program on this computer" in near
    assert "described at client.example" in near


def test_only_addresses_of_the_document_are_sent_an_answer(served, publisher):
    publisher.publish_client(URL, redirect_uris=["https://client.example/back", "http://localhost/x"])
    browser, client = browser_of(served), client_at(served)

    for bad in ("https://client.example/back?x", "https://client.example/", "http://127.0.0.1/x", "http://localhost/y"):
        for more in ({}, {"response_type": "token"}, {"code_challenge": None}):
            page = open_consent(browser, client, redirect_uri=bad, **more)

            assert (page.status, browser.sent_to) == (400, None), bad
    assert open_consent(browser, client, redirect_uri="http://localhost:7/x").status == 200


# --- how long ---------------------------------------------------------------------------------------------------


def test_a_document_is_fetched_again_when_it_is_no_longer_fresh(served, publisher):
    browser, client = browser_of(served), client_at(served)
    counts = []
    for minutes in (0, 4, 2, 4, 2):
        served.clock.move(minutes=minutes)
        assert open_consent(browser, client).status == 200
        counts.append(len(publisher.asked))

    assert counts == [1, 1, 2, 2, 3]


def test_a_fresh_document_serves_everybody_while_its_host_is_down(served, publisher):
    publisher.publish(URL, publisher.publish_client(URL), Cache_Control="max-age=7200")
    open_consent(browser_of(served), client_at(served))
    publisher.pages.clear()
    served.clock.move(minutes=90)

    assert open_consent(browser_of(served, BOB), client_at(served)).status == 200
    assert len(publisher.asked) == 1


def test_errors_and_bad_documents_are_kept_nowhere(served, publisher):
    browser, client = browser_of(served), client_at(served)
    publisher.publish(URL, {}, status="503 Down")
    unreachable = open_consent(browser, client)
    publisher.publish_client(URL, client_secret="s")
    bad = open_consent(browser, client)
    kept = rows(served, "SELECT url FROM cs_fetched") + rows(served, "SELECT id FROM cs_client WHERE kind='document'")
    publisher.publish_client(URL)
    good = open_consent(browser, client)

    assert [unreachable.status, bad.status, good.status] == [400, 400, 200]
    assert "status 503" in unreachable.text
    assert "secret" in bad.text
    assert kept == []


def test_a_document_that_went_bad_is_not_served_from_what_was_kept(served, publisher):
    browser, client = browser_of(served), client_at(served)
    open_consent(browser, client)
    publisher.publish(URL, {}, status="404 Not Found")
    served.clock.move(minutes=6)

    assert open_consent(browser, client).status == 400


# --- how often --------------------------------------------------------------------------------------------------


def test_a_flood_of_client_ids_by_one_person_is_stopped_and_another_person_is_not(served, publisher):
    browser, started = browser_of(served), time.monotonic()
    statuses = [open_consent(browser, client_at(served, f"https://client.example/{n}")).status for n in range(25)]
    after = len(publisher.asked)
    other = open_consent(browser_of(served, BOB), client_at(served)).status
    served.clock.move(minutes=16)
    later = open_consent(browser, client_at(served)).status

    assert statuses == [400] * 20 + [429] * 5
    assert after == 20
    assert (other, later) == (200, 200)
    assert time.monotonic() - started < 30


def test_one_host_is_not_called_without_end_by_many_people(served, publisher, monkeypatch):
    monkeypatch.setattr("auth.document_clients.HOST_FACTOR", 1)
    monkeypatch.setattr("auth.document_clients.PERSON_FACTOR", 100)
    browser = browser_of(served)
    statuses = [open_consent(browser, client_at(served, f"https://client.example/{n}")).status for n in range(6)]

    assert statuses == [400] * 5 + [429]
    assert open_consent(browser, client_at(served, "https://other.example/1")).status == 400
    assert publisher.asked[-1] == "https://other.example/1"


# --- which hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"COUNTERSIGN_CIMD_ALLOWED_HOSTS": "claude.ai chatgpt.com"}, 403),
        ({"COUNTERSIGN_CIMD_ALLOWED_HOSTS": "claude.ai,client.example"}, 200),
        ({"COUNTERSIGN_CIMD": "off"}, 403),
        ({"COUNTERSIGN_CIMD": "on"}, 200),
        ({"COUNTERSIGN_CIMD_DENIED_HOSTS": "client.example"}, 403),
        ({"COUNTERSIGN_CIMD_DENIED_HOSTS": ".example"}, 403),
        ({"COUNTERSIGN_CIMD_DENIED_HOSTS": ".lient.example"}, 200),
        ({"COUNTERSIGN_CIMD_ALLOWED_HOSTS": ".example", "COUNTERSIGN_CIMD_DENIED_HOSTS": "client.example"}, 403),
    ],
)
def test_the_settings_say_which_hosts_programs_may_connect(start, publisher, settings, status):
    served = start(**settings)

    page = open_consent(browser_of(served), client_at(served))

    assert page.status == status
    assert len(publisher.asked) == (status == 200)
    metadata = send("GET", f"{served.base_url}/.well-known/oauth-authorization-server").json
    assert metadata["client_id_metadata_document_supported"] is (settings.get("COUNTERSIGN_CIMD") != "off")


def test_keys_on_a_host_that_is_denied_are_not_fetched(start, publisher):
    served, key = start(COUNTERSIGN_CIMD_DENIED_HOSTS="keys.example"), new_key()
    publisher.publish_client(URL, **SIGNING)
    publisher.publish(KEYS, key_set(key))
    answer = tokens_for(served, browser_of(served), client_at(served), **assertion(served, key))

    assert answer.status == 401
    assert KEYS not in publisher.asked


# --- what a change does -----------------------------------------------------------------------------------------


def test_a_changed_document_changes_the_client_and_the_audit_says_what(served, publisher):
    browser, client = browser_of(served), client_at(served)
    kept = tokens_for(served, browser, client).json
    publisher.publish_client(URL, client_name="Renamed", redirect_uris=["https://client.example/new"])
    served.clock.move(minutes=6)
    old_address = open_consent(browser, client)
    new_address = open_consent(browser, client, redirect_uri="https://client.example/new")

    assert old_address.status == 400
    assert "Renamed" in new_address.text
    assert client.refresh(kept["refresh_token"]).status == 200
    changes = rows(served, "SELECT detail FROM cs_audit WHERE event = 'client.changed'")
    assert changes == [('{"changed":["name","redirect_uris"]}',)]


def test_a_client_that_may_connect_devices_still_may_when_its_document_changed_and_after_a_month(served, publisher):
    browser, client = browser_of(served), client_at(served)
    open_consent(browser, client)
    served.parts.clients.set_device(URL, may=True)
    publisher.publish_client(URL, client_name="Renamed")
    served.clock.move(minutes=6)
    open_consent(browser, client)
    changed = served.parts.clients.find(URL)
    served.clock.move(days=31)
    publisher.publish_client("https://client.example/d.json")
    open_consent(browser_of(served), client_at(served, "https://client.example/d.json"))  # the unused go with it

    assert (changed.name, changed.uses_device) == ("Renamed", True)
    assert served.parts.clients.find(URL) == changed
    served.parts.clients.remove(URL)
    open_consent(browser_of(served), client)
    assert not served.parts.clients.find(URL).uses_device, "what was removed begins anew"


def test_an_address_that_left_the_document_while_the_page_was_open_gets_no_code(served, publisher):
    browser, client = browser_of(served), client_at(served)
    open_consent(browser, client)
    publisher.publish_client(URL, redirect_uris=["https://client.example/new"])
    served.clock.move(minutes=6)
    open_consent(browser_of(served, BOB), client, redirect_uri="https://client.example/new")
    browser.prove()
    browser.submit("Connect")

    assert browser.sent_to is None
    assert browser.page.status == 404


def test_a_client_that_asks_for_signatures_from_now_on_is_not_let_in_without(served, publisher):
    browser, client, key = browser_of(served), client_at(served), new_key()
    kept = tokens_for(served, browser, client).json
    publisher.publish_client(URL, token_endpoint_auth_method="private_key_jwt", jwks=key_set(key))
    served.clock.move(minutes=6)
    open_consent(browser, client)
    without = client.refresh(kept["refresh_token"])
    with_it = client.refresh(kept["refresh_token"], **assertion(served, key))

    assert (without.status, without.json["error"]) == (401, "invalid_client")
    assert with_it.status == 200


def test_a_removed_client_begins_anew_without_its_old_connections(served, publisher):
    browser, client = browser_of(served), client_at(served)
    old = tokens_for(served, browser, client).json
    served.parts.clients.remove(URL)
    refused = client.refresh(old["refresh_token"])
    new = tokens_for(served, browser, client)

    assert (refused.status, refused.json["error"]) == (401, "invalid_client")
    assert new.status == 200
    assert client.refresh(old["refresh_token"]).json["error"] == "invalid_grant"
    assert RawMcp(client.resource, old["access_token"]).request("tools/list").status == 401


def test_the_same_document_for_two_people_is_one_client_whose_end_is_each_ones_own(served, publisher):
    client = client_at(served)
    of_alice = tokens_for(served, browser_of(served), client).json
    of_bob = tokens_for(served, browser_of(served, BOB), client).json
    client.post_form("/oauth/revoke", {"token": of_alice["refresh_token"], "client_id": URL})

    assert client.refresh(of_alice["refresh_token"]).status == 400
    assert client.refresh(of_bob["refresh_token"]).status == 200


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.fixture
def key() -> Any:
    return new_key()


@pytest.fixture
def signing(served, publisher, key) -> tuple[RawOAuth, dict[str, Any]]:
    """A client that signs, connected; with its tokens."""
    publisher.publish_client(URL, **SIGNING)
    publisher.publish(KEYS, key_set(key))
    client = client_at(served)
    answer = tokens_for(served, browser_of(served), client, **assertion(served, key))
    assert answer.status == 200, answer.raw
    return client, answer.json


def test_keys_are_fetched_only_for_a_client_that_somebody_connected(served, publisher, key):
    publisher.publish_client(URL, **SIGNING)
    publisher.publish(KEYS, key_set(key))
    browser, client = browser_of(served), client_at(served)
    open_consent(browser, client)
    answer = client.exchange("cs_ac_" + "A" * 43, **assertion(served, key))

    assert (answer.status, answer.json["error"]) == (401, "invalid_client")
    assert publisher.asked == [URL]


def test_what_is_wrong_but_for_the_signature_costs_no_fetch(served, publisher, key):
    publisher.publish_client(URL, **SIGNING)
    publisher.publish(KEYS, key_set(key))
    client = client_at(served)
    code = client.code_from(browser_of(served))
    for bad in ({"aud": "https://evil.example"}, {"exp": 1}, {"jti": None}, {"iss": "x"}):
        assert client.exchange(code, **assertion(served, key, **bad)).status == 401

    assert publisher.asked == [URL]
    assert client.exchange(code, **assertion(served, key)).status == 200


def test_a_stranger_can_not_use_up_the_fetches_of_a_clients_keys(served, publisher, key, signing, monkeypatch):
    monkeypatch.setattr("auth.assertions.HOST_FACTOR", 1)
    client, _ = signing
    asked = len(publisher.asked)
    for _ in range(17):  # 15 in two hours would be too many
        served.clock.move(minutes=6)
        assert client.exchange("cs_ac_x", **assertion(served, new_key(kid="x"))).status == 401
    good = len(publisher.asked) - asked
    served.clock.move(minutes=6)
    with monkeypatch.context() as while_all_places_are_taken:
        while_all_places_are_taken.setattr(Fetcher, "fetch", raising(Unavailable))
        busy = {client.exchange("cs_ac_x", **assertion(served, key)).status for _ in range(6)}

    assert (good, busy) == (17, {503})
    assert tokens_for(served, browser_of(served), client, **assertion(served, key)).status == 200


def test_fetches_of_keys_in_vain_are_counted(served, publisher, key, signing, monkeypatch):
    monkeypatch.setattr("auth.assertions.HOST_FACTOR", 1)
    client, _ = signing
    publisher.publish(KEYS, {}, status="500 Down")
    served.clock.move(minutes=6)
    asked = len(publisher.asked)
    statuses = {client.exchange("cs_ac_x", **assertion(served, key)).status for _ in range(8)}

    assert statuses == {503}
    assert len(publisher.asked) == asked + 5


def test_a_key_that_was_changed_is_fetched_once_and_not_more_often_than_every_minute(served, publisher, key, signing):
    client, tokens = signing
    second, stranger = new_key(kid="two"), new_key(kid="three")
    publisher.publish(KEYS, key_set(second))
    served.clock.move(seconds=61)
    asked = len(publisher.asked)
    changed = client.refresh(tokens["refresh_token"], **assertion(served, second))
    after_change = len(publisher.asked)
    unknown = [client.refresh("x", **assertion(served, stranger)).status for _ in range(5)]
    old = client.refresh(tokens["refresh_token"], **assertion(served, key))

    assert changed.status == 200
    assert after_change == asked + 1
    assert unknown == [401] * 5
    assert old.status == 401
    assert len(publisher.asked) == after_change


def test_a_key_without_a_name_that_was_changed_is_found_too(served, publisher):
    first, second = new_key(kid=None), new_key(kid=None)
    publisher.publish_client(URL, **SIGNING)
    publisher.publish(KEYS, key_set(first))
    client = client_at(served)
    tokens = tokens_for(served, browser_of(served), client, **assertion(served, first)).json
    publisher.publish(KEYS, key_set(second))
    served.clock.move(seconds=61)

    assert client.refresh(tokens["refresh_token"], **assertion(served, second)).status == 200


def test_keys_inside_the_document_are_changed_with_it(served, publisher, key):
    publisher.publish_client(URL, token_endpoint_auth_method="private_key_jwt", jwks=key_set(key))
    client = client_at(served)
    tokens = tokens_for(served, browser_of(served), client, **assertion(served, key)).json
    second = new_key(kid="two")
    publisher.publish_client(URL, token_endpoint_auth_method="private_key_jwt", jwks=key_set(second))
    served.clock.move(seconds=61)

    assert client.refresh(tokens["refresh_token"], **assertion(served, second)).status == 200
    assert client.refresh(tokens["refresh_token"], **assertion(served, key)).status == 401


def test_while_keys_cannot_be_fetched_those_of_yesterday_serve_a_refresh_and_nothing_new(
    served, publisher, key, signing
):
    client, tokens = signing
    publisher.pages.pop(KEYS)
    browser = browser_of(served)
    served.clock.move(hours=2)
    code = client.code_from(browser)
    new = client.exchange(code, **assertion(served, key))
    refreshed = client.refresh(tokens["refresh_token"], **assertion(served, key))
    served.clock.move(hours=24)
    next_day = client.refresh(refreshed.json["refresh_token"], **assertion(served, key))

    assert (new.status, new.json["error"]) == (503, "temporarily_unavailable")
    assert refreshed.status == 200
    assert (next_day.status, next_day.json["error"]) == (503, "temporarily_unavailable")


def test_an_assertion_that_has_expired_leaves_no_record_after_a_while(served, signing, key):
    client, tokens = signing
    served.clock.move(minutes=10)
    client.refresh(tokens["refresh_token"], **assertion(served, key))

    assert len(rows(served, "SELECT digest FROM cs_replay")) == 1


def test_a_registered_client_still_connects_beside_documents(served):
    assert mcp_for(browser_of(served)).request("tools/list").status == 200


def test_keys_that_can_not_be_fetched_again_are_as_if_nothing_had_been_asked(served, publisher, key, signing):
    client, tokens = signing
    publisher.publish(KEYS, {}, status="500 Down")
    served.clock.move(seconds=61)
    asked = len(publisher.asked)
    unknown = [client.refresh("x", **assertion(served, new_key(kid="two"))).status for _ in range(3)]

    assert unknown == [401] * 3
    assert len(publisher.asked) == asked + 1
    assert client.refresh(tokens["refresh_token"], **assertion(served, key)).status == 200


def test_a_key_set_that_went_bad_is_not_taken(served, publisher, key, signing):
    client, tokens = signing
    publisher.publish(KEYS, {"keys": "none"})
    served.clock.move(minutes=10)
    answer = client.refresh(tokens["refresh_token"], **assertion(served, key))

    assert (answer.status, answer.json["error"]) == (503, "temporarily_unavailable")
