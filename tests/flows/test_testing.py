"""The fake agent for an application's own tests does what a real one does, and says clearly what went wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from app import build, serve
from core.mail import Mail
from core.settings import load_settings
from flows.caller import Role
from flows.catalogue.seed import load_shop
from flows.testing import Agent, Mails, StillClock
from migrations.revisions import upgrade

ADA, VERA, PASSWORD = "ada@example.test", "vera@example.test", "a password of the tests"
SETTINGS = {"COUNTERSIGN_SECRET_KEYS": "k" * 43, "COUNTERSIGN_ARGON2": "1,8,1"}
REFUND = {"order_id": 1042, "reason": "it arrived broken"}


@pytest.fixture
def mails() -> Mails:
    return Mails()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture(params=["http://localhost:6535", "https://app.example.test/team/a"])
def app(request: pytest.FixtureRequest, tmp_path: Path, mails: Mails, clock: StillClock) -> Iterator[Flask]:
    """The demo shop, served in development and on a sub-path in production."""
    more = {"COUNTERSIGN_INSTANCE": str(tmp_path), "COUNTERSIGN_BASE_URL": request.param}
    parts = build(load_settings(SETTINGS | more, folder=tmp_path), mailer=mails, clock=clock)
    upgrade(parts.database, demo=True)
    with parts.database.write() as connection:
        load_shop(connection)
    parts.operators.add(ADA, Role.OPERATOR, PASSWORD)
    parts.operators.add(VERA, Role.VIEWER, PASSWORD)
    yield serve(parts)
    parts.outbox.close()
    for engine in (parts.database.writing, parts.database.reading):
        engine.dispose()


@pytest.fixture
def agent(app: Flask) -> Agent:
    return Agent.connect(app, email=ADA, password=PASSWORD)


def test_a_read_gives_its_result_and_what_it_touched(agent: Agent) -> None:
    found = agent.call("orders_get", order_id=1042).expect("done")

    assert found.result["order"]["number"] == 1042
    assert found.effects == {"read:orders", "read:customers", "read:products"}


def test_a_write_is_asked_for_approved_and_done(agent: Agent, mails: Mails) -> None:
    asked = agent.call("orders_refund", **REFUND).expect("confirmation_required")
    early = agent.again(asked)
    agent.approve(asked)
    done = agent.again(asked).expect("done")

    assert asked.summary == "Refund 45.00 EUR of order 1042, card ending 4417"
    assert early.status == "confirmation_pending"
    assert done.result["status"] == "refunded"
    assert done.effects == {"read:customers", "read:orders", "write:orders", "write:refunds", "send:email"}
    sent = mails.next()
    assert isinstance(sent, Mail)
    assert "order 1042 to your card ending 4417" in sent.text


def test_asking_approving_and_repeating_is_one_step_where_nobody_looks_between(agent: Agent) -> None:
    agent.confirmed("orders_refund", **REFUND).expect("done")

    agent.refused("order_not_refundable", "orders_refund", **REFUND)


def test_what_was_denied_is_refused_with_the_note(agent: Agent) -> None:
    asked = agent.call("orders_refund", **REFUND)
    agent.deny(asked, note="not this one")

    assert "not this one" in agent.again(asked).expect("refused", code="confirmation_denied").message


def test_time_moves_when_the_test_moves_it(agent: Agent, clock: StillClock) -> None:
    asked = agent.call("orders_refund", **REFUND)
    clock.forward(minutes=16)

    agent.again(asked).expect("refused", code="confirmation_expired")


@pytest.mark.parametrize(
    ("code", "tool", "arguments"),
    [
        ("order_not_found", "orders_get", {"order_id": 1}),
        ("invalid_arguments", "orders_get", {"order": 1}),
        ("invalid_arguments", "orders_refund", {"order_id": "1042", "reason": "x"}),
        ("order_not_found", "orders_refund", {"order_id": 1, "reason": "x"}),
    ],
)
def test_a_refusal_is_known_by_its_code(agent: Agent, code: str, tool: str, arguments: dict[str, object]) -> None:
    agent.refused(code, tool, **arguments)


def test_an_agent_has_only_the_rights_that_were_given(app: Flask) -> None:
    reading = Agent.connect(app, email=ADA, password=PASSWORD, scopes=[])
    stock = Agent.connect(app, email=ADA, password=PASSWORD, scopes=["stock:adjust"])

    reading.call("orders_list").expect("done")
    reading.refused("insufficient_scope", "orders_refund", **REFUND)
    stock.refused("insufficient_scope", "orders_refund", **REFUND)
    with pytest.raises(AssertionError, match=r"not offered: \['orders:refund'\]; there are \["):
        Agent.connect(app, email=VERA, password=PASSWORD, scopes=["orders:refund"])


def test_a_wrong_password_and_a_wrong_expectation_are_told_in_full(app: Flask, agent: Agent, mails: Mails) -> None:
    with pytest.raises(AssertionError, match=r"could not sign in:(?s:.)*The e-mail address or the password"):
        Agent.connect(app, email=ADA, password="another password")
    with pytest.raises(AssertionError, match=r"expected done, but: .*order_not_found"):
        agent.call("orders_get", order_id=1).expect("done")
    with pytest.raises(AssertionError, match="no mail left"):
        mails.next(within=0.05)
    with pytest.raises(AssertionError, match="expected confirmation_required"):
        agent.approve(agent.call("orders_list"))
