"""What journeys know of the demo shop: how an agent finds an order that can be refunded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.agent import Agent, connect
from tests.support.browser import FormBrowser
from tests.support.server import Person, ServerProcess

REFUND = "orders:refund"


@contextmanager
def agent_of(
    person: Person,
    server: ServerProcess,
    *,
    tick: tuple[str, ...] = (REFUND,),
    mode: str = "auto",
    name: str = "Journey Agent",
) -> Iterator[tuple[Agent, FormBrowser]]:
    """Sign a person in, connect an agent for them with these write rights, and yield both."""
    browser = FormBrowser(server.base_url)
    browser.sign_in(person.email, person.password)
    with connect(server.mcp_url, browser, mode=mode, tick=tick, client_name=name) as agent:
        yield agent, browser


def refundable_order(agent: Agent, *, skip: int = 0) -> dict[str, Any]:
    """Return a paid order; `skip` keeps tests on one server out of each other's way."""
    orders = agent.call("orders_list", status="paid", limit=100)["orders"]
    return dict(orders[skip])


def ask_for_refund(agent: Agent, order: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Call the refund without a confirmation; return the arguments with the token and phrase that would spend it."""
    arguments = {"order_id": order["number"], "reason": "damaged in transit", **more}
    asked = agent.call("orders_refund", arguments)
    assert asked.status == "confirmation_required", asked
    assert not asked.is_error
    return {"asked": asked, "plain": arguments, "confirmed": arguments | proof_of(asked["confirmToken"])}


def proof_of(token: str) -> dict[str, str]:
    """Return the two arguments that spend a confirmation."""
    return {"confirmToken": token, "confirmation": "CONFIRM"}


def refunds_done(agent: Agent) -> list[dict[str, Any]]:
    """Return the finished refund runs that this agent's operator may see, newest first."""
    return list(agent.call("traces_list", flowId="orders.refund", status="done", limit=200)["runs"])
