"""auth/tokens.py by straight calls: what is stored, to the microsecond, and what is refused."""

from datetime import timedelta

import pytest
from authlib.oauth2.rfc6749 import InvalidGrantError
from sqlalchemy import delete

from auth.models import auth_code, client, grant, operator, token
from auth.tokens import MachineAccess, Rotated, StoredCode, StoredRefresh
from core.clock import from_us
from core.errors import TooMany
from core.ids import digest_of
from flows.caller import Role
from tests.auth.office import (
    ACCESS_TOKEN,
    ALICE_ID,
    APP,
    BOB_ID,
    CODE,
    GRANT,
    KEY,
    OTHER,
    READ,
    REDIRECT_URI,
    REFRESH_TOKEN,
    REFUND,
    RESOURCE,
    VERIFIER,
    Office,
)
from tests.support.oauth import challenge_of

GONE = "The refresh token is not valid any more."
ONCE_MORE = "cs_at_" + "b" * 43
OTHER_GRANT = "gr_" + "b" * 32
# Everything that a code or token hangs on; each ends it alone. `-1`: a moment before now, `0`: now.
ENDINGS = [
    pytest.param(grant, {"revoked_at": 1}, id="the grant is revoked"),
    pytest.param(grant, {"expires_at": 0}, id="the grant ends at this moment"),
    pytest.param(operator, {"disabled_at": 1}, id="the person is disabled"),
    pytest.param(client, {"removed_at": 1}, id="the client is removed"),
]


def end(office: Office, table, values) -> None:
    office.change(table, **{name: office.now if value == 0 else value for name, value in values.items()})


def presented(office: Office, raw: str = REFRESH_TOKEN) -> StoredRefresh:
    found = office.parts.tokens.find_refresh(raw, APP)
    assert found is not None
    return found


def rotate(office: Office, raw: str = REFRESH_TOKEN, narrowed_to=None, address=None) -> Rotated:
    return office.parts.tokens.rotate(presented(office, raw), raw, narrowed_to, address)


def refused(office: Office, found: StoredRefresh, raw: str = REFRESH_TOKEN) -> str:
    with pytest.raises(InvalidGrantError) as error:
        office.parts.tokens.rotate(found, raw, None, None)
    return str(error.value.description)


@pytest.fixture
def tokens(office):
    return office.parts.tokens


@pytest.fixture
def connected(office):
    office.add_token(REFRESH_TOKEN)
    office.add_token(ACCESS_TOKEN)
    return office


# --- reading ------------------------------------------------------------------------------------------------------


def test_new_tokens_say_what_they_are_and_are_never_the_same(tokens):
    access, refresh = tokens.new("access"), tokens.new("refresh")

    assert (access[:6], len(access), refresh[:6], len(refresh)) == ("cs_at_", 49, "cs_rt_", 49)
    assert access[6:] != refresh[6:]


def test_a_code_is_read_as_it_was_stored(office, tokens):
    office.change(grant, created_at=office.now - 5)
    office.add_code(used_at=office.now - 1)
    found = tokens.find_code(CODE)

    assert found == StoredCode(
        digest=digest_of(CODE),
        client_id=APP,
        grant_id=GRANT,
        operator_id=ALICE_ID,
        role=Role.OPERATOR,
        scopes=(READ, REFUND),
        resource=RESOURCE,
        redirect_uri=REDIRECT_URI,
        code_challenge=challenge_of(VERIFIER),
        granted_at=from_us(office.now - 5),
        expires_at=from_us(office.after(seconds=120)),
        used_at=from_us(office.now - 1),
    )
    assert (found.get_redirect_uri(), found.get_scope()) == (REDIRECT_URI, f"{READ} {REFUND}")


def test_a_code_is_unused_until_it_is_used(office, tokens):
    office.add_code()

    assert tokens.find_code(CODE).used_at is None


def test_an_unused_code_dies_of_age_at_its_moment_and_a_used_one_stays_known(office, tokens):
    office.add_code()
    office.clock.move(seconds=120, microseconds=-1)
    just_before = tokens.find_code(CODE)
    office.clock.move(microseconds=1)
    at_its_moment = tokens.find_code(CODE)
    office.change(auth_code, used_at=office.now)

    assert just_before is not None
    assert at_its_moment is None
    assert tokens.find_code(CODE) is not None  # so that a second use is noticed


