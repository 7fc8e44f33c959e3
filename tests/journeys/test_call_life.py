"""A worker killed by SIGKILL around a call to the outside: unknown exactly where the outside may have acted (D5)."""

import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from flows.writes import POINTS, POINTS_OF_A_CALL
from tests.journeys.bakery import ADMIN, COUNTERSIGN, PASSWORD, PYTHON, Application, Payments
from tests.journeys.shop import proof_of
from tests.support.agent import connect
from tests.support.browser import FormBrowser
from tests.support.killing_app import KILL_AT
from tests.support.raw_mcp import RawMcp
from tests.support.server import REPO
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
ALL = (*POINTS_OF_A_CALL, *POINTS[POINTS.index("ran") :])  # what comes before: tests/attacks/test_run_life.py
UNDONE = ALL[: ALL.index("calling")]
UNSURE = ALL[ALL.index("calling") : ALL.index("committed")]
CALLED = ALL[ALL.index("called") :]


@dataclass(frozen=True, slots=True)
class Killed:
    """One confirmed refund whose worker was killed at a point."""

    arguments: dict[str, Any]
    run_id: str
    payment: str


@pytest.fixture
def killing_bakery(bakery: Application) -> Iterator[tuple[Application, FormBrowser]]:
    """The bakery, served by an application that obeys the order to die; leases of 12 and 13 s."""
    bakery.settings["PYTHONPATH"] += f":{REPO}"
    bakery.settings |= {"COUNTERSIGN_WRITE_DEADLINE": "1", "COUNTERSIGN_CALL_DEADLINE": "1"}
    bakery.settings["COUNTERSIGN_OPERATOR_PASSWORD"] = PASSWORD
    for words in (("secrets", "init"), ("db", "upgrade"), ("operator", "add", ADMIN, "--role", "admin")):
        bakery.run(*COUNTERSIGN, *words)
    engine = create_engine(bakery.settings["COUNTERSIGN_DATABASE_URL"])
    order = text("INSERT INTO bakery_order VALUES (:number, 'bo@example.test', 'Torte', 100, 0, :payment, :no)")
    with engine.begin() as connection:
        for number, point in enumerate(ALL, start=100):
            connection.execute(order, {"number": number, "payment": f"pay_{point}", "no": False})
    engine.dispose()
    app = "tests.support.killing_app:create_app()"
    with bakery.serving(*PYTHON, "-m", "gunicorn", "-c", str(REPO / "gunicorn.conf.py"), app) as browser:
        yield bakery, browser


def test_a_worker_killed_around_its_call_is_unknown_exactly_where_the_outside_may_have_acted(
    killing_bakery: tuple[Application, FormBrowser], payments: Payments
) -> None:
    bakery, browser = killing_bakery
    with connect(f"{browser.base_url}/mcp", browser, tick=("orders:refund",)) as agent:
        raw = RawMcp(f"{browser.base_url}/mcp", agent.access_token)
    killed = {point: _kill(bakery, raw, browser, number, point) for number, point in enumerate(ALL, start=100)}
    ends = {point: wait_until(f"the end of {point}", partial(_end, raw, one)) for point, one in killed.items()}

    assert ends == {**dict.fromkeys(UNDONE, "interrupted"), **dict.fromkeys(UNSURE, "unknown"), "committed": "done"}
    assert sorted(key for key, _ in payments.requests) == sorted(f"{killed[point].run_id}-1" for point in CALLED)
    for point in UNSURE:
        told = raw.call("traces_get", {"runId": killed[point].run_id}).data["reconcile"]
        assert told.startswith(f"Look at payments: key {killed[point].run_id}-1, not known whether it took place."), (
            point
        )
        assert "Search the payment service's requests for the key." in told
        assert told in browser.open(f"/runs/{killed[point].run_id}").text

    again = {point: raw.call("orders_refund", one.arguments).data for point, one in killed.items()}

    assert [again[point]["status"] for point in UNDONE] == ["done"] * len(UNDONE)
    for point in (*UNSURE, "committed"):
        seen = (again[point]["status"], again[point]["runId"], again[point]["outcome"])
        assert seen == ("refused", killed[point].run_id, ends[point])
    paid = [asked["payment"] for _, asked in payments.requests]
    assert sorted(paid) == sorted(killed[point].payment for point in (*UNDONE, *CALLED)), "nobody was paid twice"


def _kill(bakery: Application, raw: RawMcp, browser: FormBrowser, number: int, point: str) -> Killed:
    arguments = {"number": number, "cents": 100}
    asked = raw.call("orders_refund", arguments).data
    browser.approve(asked["confirmUrl"])
    confirmed = arguments | proof_of(asked["confirmToken"])
    seen = {run["runId"] for run in _refunds(raw)}
    (bakery.folder / "instance" / KILL_AT).write_text(point)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        raw.call("orders_refund", confirmed)
    (run,) = [run for run in _refunds(raw) if run["runId"] not in seen]
    return Killed(confirmed, run["runId"], f"pay_{point}")


def _refunds(raw: RawMcp) -> list[dict[str, Any]]:
    return list(raw.call("traces_list", {"flowId": "orders.refund", "limit": 200}).data["runs"])


def _end(raw: RawMcp, killed: Killed) -> str | None:
    status = raw.call("traces_get", {"runId": killed.run_id}).data["status"]
    return None if status == "running" else str(status)
