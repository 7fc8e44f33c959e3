"""A right that is missing is named, given on a page by the person, and works at once."""

import pytest

from tests.journeys.shop import REFUND, agent_of, ask_for_refund, refundable_order
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, VERA, ServerProcess

pytestmark = pytest.mark.db


def test_a_missing_right_is_given_on_its_page_and_works_without_a_new_connection(server: ServerProcess) -> None:
    with agent_of(ALICE, server, tick=()) as (agent, browser):
        raw = RawMcp(server.mcp_url, agent.access_token)
        order = refundable_order(agent, skip=6)
        refund = next(f for f in agent.call("manifest_get")["flows"] if f["flowId"] == "orders.refund")
        refused = raw.call("orders_refund", {"order_id": order["number"], "reason": "r"})
        assert refund["granted"] is False
        assert "orders_refund" not in {tool.name for tool in agent.tools()}
        assert refused.status == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert REFUND in refused.headers["www-authenticate"]
        assert refused.error["data"]["grantUrl"] == refund["grantUrl"]

        browser.open_signed_in(refund["grantUrl"])
        assert browser.page.tick_box(REFUND).has("checked"), "the asked right is marked and ticked, not given"
        browser.prove()
        browser.submit("Save")

        arguments = {"flowId": "orders.refund", "args": {"order_id": order["number"], "reason": "r"}}
        assert agent.call("action_invoke", arguments).status == "confirmation_required"
        assert agent.person.consents == 1


def test_the_official_client_steps_up_by_a_second_consent(server: ServerProcess) -> None:
    with agent_of(ALICE, server, tick=()) as (agent, _):
        agent.person.tick = (REFUND,)

        ask_for_refund(agent, refundable_order(agent, skip=7))

        assert agent.person.consents == 2
        assert REFUND in agent.person.authorize_url.replace("%3A", ":")


def test_a_viewer_is_offered_nothing_that_acts(server: ServerProcess) -> None:
    with agent_of(VERA, server, tick=()) as (agent, _):
        raw = RawMcp(server.mcp_url, agent.access_token)

        answer = raw.call("orders_refund", {"order_id": refundable_order(agent)["number"], "reason": "r"})

        assert answer.status == 200
        assert answer.result["isError"] is True
        assert answer.data["refusal"]["code"] != "insufficient_scope"
        assert "orders.refund" not in {flow["flowId"] for flow in agent.call("manifest_get")["flows"]}