def test_only_the_code_itself_is_found(office, tokens):
    office.add_code()

    assert tokens.find_code(CODE[:-1] + "d") is None
    assert tokens.find_code(digest_of(CODE)) is None
    assert tokens.find_code("") is None


@pytest.mark.parametrize(("table", "values"), ENDINGS)
def test_whatever_ends_ends_the_code(office, tokens, table, values):
    office.add_code()
    before = tokens.find_code(CODE)
    end(office, table, values)

    assert before is not None
    assert tokens.find_code(CODE) is None


@pytest.mark.parametrize(("table", "values"), ENDINGS)
def test_whatever_ends_ends_the_refresh_token(connected, tokens, table, values):
    before = tokens.find_refresh(REFRESH_TOKEN, APP)
    end(connected, table, values)

    assert before is not None
    assert tokens.find_refresh(REFRESH_TOKEN, APP) is None


@pytest.mark.parametrize(("table", "values"), ENDINGS)
def test_whatever_ends_ends_the_access_of_a_machine(office, tokens, table, values):
    office.change(operator, kind="machine")
    before = tokens.find_machine_access(APP)
    end(office, table, values)

    assert before is not None
    assert tokens.find_machine_access(APP) is None


def test_a_grant_lives_until_the_moment_at_which_it_ends(connected, tokens):
    connected.change(grant, expires_at=connected.now + 1)

    assert tokens.find_refresh(REFRESH_TOKEN, APP) is not None


def test_a_refresh_token_is_read_as_it_was_stored(office, tokens):
    office.change(grant, created_at=office.now - 5)
    office.add_token(REFRESH_TOKEN, generation=7, rotated_at=office.now - 1)

    assert tokens.find_refresh(REFRESH_TOKEN, APP) == StoredRefresh(
        digest=digest_of(REFRESH_TOKEN),
        client_id=APP,
        grant_id=GRANT,
        operator_id=ALICE_ID,
        role=Role.OPERATOR,
        scopes=(READ, REFUND),
        resource=RESOURCE,
        generation=7,
        granted_at=from_us(office.now - 5),
        rotated_at=from_us(office.now - 1),
    )


def test_a_refresh_token_is_its_clients_alone_and_no_access_token_is_one(connected, tokens):
    found = tokens.find_refresh(REFRESH_TOKEN, APP)

    assert found.rotated_at is None
    assert found.check_client(object()) is True
    assert tokens.find_refresh(REFRESH_TOKEN, OTHER) is None
    assert tokens.find_refresh(ACCESS_TOKEN, APP) is None


def test_a_refresh_token_dies_of_age_at_its_moment_and_when_it_is_revoked(connected, tokens):
    connected.change(token, expires_at=connected.now + 1)
    just_before = tokens.find_refresh(REFRESH_TOKEN, APP)
    connected.change(token, expires_at=connected.now)
    at_its_moment = tokens.find_refresh(REFRESH_TOKEN, APP)
    connected.change(token, expires_at=connected.after(days=1), revoked_at=connected.now)

    assert just_before is not None
    assert at_its_moment is None
    assert tokens.find_refresh(REFRESH_TOKEN, APP) is None


def test_the_access_of_a_machine_is_read_as_it_was_stored(office, tokens):
    office.change(operator, kind="machine", role="viewer")
    office.change(grant, created_at=office.now - 5)

    assert tokens.find_machine_access(OTHER) is None
    assert tokens.find_machine_access(APP) == MachineAccess(
        client_id=APP,
        grant_id=GRANT,
        operator_id=ALICE_ID,
        role=Role.VIEWER,
        scopes=(READ, REFUND),
        resource=RESOURCE,
        granted_at=from_us(office.now - 5),
    )


def test_a_person_is_no_machine(office, tokens):
    assert tokens.find_machine_access(APP) is None


# --- a code becomes tokens ----------------------------------------------------------------------------------------


