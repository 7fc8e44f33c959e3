"""auth/grant_types.py at the token endpoint, without a network: who gets what for a code or a refresh token."""

import pytest

from auth.grant_types import Reused, TokenAnswer
from auth.models import auth_code, client, grant, operator, token
from tests.auth.office import (
    ACCESS_TOKEN,
    ALICE_ID,
    APP,
    CODE,
    GRANT,
    OTHER,
    READ,
    REDIRECT_URI,
    REFRESH_TOKEN,
    REFUND,
    STOCK,
)

USED_BEFORE = "This was used already; what it gave is taken back."
LEAKED = (400, {"error": "invalid_grant", "error_description": USED_BEFORE})
ELSEWHERE = "http://localhost:6535/elsewhere"


def is_ended(office) -> bool:
    return office.grant_row()["revoked_at"] is not None


@pytest.fixture
def held(office):
    """With a code and a refresh token of Alice's program."""
    office.add_code()
    office.add_token(REFRESH_TOKEN)
    return office


def test_an_answer_shows_no_token_of_itself():
    answer = TokenAnswer(access_token=ACCESS_TOKEN, scope=READ)

    assert repr(answer) == str(answer) == "TokenAnswer"
    assert answer == {"access_token": ACCESS_TOKEN, "scope": READ}


def test_a_reuse_says_what_it_ends():
    reused = Reused(GRANT, "code_reused")

    assert (reused.error, reused.description, reused.grant_id, reused.code) == (
        "invalid_grant",
        USED_BEFORE,
        GRANT,
        "code_reused",
    )


# --- codes --------------------------------------------------------------------------------------------------------


def test_a_code_becomes_tokens_that_are_stored(office):
    office.add_code()
    status, answer = office.redeem()

    assert (status, set(answer)) == (200, {"access_token", "refresh_token", "token_type", "expires_in", "scope"})
    assert (answer["token_type"], answer["expires_in"], answer["scope"]) == ("Bearer", 3600, f"{READ} {REFUND}")
    assert office.token_row(answer["access_token"])["kind"] == "access"
    assert office.token_row(answer["refresh_token"])["kind"] == "refresh"
    assert office.rows(auth_code)[0]["used_at"] == office.now


def test_the_answer_says_what_counts_under_the_role(office):
    office.change(operator, role="viewer")
    office.add_code()

    assert office.redeem()[1]["scope"] == READ


def test_a_client_that_registered_no_refresh_gets_no_refresh_token(office):
    office.change(client, registration='{"grant_types": ["authorization_code"]}')
    office.add_code()

    assert "refresh_token" not in office.redeem()[1]
    assert [row["kind"] for row in office.rows(token)] == ["access"]


def test_a_code_of_another_base_url_gives_nothing_and_stays(office):
    office.change(grant, resource=ELSEWHERE)
    office.add_code()
    refused = office.redeem()
    office.change(auth_code, used_at=office.now)
    office.clock.move(minutes=1)

    assert (refused[0], refused[1]["error"]) == (400, "invalid_grant")
    assert office.redeem()[1]["error"] == "invalid_grant"
    assert not is_ended(office)
    assert office.rows(token) == []


@pytest.mark.parametrize("wrong", [{"code_verifier": "w" * 43}, {"redirect_uri": REDIRECT_URI + "x"}])
def test_a_wrong_verifier_or_redirect_spends_no_unused_code(office, wrong):
    office.add_code()
    refused = office.redeem(**wrong)

    assert (refused[0], refused[1]["error"]) == (400, "invalid_grant")
    assert not is_ended(office)
    assert office.redeem()[0] == 200


@pytest.mark.parametrize("seconds", [0, 9, 10])
def test_an_innocent_repeat_of_a_code_ends_nothing(office, seconds):
    office.add_code()
    office.redeem()
    office.clock.move(seconds=seconds)

    assert office.redeem() == (400, {"error": "invalid_grant", "error_description": "The code was used already."})
    assert not is_ended(office)


def test_a_later_repeat_of_a_code_ends_what_it_gave(office):
    office.add_code()
    office.redeem()
    office.clock.move(seconds=10, microseconds=1)

    assert office.redeem() == LEAKED
    assert is_ended(office)
    assert ("token.reused", "code_reused", ALICE_ID, APP, GRANT, None) in office.audit()


@pytest.mark.parametrize("wrong", [{"redirect_uri": REDIRECT_URI + "x"}, {"redirect_uri": None}])
def test_a_repeat_with_a_wrong_redirect_is_never_innocent(office, wrong):
    office.add_code()
    office.redeem()

    assert office.redeem(**wrong) == LEAKED
    assert is_ended(office)


@pytest.mark.parametrize("wrong", [{"code_verifier": "w" * 43}, {"code_verifier": None}])
def test_a_repeat_with_a_wrong_verifier_is_never_innocent(office, wrong):
    office.add_code()
    office.redeem()

    assert office.redeem(**wrong) == LEAKED
    assert is_ended(office)


def test_another_clients_use_of_a_spent_code_ends_what_it_gave(office):
    office.add_code()
    office.redeem()

    assert office.redeem(client_id=OTHER) == LEAKED
    assert is_ended(office)
    assert ("token.reused", "code_reused", ALICE_ID, APP, GRANT, None) in office.audit()


def test_another_clients_use_of_an_unspent_code_leaves_it_to_its_owner(office):
    office.add_code()
    refused = office.redeem(client_id=OTHER)

    assert (refused[0], refused[1]["error"]) == (400, "invalid_grant")
    assert not is_ended(office)
    assert office.redeem()[0] == 200


