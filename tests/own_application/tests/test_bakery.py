# tests/test_bakery.py
import pytest

from bakery import payments
from flows.testing import Agent, Mails


def test_an_order_is_listed(agent: Agent) -> None:
    found = agent.call("orders_open").expect("done")

    assert found.result["orders"] == [{"number": 7, "cake": "Sachertorte", "cents_left": 2850}]
    assert found.effects == {"read:orders"}


def test_a_refund_is_approved_and_paid_back_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def pay_back(key: str, payment: str, cents: int) -> str:
        keys.append(key)
        return "ref_1"

    monkeypatch.setattr(payments, "pay_back", pay_back)
    asked = agent.call("orders_refund", number=7, cents=2850).expect("confirmation_required")
    agent.approve(asked)
    done = agent.again(asked).expect("done")

    assert asked.summary == "Pay back 28.50 EUR for Sachertorte to bo@example.test"
    assert done.result["outcome"] == "paid_back"
    assert len(keys) == 1
    assert {"write:orders", "write:refunds", "call:payments"} <= done.effects
    agent.refused("too_much", "orders_refund", number=7, cents=1)


def test_a_declined_refund_leaves_the_order_as_it_was(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments, "pay_back", lambda key, payment, cents: None)
    done = agent.confirmed("orders_refund", number=7, cents=2850).expect("done")

    assert done.result["outcome"] == "declined"
    assert agent.call("orders_open").result["orders"][0]["cents_left"] == 2850


def test_a_call_that_is_lost_is_unknown(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(key: str, payment: str, cents: int) -> str:
        raise TimeoutError

    monkeypatch.setattr(payments, "pay_back", lost)
    outcome = agent.confirmed("orders_refund", number=7, cents=2850)

    outcome.expect("unknown", code="unknown")


def test_the_customer_is_told(agent: Agent, mails: Mails) -> None:
    agent.confirmed("orders_ready", number=7).expect("done")

    assert mails.next().text == "Come and get your Sachertorte.\n"