def test_a_code_is_spent_and_its_tokens_stored_as_digests(office, tokens):
    office.add_code()
    tokens.redeem(tokens.find_code(CODE), {"access_token": ACCESS_TOKEN, "refresh_token": REFRESH_TOKEN})

    [code] = office.rows(auth_code)
    common = {"grant_id": GRANT, "generation": 1, "issued_at": office.now, "narrowed_to": None}
    common |= {"rotated_at": None, "rotated_by": None, "revoked_at": None}
    assert code["used_at"] == office.now
    assert office.token_row(ACCESS_TOKEN) == common | {
        "digest": digest_of(ACCESS_TOKEN), "kind": "access", "expires_at": office.after(hours=1)
    }  # fmt: skip
    assert office.token_row(REFRESH_TOKEN) == common | {
        "digest": digest_of(REFRESH_TOKEN), "kind": "refresh", "expires_at": office.after(days=30)
    }  # fmt: skip
    assert office.events() == [(APP, "token", "The code became tokens.", None, ALICE_ID, GRANT)]


def test_a_client_without_refresh_gets_an_access_token_alone(office, tokens):
    office.add_code()
    tokens.redeem(tokens.find_code(CODE), {"access_token": ACCESS_TOKEN})

    assert [row["kind"] for row in office.rows(token)] == ["access"]


@pytest.mark.parametrize("spoilt", [{"used_at": 5}, {"expires_at": 0}])
def test_a_code_that_was_spent_or_died_meanwhile_gives_nothing(office, tokens, spoilt):
    office.add_code()
    office.add_code(code="cs_ac_another", used_at=None)
    found = tokens.find_code(CODE)
    end(office, auth_code, spoilt)
    with pytest.raises(InvalidGrantError) as error:
        tokens.redeem(found, {"access_token": ACCESS_TOKEN, "refresh_token": REFRESH_TOKEN})

    assert error.value.description == "The code was used already."
    assert (office.rows(token), office.events()) == ([], [])


def test_spending_one_code_spends_no_other(office, tokens):
    office.add_code()
    office.add_code(code="cs_ac_another")
    tokens.redeem(tokens.find_code(CODE), {"access_token": ACCESS_TOKEN})

    assert tokens.find_code("cs_ac_another").used_at is None


def test_no_refresh_token_lives_beyond_the_longest_life_of_its_family(office, tokens):
    office.change(grant, created_at=office.after(days=-70))
    office.add_code()
    tokens.redeem(tokens.find_code(CODE), {"access_token": ACCESS_TOKEN, "refresh_token": REFRESH_TOKEN})

    assert office.token_row(REFRESH_TOKEN)["expires_at"] == office.after(days=20)


# --- a refresh token is replaced ----------------------------------------------------------------------------------


def test_a_refresh_token_is_replaced_and_what_it_gives_is_stored(connected):
    connected.clock.move(minutes=5)
    given = rotate(connected, narrowed_to=READ, address="192.0.2.1")

    assert (given.expires_in, repr(given)) == (3600, "Rotated")
    assert (given.access_token[:6], given.refresh_token[:6]) == ("cs_at_", "cs_rt_")
    access, successor = connected.token_row(given.access_token), connected.token_row(given.refresh_token)
    assert (access["kind"], access["generation"], access["narrowed_to"]) == ("access", 2, READ)
    assert (access["grant_id"], access["expires_at"]) == (GRANT, connected.after(hours=1))
    assert (successor["kind"], successor["generation"], successor["narrowed_to"]) == ("refresh", 2, None)
    assert (successor["grant_id"], successor["rotated_at"]) == (GRANT, None)
    old = connected.token_row(REFRESH_TOKEN)
    assert (old["rotated_at"], len(old["rotated_by"])) == (connected.now, 64)
    assert connected.events() == [(APP, "refresh", "The refresh token was replaced.", None, ALICE_ID, GRANT)]
    assert connected.token_row(ACCESS_TOKEN)["rotated_at"] is None


def test_a_successor_slides_but_not_beyond_the_longest_life_of_its_family(connected):
    connected.change(grant, created_at=connected.after(days=-70))
    first = rotate(connected)

    assert connected.token_row(first.refresh_token)["expires_at"] == connected.after(days=20)


