"""auth/grants.py by straight calls: a person's connections, and when a grant counts."""

from datetime import timedelta

import pytest
from sqlalchemy import insert

from auth.grants import Connection, NoRights, covers, granted_before
from auth.models import client, grant, operator, token
from core.clock import from_us
from core.errors import NotFound, ProofFailed
from flows.models import run
from policy.approval import Proof, ProofKind
from tests.auth.office import (
    ACCESS_TOKEN,
    ALICE_ID,
    APP,
    BOB_ID,
    GRANT,
    OTHER,
    READ,
    REFRESH_TOKEN,
    REFUND,
    RESOURCE,
    STOCK,
    Office,
)

NEWER, OLDER = "gr_" + "b" * 32, "gr_" + "0" * 32
INVOKE = "mcp:action:invoke"
NOT_IDS = ["", "gr_", GRANT[:-1], GRANT + "a", GRANT.upper(), "gr_" + "g" * 32, GRANT + "\n", "\x00", "xx_" + "a" * 32]
# What makes a grant of no use, in an office where its refresh token is its only one.
UNUSABLE = [
    pytest.param(grant, {"revoked_at": 1}, id="revoked"),
    pytest.param(grant, {"expires_at": 0}, id="over at this moment"),
    pytest.param(token, {"revoked_at": 1}, id="its token is taken back"),
    pytest.param(token, {"expires_at": 0}, id="its token is over at this moment"),
    pytest.param(token, {"grant_id": NEWER}, id="without a token"),
]


@pytest.fixture
def connections(office):
    office.add_token(REFRESH_TOKEN)
    return office.parts.connections


def proof_of(office: Office, operator_id: str = ALICE_ID) -> Proof:
    return Proof(operator_id, ProofKind.PASSWORD, office.clock.now())


def call(office: Office, at: int, grant_id: str = GRANT, operator_id: str = ALICE_ID) -> None:
    """Let a run be on record."""
    row = dict.fromkeys(column.name for column in run.columns) | {"id": f"run_{at}_{grant_id}", "flow_id": "f"}
    row |= {"flow_version": 1, "kind": "read", "status": "done", "surface": "mcp", "operator_id": operator_id}
    row |= {"client_id": APP, "grant_id": grant_id, "arguments": "{}", "started_at": at}
    with office.parts.database.write() as connection:
        connection.execute(insert(run), row)


def spoil(office: Office, table, values) -> None:
    office.change(table, **{name: office.now if value == 0 else value for name, value in values.items()})


def ids(found: list[Connection]) -> list[str]:
    return [one.grant_id for one in found]


# --- looking ------------------------------------------------------------------------------------------------------


def test_a_connection_is_shown_as_it_is_stored(office, connections):
    office.change(client, redirect_uris='["https://a.example/x", "https://a.example/y", "http://127.0.0.1:1/"]')
    office.change(grant, expires_at=office.after(days=1), version=3)
    office.change(operator, role="viewer")
    call(office, office.now - 9)
    call(office, office.now - 7)
    found = connections.get(ALICE_ID, GRANT)

    assert found == Connection(
        grant_id=GRANT,
        client_id=APP,
        client_name="The cl_app",
        client_kind="registered",
        hosts=("a.example", "127.0.0.1:1"),
        scopes=(READ, REFUND),
        effective=frozenset({READ}),
        version=3,
        created_at=from_us(office.now),
        expires_at=from_us(office.after(days=1)),
        last_call_at=from_us(office.now - 7),
    )
    assert connections.list(ALICE_ID) == [found]


def test_a_connection_without_an_end_that_never_called_says_so(office, connections):
    call(office, office.now, grant_id=NEWER)
    call(office, office.now, operator_id=BOB_ID)
    found = connections.get(ALICE_ID, GRANT)

    assert (found.expires_at, found.last_call_at) == (None, None)
    assert connections.list(ALICE_ID) == [found]


def test_each_connection_has_its_own_last_call(office, connections):
    office.add_grant(NEWER, created_at=office.now + 1)
    office.add_token(ACCESS_TOKEN, grant_id=NEWER)
    call(office, office.now - 9)
    call(office, office.now - 7, grant_id=NEWER)

    assert [one.last_call_at for one in connections.list(ALICE_ID)] == [
        from_us(office.now - 7),
        from_us(office.now - 9),
    ]
    assert connections.get(ALICE_ID, GRANT).last_call_at == from_us(office.now - 9)
    assert connections.get(ALICE_ID, NEWER).last_call_at == from_us(office.now - 7)


