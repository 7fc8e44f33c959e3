"""auth/bearer.py: everything that a token depends on counts at each call."""

from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

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