def test_what_a_refresh_gives_depends_on_the_presented_token_and_the_key(connected, tmp_path):
    one = rotate(connected)
    another = rotate(connected, one.refresh_token)
    house = tmp_path / "another"
    house.mkdir()
    elsewhere = Office(house, keys=("q" * 40,))
    elsewhere.open()
    elsewhere.add_token(REFRESH_TOKEN)
    foreign = rotate(elsewhere)
    elsewhere.close()

    assert len({one.refresh_token, another.refresh_token, foreign.refresh_token, REFRESH_TOKEN}) == 4
    assert len({one.access_token[6:], another.access_token[6:], foreign.access_token[6:], one.refresh_token[6:]}) == 4


def test_a_repeat_to_the_last_moment_of_the_grace_gets_the_same_successor_and_its_own_access_token(connected):
    found = presented(connected)
    first = rotate(connected)
    connected.clock.move(seconds=60)
    again = connected.parts.tokens.rotate(found, REFRESH_TOKEN, READ, None)

    assert again.refresh_token == first.refresh_token
    assert again.access_token != first.access_token
    assert (again.expires_in, connected.token_row(again.access_token)["narrowed_to"]) == (3600, READ)
    assert connected.token_row(again.access_token)["generation"] == 2
    assert len(connected.rows(token)) == 5  # two of before, three of now: one successor
    assert connected.events() == [(APP, "refresh", "The refresh token was replaced.", None, ALICE_ID, GRANT)]
    assert connected.audit() == []


def test_a_repeat_after_the_grace_gives_nothing(connected):
    found = presented(connected)
    rotate(connected)
    connected.clock.move(seconds=60, microseconds=1)

    assert refused(connected, found) == GONE
    assert len(connected.rows(token)) == 4


def test_a_token_that_was_revoked_or_deleted_meanwhile_gives_nothing(connected):
    found = presented(connected)
    connected.change(token, revoked_at=connected.now)
    after_revocation = refused(connected, found)
    with connected.parts.database.write() as connection:
        connection.execute(delete(token))

    assert after_revocation == GONE
    assert refused(connected, found) == GONE
    assert connected.rows(token) == []


def test_a_repeat_finds_the_successor_whichever_key_is_the_current_one(connected, tmp_path):
    first = rotate(connected)
    renewed = Office(tmp_path, keys=("n" * 40, KEY), clock=connected.clock)
    again = rotate(renewed)
    renewed.close()

    assert again.refresh_token == first.refresh_token
    assert again.access_token != first.access_token


def test_a_repeat_after_its_key_was_taken_away_gives_nothing(connected, tmp_path):
    rotate(connected)
    forgetful = Office(tmp_path, keys=("n" * 40,), clock=connected.clock)

    assert refused(forgetful, presented(forgetful)) == GONE
    forgetful.close()


def test_a_repeat_finds_no_successor_in_another_family(connected):
    found = presented(connected)
    first = rotate(connected)
    connected.change(token, grant_id=OTHER_GRANT)

    assert first.refresh_token
    assert refused(connected, found) == GONE


def test_a_repeat_finds_no_successor_in_another_generation(connected):
    found = presented(connected)
    rotate(connected)
    connected.change(token, generation=9)

    assert refused(connected, found) == GONE


def test_the_eleventh_repeat_gets_the_newest_of_the_ten(connected):
    given = []
    for _ in range(10):
        given.append(rotate(connected).access_token)
        connected.clock.move(seconds=2)
    eleventh = rotate(connected)

    assert len(set(given)) == 10
    assert eleventh.access_token == given[-1]
    assert eleventh.expires_in == 3600 - 2
    assert len([row for row in connected.rows(token) if row["generation"] == 2]) == 11  # ten, and the one successor


def test_tokens_of_other_generations_and_families_count_for_no_limit(connected):
    for number in range(12):
        connected.add_token(f"cs_at_{number:043d}", generation=1)
        connected.add_token(f"cs_at_{number + 20:043d}", generation=2, grant_id=OTHER_GRANT)
    first, again = rotate(connected), rotate(connected)

    assert again.access_token != first.access_token


