"""A worker killed by SIGKILL in the life of a run: nothing twice, nothing half done, and an honest end (design D6)."""

import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from flows.writes import POINTS
from tests.journeys.shop import agent_of, proof_of
from tests.support.browser import FormBrowser
from tests.support.killing_app import KILL_AT
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, Instance, ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
BEFORE_COMMIT = POINTS[: POINTS.index("committed")]


@dataclass(frozen=True, slots=True)
class Killed:
    """One confirmed refund whose worker was killed at a point."""

    order: dict[str, Any]
    confirmed: dict[str, Any]
    run_id: str


@pytest.fixture
def killing_server(new_instance: Callable[[], Instance]) -> Iterator[ServerProcess]:
    """Two workers of an application that obeys the order to die; leases of 12 s."""
    settings = {"COUNTERSIGN_WRITE_DEADLINE": "1"}
    with ServerProcess(new_instance(), settings=settings, app="tests.support.killing_app:create_app()") as server:
        yield server


def test_a_worker_killed_at_any_point_leaves_no_half_done_and_no_double_work(killing_server: ServerProcess) -> None:
    with agent_of(ALICE, killing_server) as (agent, browser):
        raw = RawMcp(killing_server.mcp_url, agent.access_token)  # a connection a call: none outlives its worker
    orders = raw.call("orders_list", {"status": "paid", "limit": 100}).data["orders"]
    killed = {
        point: _kill(killing_server, raw, browser, order, point) for point, order in zip(POINTS, orders, strict=False)
    }
    ends = {point: wait_until(f"the end of {point}", partial(_end, raw, one)) for point, one in killed.items()}

    assert ends == {**dict.fromkeys(BEFORE_COMMIT, "interrupted"), "committed": "done"}
    for point in BEFORE_COMMIT:
        assert _refunded(raw, killed[point]) == 0, point
        assert raw.call("traces_get", {"runId": killed[point].run_id}).data["steps"] == [], point
    assert [run["runId"] for run in _refunds(raw) if run["status"] == "done"] == [killed["committed"].run_id]

    again = {point: raw.call("orders_refund", one.confirmed).data for point, one in killed.items()}

    assert [again[point]["status"] for point in BEFORE_COMMIT] == ["done"] * len(BEFORE_COMMIT)
    spent = again["committed"]
    assert (spent["status"], spent["runId"], spent["outcome"]) == ("refused", killed["committed"].run_id, "done")
    for one in killed.values():
        assert _refunded(raw, one) == one.order["total"]
        assert wait_until("the mail", partial(_mails, killing_server, one)) == 1
    assert len([run for run in _refunds(raw) if run["status"] == "done"]) == len(POINTS)


def _kill(server: ServerProcess, raw: RawMcp, browser: FormBrowser, order: dict[str, Any], point: str) -> Killed:
    arguments = {"order_id": order["number"], "reason": "damaged in transit"}
    asked = raw.call("orders_refund", arguments).data
    browser.approve(asked["confirmUrl"])
    confirmed = arguments | proof_of(asked["confirmToken"])
    seen = {run["runId"] for run in _refunds(raw)}
    (server.instance.folder / KILL_AT).write_text(point)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        raw.call("orders_refund", confirmed)
    (run,) = [run for run in _refunds(raw) if run["runId"] not in seen]
    assert run["status"] == ("done" if point == "committed" else "running")
    return Killed(order, confirmed, run["runId"])


def _refunds(raw: RawMcp) -> list[dict[str, Any]]:
    return list(raw.call("traces_list", {"flowId": "orders.refund", "limit": 200}).data["runs"])


def _end(raw: RawMcp, killed: Killed) -> str | None:
    status = raw.call("traces_get", {"runId": killed.run_id}).data["status"]
    return None if status == "running" else str(status)


def _refunded(raw: RawMcp, killed: Killed) -> int:
    return int(raw.call("orders_get", {"order_id": killed.order["number"]}).data["order"]["refunded"])


def _mails(server: ServerProcess, killed: Killed) -> int:
    words = f"order {killed.order['number']} to your card"
    return sum(words in path.read_text() for path in (server.instance.folder / "outbox").glob("*.eml"))
