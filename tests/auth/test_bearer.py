"""auth/bearer.py: everything that a token depends on counts at each call."""

from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from auth.bearer import Challenge
from auth.models import grant, operator, token
from flows.caller import Caller, Role, Surface
from flows.envelope import Refusal
from policy.principal import Principal
from tests.auth.office import ACCESS_TOKEN, ALICE_ID, APP, GRANT, READ, REFRESH_TOKEN, REFUND, STOCK, Office
from tests.support.browser import FormBrowser
from tests.support.oauth import token_for
from tests.support.raw_mcp import RawAnswer, RawMcp
from tests.support.server import ALICE

ADJUST = "stock_adjust"


@pytest.fixture
def alice(served):
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    return browser


@contextmanager
def database(served):
    engine = create_engine(served.instance.database_url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def change(served, statement: str) -> None:
    with database(served) as connection:
        connection.execute(text(statement))


def list_tools(served, token: str) -> RawAnswer:
    return RawMcp(f"{served.base_url}/mcp", token).request("tools/list")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cs_token SET revoked_at = 1",
        "UPDATE cs_token SET expires_at = 1",
        "UPDATE cs_token SET kind = 'refresh'",
        "UPDATE cs_grant SET revoked_at = 1",
        "UPDATE cs_grant SET expires_at = 1",
        "UPDATE cs_grant SET resource = 'https://other.example/mcp'",
        "UPDATE cs_operator SET disabled_at = 1",
        "UPDATE cs_client SET removed_at = 1",
        "DELETE FROM cs_grant",
        "DELETE FROM cs_operator",
        "DELETE FROM cs_client",
    ],
)
def test_whatever_ends_ends_the_token_at_the_next_call(served, alice, statement):
    token = token_for(alice)["access_token"]
    before = list_tools(served, token).status
    change(served, statement)
    after = list_tools(served, token)

    assert (before, after.status) == (200, 401)
    assert 'error="invalid_token"' in after.headers["www-authenticate"]


def test_a_smaller_role_counts_at_the_next_call(served, alice):
    token = token_for(alice, tick=("stock:adjust",))["access_token"]
    mcp = RawMcp(f"{served.base_url}/mcp", token)
    before = mcp.call(ADJUST, {})
    change(served, "UPDATE cs_operator SET role = 'viewer'")
    after = mcp.call(ADJUST, {})

    assert before.data["refusal"]["code"] == "invalid_arguments"  # scopes come before arguments
    assert after.data["refusal"]["code"] != "invalid_arguments"
    # A viewer could never be given it, so no challenge asks for it (design D9).
    assert (after.status, after.result["isError"]) == (200, True)


def test_a_clock_that_went_back_gives_no_token_a_longer_life(served, alice):
    token = token_for(alice)["access_token"]
    served.clock.move(seconds=-60)
    a_little = list_tools(served, token).status
    served.clock.move(minutes=-10)

    assert a_little == 200  # two workers may differ
    assert list_tools(served, token).status == 401


def test_a_token_for_another_base_url_is_not_for_us(served_factory, alice, served):
    token = token_for(alice)["access_token"]
    with database(served) as connection:
        [resource] = connection.execute(text("SELECT resource FROM cs_grant")).scalars()
    moved = served_factory(COUNTERSIGN_DATABASE_URL=served.instance.database_url)

    assert resource == f"{served.base_url}/mcp"
    assert list_tools(moved, token).status == 401


# --- by straight calls --------------------------------------------------------------------------------------------

SCOPE = " ".join(sorted(("mcp:manifest:read", "mcp:schema:read", "mcp:effects:read", "mcp:traces:read", READ)))
METADATA = 'resource_metadata="http://localhost:6535/.well-known/oauth-protected-resource/mcp"'
MISSING = Challenge(
    401,
    f'Bearer {METADATA}, scope="{SCOPE}"',
    {"error": "unauthorized", "error_description": "A bearer token of this server is needed."},
)
INVALID = Challenge(
    401,
    f'Bearer error="invalid_token", error_description="The token is unknown, expired or taken back.", {METADATA}, '
    f'scope="{SCOPE}"',
    {"error": "invalid_token", "error_description": "The token is unknown, expired or taken back."},
)


def judged(office: Office, header: str | None = f"Bearer {ACCESS_TOKEN}") -> Principal | Challenge:
    return office.parts.bearer.principal(header, Surface.MCP)