@pytest.fixture
def ten(connected):
    """Ten access tokens of one generation, each a second younger than the one before."""
    given = []
    for _ in range(10):
        given.append(rotate(connected))
        connected.clock.move(seconds=1)
    return connected, given


def test_a_repeat_gets_none_that_was_taken_back(ten):
    office, given = ten
    office.parts.tokens.revoke(given[9].access_token, APP)

    assert rotate(office).access_token == given[8].access_token


def test_a_repeat_gets_none_of_another_narrowing(ten):
    office, given = ten
    with pytest.raises(TooMany) as error:
        rotate(office, narrowed_to=READ)

    assert (error.value.public, error.value.retry_after) == ("This refresh token was repeated too often.", 30)
    assert given[9].access_token


def test_a_repeat_gets_none_that_has_died(ten):
    office, _ = ten
    office.change(token, expires_at=office.now)
    with pytest.raises(TooMany):
        office.parts.tokens.rotate(_unexpired(office), REFRESH_TOKEN, None, None)


def test_a_repeat_gets_one_that_lives_for_another_second(ten):
    office, given = ten
    office.change(token, expires_at=office.now + 1_000_000)
    again = rotate(office)

    assert (again.access_token, again.expires_in) == (given[9].access_token, 1)


def _unexpired(office: Office) -> StoredRefresh:
    found = StoredRefresh(
        digest=digest_of(REFRESH_TOKEN),
        client_id=APP,
        grant_id=GRANT,
        operator_id=ALICE_ID,
        role=Role.OPERATOR,
        scopes=(READ,),
        resource=RESOURCE,
        generation=1,
        granted_at=office.clock.now(),
        rotated_at=None,
    )
    assert office.parts.tokens.find_refresh(REFRESH_TOKEN, APP) is None
    return found


@pytest.mark.parametrize(
    ("first", "second", "is_noted"),
    [
        ("192.0.2.1", "192.0.2.2", True),
        ("192.0.2.1", "192.0.2.1", False),
        ("192.0.2.1", "127.0.0.1", False),  # what comes from this machine tells nothing
        ("127.0.0.1", "192.0.2.1", False),
        ("192.0.2.1", None, False),
        (None, "192.0.2.1", False),
    ],
)
def test_a_repeat_from_another_address_is_on_record(connected, first, second, is_noted):
    rotate(connected, address=first)
    before = connected.events()
    rotate(connected, address=second)

    sentence = "A replaced refresh token was repeated from another network address."
    noted = [(APP, "refresh", sentence, "other_address", ALICE_ID, GRANT)] if is_noted else []
    assert connected.events()[len(before) :] == noted
    audited = [("token.repeated", "other_address", ALICE_ID, APP, GRANT, None)] if is_noted else []
    assert connected.audit() == audited


def test_the_grace_lasts_to_its_last_microsecond(office, tokens):
    span = timedelta(seconds=60) // timedelta(microseconds=1)

    assert tokens.in_grace(None) is True
    assert tokens.in_grace(office.now - span) is True
    assert tokens.in_grace(office.now - span - 1) is False


# --- a machine ----------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(office):
    office.change(operator, kind="machine")
    return office


def test_a_machine_gets_an_access_token_that_is_stored(machine, tokens):
    seconds = tokens.give_to_machine(tokens.find_machine_access(APP), ACCESS_TOKEN, READ)

    assert seconds == 3600
    row = machine.token_row(ACCESS_TOKEN)
    assert (row["kind"], row["generation"], row["narrowed_to"], row["grant_id"]) == ("access", 1, READ, GRANT)
    assert row["expires_at"] == machine.after(hours=1)
    assert machine.events() == [(APP, "token", "The machine got a token.", None, ALICE_ID, GRANT)]


def test_a_machine_whose_grant_ended_meanwhile_gets_nothing(machine, tokens):
    access = tokens.find_machine_access(APP)
    machine.add_grant(OTHER_GRANT)  # which lives
    tokens.end_family(GRANT, "code_reused")
    with pytest.raises(InvalidGrantError) as error:
        tokens.give_to_machine(access, ACCESS_TOKEN, None)

    assert error.value.description == "The access of this client has ended."
    assert machine.rows(token) == []