def test_the_newest_comes_first_and_of_two_the_one_with_the_greater_id(office, connections):
    for grant_id, at in ((NEWER, office.now), (OLDER, office.now + 1)):
        office.add_grant(grant_id, created_at=at)
        office.add_token(f"cs_at_{grant_id}", grant_id=grant_id)

    assert ids(connections.list(ALICE_ID)) == [OLDER, NEWER, GRANT]


def test_another_persons_connections_are_unknown(office, connections):
    office.add_operator(BOB_ID)

    assert connections.list(BOB_ID) == []
    with pytest.raises(NotFound):
        connections.get(BOB_ID, GRANT)


@pytest.mark.parametrize("grant_id", NOT_IDS)
def test_what_is_no_id_is_unknown(office, connections, grant_id):
    with pytest.raises(NotFound):
        connections.get(ALICE_ID, grant_id)
    with pytest.raises(NotFound):
        connections.change(ALICE_ID, grant_id, [READ], proof_of(office))
    with pytest.raises(NotFound):
        connections.revoke(ALICE_ID, grant_id)


@pytest.mark.parametrize(("table", "values"), [*UNUSABLE, pytest.param(client, {"removed_at": 1}, id="of no client")])
def test_what_gives_no_access_is_no_connection(office, connections, table, values):
    before = ids(connections.list(ALICE_ID))
    spoil(office, table, values)

    assert before == [GRANT]
    assert connections.list(ALICE_ID) == []
    with pytest.raises(NotFound):
        connections.get(ALICE_ID, GRANT)
    with pytest.raises(NotFound):
        connections.change(ALICE_ID, GRANT, [READ], proof_of(office))
    assert office.grant_row()["scopes"] == f"{READ} {REFUND}"


def test_a_connection_lasts_to_the_last_moment_of_its_grant_and_its_token(office, connections):
    office.change(grant, expires_at=office.now + 1)
    office.change(token, expires_at=office.now + 1)

    assert ids(connections.list(ALICE_ID)) == [GRANT]


def test_one_living_token_is_enough(office, connections):
    office.add_token(ACCESS_TOKEN, expires_at=office.now)

    assert ids(connections.list(ALICE_ID)) == [GRANT]


# --- changing -----------------------------------------------------------------------------------------------------


def test_rights_are_taken_and_given_and_the_change_is_on_record(office, connections):
    office.add_grant(NEWER)
    changed = connections.change(ALICE_ID, GRANT, [STOCK, READ], proof_of(office))

    assert (changed.scopes, changed.version) == ((READ, INVOKE, STOCK), 2)
    assert (office.grant_row()["scopes"], office.grant_row()["version"]) == (f"{READ} {INVOKE} {STOCK}", 2)
    assert (office.grant_row(NEWER)["scopes"], office.grant_row(NEWER)["version"]) == (f"{READ} {REFUND}", 1)
    detail = f'{{"added":["{INVOKE}","{STOCK}"],"removed":["{REFUND}"]}}'
    assert office.audit() == [("grant.changed", None, ALICE_ID, APP, GRANT, detail)]


def test_the_same_rights_in_another_order_are_no_change(office, connections):
    office.change(grant, scopes=f"{REFUND} {INVOKE} {READ}")
    connections.change(ALICE_ID, GRANT, [READ, INVOKE, REFUND], proof_of(office))

    assert (office.grant_row()["scopes"], office.grant_row()["version"]) == (f"{REFUND} {INVOKE} {READ}", 1)
    assert office.audit() == []


def test_what_the_role_cannot_hold_or_nobody_can_consent_to_is_left_out(office, connections):
    office.change(operator, role="viewer")
    changed = connections.change(
        ALICE_ID, GRANT, [READ, REFUND, "console:flows:invoke", "mcp:*", "x"], proof_of(office)
    )

    assert changed.scopes == (READ,)
    assert office.grant_row()["scopes"] == READ