def test_a_living_token_acts_as_its_operator_under_its_grant(office):
    office.change(grant, version=4)
    office.add_token(ACCESS_TOKEN)

    assert judged(office) == Principal(
        Caller(
            operator_id=ALICE_ID,
            email="op_alice@example.test",
            role=Role.OPERATOR,
            client_id=APP,
            grant_id=GRANT,
            surface=Surface.MCP,
            scopes=frozenset({READ, REFUND}),
            is_machine=False,
        ),
        client_name="The cl_app",
        grant_version=4,
    )


def test_a_machine_is_known_as_one_and_the_surface_is_the_door(office):
    office.change(operator, kind="machine")
    office.add_token(ACCESS_TOKEN)
    found = office.parts.bearer.principal(f"Bearer {ACCESS_TOKEN}", Surface.BRIDGE)

    assert (found.caller.is_machine, found.caller.surface) == (True, Surface.BRIDGE)


@pytest.mark.parametrize(
    ("narrowed_to", "role", "left"),
    [
        (READ, "operator", {READ}),
        (f"{REFUND} {STOCK}", "operator", {REFUND}),  # narrowing gives nothing that the grant doesn't
        (STOCK, "operator", set()),
        (None, "viewer", {READ}),
        (REFUND, "viewer", set()),
    ],
)
def test_what_counts_is_granted_and_narrowed_and_held_by_the_role(office, narrowed_to, role, left):
    office.change(operator, role=role)
    office.add_token(ACCESS_TOKEN, narrowed_to=narrowed_to)

    assert judged(office).scopes == left


@pytest.mark.parametrize(
    "header", [None, "", "Basic YTpi", "Bearerx y", ACCESS_TOKEN, "x Bearer y", f"DPoP {ACCESS_TOKEN}"]
)
def test_where_no_bearer_token_was_sent_the_challenge_names_no_error(office, header):
    office.add_token(ACCESS_TOKEN)

    assert judged(office, header) == MISSING


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "bearer ",
        "Bearer,",
        f"Bearer {ACCESS_TOKEN}, Bearer {ACCESS_TOKEN}",
        f"Bearer {ACCESS_TOKEN}x",
        f"Bearer {ACCESS_TOKEN[:-1]}",
        f"Bearer {ACCESS_TOKEN[:-1]}é",
        f"Bearer\t{ACCESS_TOKEN}",
        f"Bearer  x{ACCESS_TOKEN}",
        f"Bearer {REFRESH_TOKEN}",
        f"Bearer {ACCESS_TOKEN.upper()}",
        "Bearer cs_at_" + "z" * 43,
    ],
)
def test_what_is_no_living_token_is_told_so(office, header):
    office.add_token(ACCESS_TOKEN)
    office.add_token(REFRESH_TOKEN)

    assert judged(office, header) == INVALID


@pytest.mark.parametrize("header", [f"bEARER   {ACCESS_TOKEN}", f" Bearer {ACCESS_TOKEN} "])
def test_the_scheme_counts_in_any_case_and_space_around_it_is_nothing(office, header):
    office.add_token(ACCESS_TOKEN)

    assert isinstance(judged(office, header), Principal)


def test_a_token_lives_until_its_moment(office):
    office.add_token(ACCESS_TOKEN)
    office.clock.move(hours=1, microseconds=-1)
    just_before = judged(office)
    office.clock.move(microseconds=1)

    assert isinstance(just_before, Principal)
    assert judged(office) == INVALID


def test_a_grant_lives_until_its_moment(office):
    office.add_token(ACCESS_TOKEN)
    office.change(grant, expires_at=office.now + 1)
    just_before = judged(office)
    office.change(grant, expires_at=office.now)

    assert isinstance(just_before, Principal)
    assert judged(office) == INVALID


def test_a_token_from_the_future_is_none_beyond_the_skew_of_two_clocks(office):
    office.add_token(ACCESS_TOKEN, issued_at=office.after(minutes=2))
    at_the_limit = judged(office)
    office.change(token, issued_at=office.after(minutes=2, microseconds=1))

    assert isinstance(at_the_limit, Principal)
    assert judged(office) == INVALID


def test_a_call_beyond_its_rights_is_told_what_it_needs_and_holds(office):
    office.change(grant, scopes=f"{READ} {REFUND} console:flows:read mcp:traces:read")
    office.add_token(ACCESS_TOKEN)
    found = office.parts.bearer.forbidden(judged(office), Refusal("x", "y", missing_scopes=(STOCK, READ)))

    sentence = "This call needs rights that the token lacks."
    assert found == Challenge(
        403,
        f'Bearer error="insufficient_scope", error_description="{sentence}", {METADATA}, '
        f'scope="{READ} mcp:traces:read {REFUND} {STOCK}"',
        {"error": "insufficient_scope", "error_description": sentence},
    )