def test_a_machine_holds_a_hundred_tokens_that_live_and_dead_or_others_do_not_count(machine, tokens):
    access = tokens.find_machine_access(APP)
    for number in range(99):
        machine.add_token(f"cs_at_{number:043d}")
    machine.add_token("cs_at_" + "d" * 43, expires_at=machine.now)
    machine.add_token("cs_at_" + "e" * 43, grant_id=OTHER_GRANT)
    tokens.give_to_machine(access, ACCESS_TOKEN, None)
    with pytest.raises(TooMany) as error:
        tokens.give_to_machine(access, ONCE_MORE, None)

    assert error.value.public == "This client has a hundred tokens that live. Use one of them."
    assert error.value.retry_after == 60
    assert len(machine.rows(token)) == 102


# --- taking back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("code_reused", "A code was used a second time; the connection that it made is ended."),
        (
            "refresh_token_reused",
            "A replaced refresh token was used again after its grace; the connection is ended.",
        ),
    ],
)
def test_a_family_ends_once_and_no_other_with_it(connected, tokens, code, sentence):
    connected.add_grant(OTHER_GRANT)
    tokens.end_family(GRANT, code)
    ended_at = connected.now
    connected.clock.move(minutes=1)
    tokens.end_family(GRANT, code)

    assert connected.grant_row()["revoked_at"] == ended_at
    assert connected.grant_row(OTHER_GRANT)["revoked_at"] is None
    assert connected.events() == [(APP, "token", sentence, code, ALICE_ID, GRANT)]
    assert connected.audit() == [("token.reused", code, ALICE_ID, APP, GRANT, None)]


def test_ending_an_unknown_family_is_no_event(connected, tokens):
    tokens.end_family(OTHER_GRANT, "code_reused")

    assert connected.grant_row()["revoked_at"] is None
    assert (connected.events(), connected.audit()) == ([], [])


def test_a_client_takes_back_one_access_token_once(connected, tokens):
    connected.add_token(ONCE_MORE)
    tokens.revoke(ACCESS_TOKEN, APP)
    taken_at = connected.now
    connected.clock.move(minutes=1)
    tokens.revoke(ACCESS_TOKEN, APP)

    assert connected.token_row(ACCESS_TOKEN)["revoked_at"] == taken_at
    assert connected.token_row(ONCE_MORE)["revoked_at"] is None
    assert connected.token_row(REFRESH_TOKEN)["revoked_at"] is None
    assert connected.grant_row()["revoked_at"] is None
    assert connected.events() == [(APP, "revoke", "It took back an access token.", None, ALICE_ID, GRANT)]
    assert connected.audit() == []


def test_a_client_that_takes_back_its_refresh_token_ends_its_connection_once(connected, tokens):
    connected.add_grant(OTHER_GRANT)
    tokens.revoke(REFRESH_TOKEN, APP)
    ended_at = connected.now
    connected.clock.move(minutes=1)
    tokens.revoke(REFRESH_TOKEN, APP)

    assert connected.grant_row()["revoked_at"] == ended_at
    assert connected.grant_row(OTHER_GRANT)["revoked_at"] is None
    assert connected.events() == [(APP, "revoke", "It ended its connection.", None, ALICE_ID, GRANT)]
    assert connected.audit() == [("grant.revoked", "by_client", ALICE_ID, APP, GRANT, None)]


@pytest.mark.parametrize("raw", [ACCESS_TOKEN, REFRESH_TOKEN])
def test_nobody_takes_back_the_token_of_another_client(connected, tokens, raw):
    connected.add_operator(BOB_ID)
    connected.add_grant(OTHER_GRANT, client_id=OTHER, operator_id=BOB_ID)
    tokens.revoke(raw, OTHER)

    assert connected.token_row(raw)["revoked_at"] is None
    assert [row["revoked_at"] for row in connected.rows(grant)] == [None, None]
    assert (connected.events(), connected.audit()) == ([], [])


def test_taking_back_what_is_unknown_is_no_event(connected, tokens):
    tokens.revoke("cs_rt_unknown", APP)

    assert connected.grant_row()["revoked_at"] is None
    assert connected.events() == []