@pytest.mark.parametrize("wanted", [[], ["x"], ["mcp:*"]])
def test_a_connection_without_a_right_is_none(office, connections, wanted):
    with pytest.raises(NoRights):
        connections.change(ALICE_ID, GRANT, wanted, proof_of(office))

    assert office.grant_row()["scopes"] == f"{READ} {REFUND}"
    assert office.audit() == []


def test_another_persons_proof_changes_nothing(office, connections):
    with pytest.raises(ProofFailed):
        connections.change(ALICE_ID, GRANT, [READ], proof_of(office, BOB_ID))

    assert office.grant_row()["version"] == 1


def test_another_persons_connection_is_not_changed(office, connections):
    office.add_operator(BOB_ID)
    office.add_grant(NEWER, operator_id=BOB_ID)
    office.add_token(ACCESS_TOKEN, grant_id=NEWER)
    with pytest.raises(NotFound):
        connections.change(BOB_ID, GRANT, [READ], proof_of(office, BOB_ID))

    assert [row["version"] for row in office.rows(grant)] == [1, 1]


# --- ending -------------------------------------------------------------------------------------------------------


def test_a_connection_ends_once_and_no_other_with_it(office, connections):
    office.add_grant(NEWER)
    connections.revoke(ALICE_ID, GRANT)
    ended_at = office.now
    office.clock.move(minutes=1)
    connections.revoke(ALICE_ID, GRANT)

    assert office.grant_row()["revoked_at"] == ended_at
    assert office.grant_row(NEWER)["revoked_at"] is None
    assert office.audit() == [("grant.revoked", None, ALICE_ID, APP, GRANT, None)]


def test_nobody_ends_another_persons_or_an_unknown_connection(office, connections):
    office.add_operator(BOB_ID)
    office.add_grant(NEWER, operator_id=BOB_ID)
    for grant_id in (GRANT, OLDER):
        with pytest.raises(NotFound):
            connections.revoke(BOB_ID, grant_id)

    assert [row["revoked_at"] for row in office.rows(grant)] == [None, None]
    assert office.audit() == []


# --- what was granted before --------------------------------------------------------------------------------------


def before(office: Office, operator_id: str = ALICE_ID, client_id: str = APP) -> frozenset[str]:
    with office.parts.database.read() as connection:
        return granted_before(connection, operator_id, client_id, office.now)


def covered(office: Office, *scopes: str, **replaced) -> bool:
    asked = {"operator_id": ALICE_ID, "client_id": APP, "redirect_host": "127.0.0.1:4711", "resource": RESOURCE}
    asked |= {"since": office.clock.now(), "now": office.clock.now()}
    with office.parts.database.read() as connection:
        return covers(connection, scopes, **asked | replaced)


def test_what_was_granted_before_is_of_all_living_grants_to_this_client(office, connections):
    office.add_grant(NEWER, scopes=STOCK)
    office.add_token(ACCESS_TOKEN, grant_id=NEWER)

    assert before(office) == {READ, REFUND, STOCK}
    assert before(office, operator_id=BOB_ID) == frozenset()
    assert before(office, client_id=OTHER) == frozenset()


@pytest.mark.parametrize(("table", "values"), UNUSABLE)
def test_what_gives_no_access_any_more_was_never_granted(office, connections, table, values):
    spoil(office, table, values)

    assert before(office) == frozenset()
    assert not covered(office, READ)


def test_a_grant_covers_what_it_holds_and_not_more(office, connections):
    assert covered(office, READ, REFUND)
    assert covered(office, REFUND)
    assert not covered(office, READ, STOCK)


def test_two_grants_together_cover_nothing_that_neither_holds(office, connections):
    office.add_grant(NEWER, scopes=STOCK)
    office.add_token(ACCESS_TOKEN, grant_id=NEWER)

    assert covered(office, STOCK)
    assert not covered(office, READ, STOCK)


@pytest.mark.parametrize(
    "replaced",
    [
        {"operator_id": BOB_ID},
        {"client_id": OTHER},
        {"redirect_host": "127.0.0.1:4712"},
        {"resource": "http://localhost:6535/other"},
    ],
)
def test_a_grant_covers_its_own_kind_alone(office, connections, replaced):
    assert not covered(office, READ, **replaced)


def test_a_grant_from_before_the_client_changed_covers_nothing(office, connections):
    assert covered(office, READ, since=office.clock.now())
    assert not covered(office, READ, since=office.clock.now() + timedelta(microseconds=1))
