"""The main job: a person connects an agent, it reads, and one refund runs that the person has confirmed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.journeys.shop import agent_of, ask_for_refund, refundable_order, refunds_done
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
READ_TOOLS = {"manifest_get", "schema_get", "effects_get", "traces_list", "traces_get", "orders_list", "orders_get"}


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_a_confirmed_refund_runs_once_and_is_traced(server: ServerProcess, mode: str, version: str) -> None:
    with agent_of(ALICE, server, mode=mode) as (agent, browser):
        assert agent.protocol_version == version
        assert ALICE.email in agent.instructions
        assert agent.storage.client_info is not None
        assert {tool.name for tool in agent.tools()} >= READ_TOOLS | {
            "orders_refund",
            "action_invoke",
            "action_confirm",
        }
        assert "orders.refund" in {flow["flowId"] for flow in agent.call("manifest_get")["flows"]}

        order = refundable_order(agent)
        before = len(refunds_done(agent))
        refund = ask_for_refund(agent, order)
        early = agent.call("orders_refund", refund["confirmed"])
        page = browser.approve(refund["asked"]["confirmUrl"])
        done = agent.call("orders_refund", refund["confirmed"])
        again = agent.call("orders_refund", refund["confirmed"])

        assert early.status == "confirmation_pending"
        assert "Approved. Not done yet" in page.text
        assert (done.status, done.is_error) == ("done", False)
        assert again.status == "refused"
        assert again["refusal"]["code"] == "confirmation_spent"
        assert again["runId"] == done["runId"]
        assert len(refunds_done(agent)) == before + 1
        assert refunds_done(agent)[0]["runId"] == done["runId"]
        after = agent.call("orders_get", order_id=order["number"])["order"]
        assert (after["status"], after["refunded"]) == ("refunded", order["total"])
        _check_trace(agent.call("traces_get", runId=done["runId"]).data)
        assert _mails_about(server, order) == 1


def test_both_workers_answer(server: ServerProcess) -> None:
    with agent_of(ALICE, server) as (agent, _):
        raw = RawMcp(server.mcp_url, agent.access_token)

        def all_workers_seen() -> bool:
            with ThreadPoolExecutor(8) as threads:
                answers = list(threads.map(lambda _: raw.call("orders_list", {"limit": 1}), range(32)))
            assert {answer.status for answer in answers} == {200}
            return len(server.worker_pids()) == 2

        wait_until("an answer of each worker", all_workers_seen)


def _check_trace(trace: dict[str, Any]) -> None:
    effects = {(step["verb"], step["target"]) for step in trace["steps"]}
    assert trace["status"] == "done"
    assert {("write", "orders"), ("send", "email")} <= effects


def _mails_about(server: ServerProcess, order: dict[str, Any]) -> int:
    outbox = server.instance.folder / "outbox"
    words = f"order {order['number']} to your card"
    return wait_until("the mail", lambda: sum(words in path.read_text() for path in outbox.glob("*.eml")))