@pytest.mark.parametrize("code", ["", "cs_ac_unknown", ACCESS_TOKEN, REFRESH_TOKEN])
def test_what_is_no_code_gives_nothing(held, code):
    status, answer = held.redeem(code)

    assert (status, answer["error"]) == (400, "invalid_grant")
    assert not is_ended(held)


# --- refresh tokens -----------------------------------------------------------------------------------------------


def test_a_refresh_replaces_its_token(held):
    status, answer = held.refresh()

    assert (status, set(answer)) == (200, {"access_token", "refresh_token", "token_type", "expires_in", "scope"})
    assert (answer["token_type"], answer["expires_in"], answer["scope"]) == ("Bearer", 3600, f"{READ} {REFUND}")
    assert answer["refresh_token"] != REFRESH_TOKEN
    access = held.token_row(answer["access_token"])
    assert (access["kind"], access["generation"], access["narrowed_to"]) == ("access", 2, None)
    assert held.token_row(answer["refresh_token"])["generation"] == 2
    assert held.token_row(REFRESH_TOKEN)["rotated_at"] == held.now


def test_a_refresh_says_what_counts_under_the_role(held):
    held.change(operator, role="viewer")

    assert held.refresh()[1]["scope"] == READ


def test_the_answer_to_the_eleventh_repeat_says_how_long_its_token_lives(held):
    answers = []
    for _ in range(10):
        answers.append(held.refresh()[1])
        held.clock.move(seconds=1)
    eleventh = held.refresh()[1]

    assert eleventh["access_token"] == answers[-1]["access_token"]
    assert (answers[-1]["expires_in"], eleventh["expires_in"]) == (3600, 3599)


def test_a_repeat_in_the_grace_gets_the_same_successor(held):
    first = held.refresh()[1]
    held.clock.move(seconds=60)
    status, again = held.refresh()

    assert (status, again["refresh_token"]) == (200, first["refresh_token"])
    assert again["access_token"] != first["access_token"]


def test_a_repeat_after_the_grace_ends_the_family(held):
    held.refresh()
    held.clock.move(seconds=60, microseconds=1)

    assert held.refresh() == LEAKED
    assert is_ended(held)
    assert ("token.reused", "refresh_token_reused", ALICE_ID, APP, GRANT, None) in held.audit()


def test_a_repeat_from_another_address_is_on_record(held):
    held.refresh()
    held.refresh(address="192.0.2.2")

    assert [event[3] for event in held.events()] == [None, "other_address"]


def test_a_refresh_token_of_another_base_url_gives_nothing(held):
    held.change(grant, resource=ELSEWHERE)
    fresh = held.refresh()
    held.change(token, rotated_at=1)

    assert (fresh[0], fresh[1]["error"]) == (400, "invalid_grant")
    assert held.refresh()[1]["error"] == "invalid_grant"
    assert not is_ended(held)


@pytest.mark.parametrize("rotated_at", [None, 1])
def test_another_clients_refresh_token_gives_nothing_and_ends_nothing(held, rotated_at):
    held.change(token, rotated_at=rotated_at)
    status, answer = held.refresh(client_id=OTHER)

    assert (status, answer["error"]) == (400, "invalid_grant")
    assert not is_ended(held)
    assert held.token_row(REFRESH_TOKEN)["rotated_at"] == rotated_at


@pytest.mark.parametrize(
    ("scope", "narrowed_to", "said"),
    [
        (READ, READ, READ),
        (f"{READ} offline_access", READ, READ),
        (f"{READ} {READ}", READ, READ),
        (REFUND, REFUND, REFUND),
        (f"{READ} {REFUND}", None, f"{READ} {REFUND}"),
        (f"{REFUND} {READ} offline_access", None, f"{READ} {REFUND}"),
        ("offline_access", None, f"{READ} {REFUND}"),
        ("", None, f"{READ} {REFUND}"),
    ],
)
def test_a_refresh_narrows_its_access_token_alone(held, scope, narrowed_to, said):
    status, answer = held.refresh(scope=scope)

    assert (status, answer["scope"]) == (200, said)
    assert held.token_row(answer["access_token"])["narrowed_to"] == narrowed_to
    assert held.token_row(answer["refresh_token"])["narrowed_to"] is None
    assert held.grant_row()["scopes"] == f"{READ} {REFUND}"


def test_narrowing_to_several_is_written_in_one_order(held):
    held.change(grant, scopes=f"{STOCK} {REFUND} {READ}")
    answer = held.refresh(scope=f"{STOCK} {READ}")[1]

    assert held.token_row(answer["access_token"])["narrowed_to"] == f"{READ} {STOCK}"


@pytest.mark.parametrize("scope", [STOCK, f"{READ} {STOCK}", f"{READ} {REFUND} {STOCK}", "x"])
def test_a_refresh_never_widens_and_a_refusal_spends_nothing(held, scope):
    refused = held.refresh(scope=scope)

    assert refused == (
        400,
        {"error": "invalid_scope", "error_description": "The scope is more than was granted."},
    )
    assert held.token_row(REFRESH_TOKEN)["rotated_at"] is None
    assert held.refresh()[0] == 200


@pytest.mark.parametrize("raw", ["cs_rt_unknown", "", ACCESS_TOKEN, CODE])
def test_what_is_no_refresh_token_gives_nothing(held, raw):
    held.add_token(ACCESS_TOKEN)
    status, answer = held.refresh(raw)

    assert (status, answer["error"]) == (400, "invalid_grant")
    assert not is_ended(held)
