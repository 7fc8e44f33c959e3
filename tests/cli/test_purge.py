"""`countersign purge`: what is over goes, what lives or is needed stays; on both databases."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select

from auth.models import auth_code, authorization_request, client, grant, login_event, operator, session, token
from cli import purge
from core.clock import to_us
from core.db import db
from core.errors import SettingsError
from core.ids import least_id
from core.purge import AT_A_TIME
from core.settings import Retention, load_settings
from flows.models import outbox, request_key, run, step
from policy.models import audit, confirm_token, confirmation
from tests.auth.served import Served
from tests.journeys.shop import REFUND, proof_of
from tests.support.browser import FormBrowser
from tests.support.oauth import mcp_for
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, Instance
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
LONG = timedelta(days=500)
GOING = (
    *(run, step, request_key, outbox, confirmation, confirm_token),
    *(session, login_event, authorization_request, auth_code, token, grant, client),
)


@pytest.fixture
def served(new_instance: Any) -> Iterator[Served]:
    """The application in this process, with a clock that the test moves."""
    with Served(new_instance()) as one:
        yield one


def count_of(served: Served, table: Table) -> int:
    with served.parts.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def ids_in(served: Served, table: Table) -> set[str]:
    with served.parts.database.read() as connection:
        return set(connection.execute(select(table.c.id)).scalars())


def live_a_little(served: Served) -> RawMcp:
    """Sign in, connect, read, have one refund done and another denied; return the agent."""
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    agent = mcp_for(browser, tick=(REFUND,))
    first, second = agent.call("orders_list", {"status": "paid"}).data["orders"][:2]
    for order, approve in ((first, True), (second, False)):
        arguments = {"order_id": order["number"], "reason": "damaged"}
        asked = agent.call("orders_refund", arguments).data
        browser.approve(asked["confirmUrl"]) if approve else browser.deny(asked["confirmUrl"])
        agent.call("orders_refund", arguments | proof_of(asked["confirmToken"]))
    served.parts.traces.list(_anybody(served), limit=1)  # what the background writer still holds is written
    wait_until("the message", lambda: _statuses(served) == {"sent"})
    return agent


def _anybody(served: Served) -> Any:
    with served.parts.database.read() as connection:
        row = connection.execute(select(operator).where(operator.c.email == ALICE.email)).one()
    return type("Viewer", (), {"operator_id": row.id, "sees_everybody": True})()


def _statuses(served: Served) -> set[str]:
    with served.parts.database.read() as connection:
        return set(connection.execute(select(outbox.c.status)).scalars())


def old_run(served: Served, number: int, **values: object) -> str:
    """Insert a run of long ago and return its id."""
    then = served.clock.now() - LONG
    run_id = f"{least_id('run', then)[:-6]}{number:06x}"
    row = {
        **dict.fromkeys(("flow_id", "surface", "operator_id", "client_id", "grant_id"), "x"),
        "id": run_id,
        "flow_version": 1,
        "kind": "write",
        "status": "done",
        "arguments": "{}",
        "started_at": to_us(then),
        "ended_at": to_us(then),
        "lease_until": to_us(served.clock.now() + LONG),
    }
    with served.parts.database.write() as connection:
        connection.execute(insert(run), row | values)
    return run_id


def test_after_its_time_nothing_of_a_connection_is_left_but_the_people_and_the_audit(served: Served) -> None:
    live_a_little(served)
    before = {table.name: count_of(served, table) for table in GOING}
    assert all(before.values()), before

    purge.take_away(served.parts)
    assert {table.name: count_of(served, table) for table in GOING} == before

    people, events = count_of(served, operator), ids_in(served, audit)
    served.clock.move(days=366)
    purge.take_away(served.parts)

    assert {table.name: count_of(served, table) for table in GOING} == dict.fromkeys(before, 0)
    assert count_of(served, operator) == people
    assert events < ids_in(served, audit)  # and the purge is in it
    assert live_a_little(served)  # a new beginning works


def test_what_lives_or_is_needed_stays_however_old_it_is(served: Served) -> None:
    live_a_little(served)
    kept = {old_run(served, 1, status="running"), old_run(served, 2, status="unknown"), old_run(served, 3)}
    kept.add(old_run(served, 4, kind="read"))
    gone = {old_run(served, 5), old_run(served, 6, status="failed"), old_run(served, 7, kind="read")}
    old = f"{least_id('cf', served.clock.now() - LONG)[:-1]}"
    waiting = {"id": "msg_1", "run_id": _ending(kept, 4), "target": "email", "payload": "{}", "status": "waiting"}
    key = {"operator_id": "x", "client_id": "x", "flow_id": "x", "request_id": "x", "plan": "x"}
    with served.parts.database.write() as connection:
        connection.execute(
            insert(outbox), waiting | {"attempts": 0, "due_at": to_us(served.clock.now() + LONG), "created_at": 1}
        )
        connection.execute(
            insert(request_key), key | {"run_id": _ending(kept, 3), "created_at": to_us(served.clock.now())}
        )
        asked = _confirmation(served, f"{old}1", state="approved", open_key="open")
        spent = _confirmation(served, f"{old}2", state="spent", run_id=_ending(kept, 2))
        over = _confirmation(served, f"{old}3", state="spent", run_id=_ending(gone, 5))
        for row in (asked, spent, over):
            connection.execute(insert(confirmation), row)
    grants, clients = ids_in(served, grant), ids_in(served, client)

    told = purge.take_away(served.parts)

    assert kept <= ids_in(served, run)
    assert not gone & ids_in(served, run)
    assert {f"{old}1", f"{old}2"} <= ids_in(served, confirmation)
    assert f"{old}3" not in ids_in(served, confirmation)
    assert (ids_in(served, grant), ids_in(served, client)) == (grants, clients)
    assert "msg_1" in ids_in(served, outbox)
    assert "cs_run (writes)" in told


def _ending(ids: set[str], number: int) -> str:
    return next(one for one in ids if one.endswith(f"{number:06x}"))


def _confirmation(served: Served, name: str, **values: object) -> dict[str, object]:
    texts = dict.fromkeys(("rule", "operator_id", "client_id", "grant_id", "flow_id", "digest", "summary"), "x")
    row: dict[str, object] = {"id": name, "open_key": None, "run_id": None, "flow_version": 1, "created_at": 1}
    return {**texts, **row, "expires_at": to_us(served.clock.now() + LONG), **values}


def test_a_connection_stays_while_a_run_of_it_is_kept_and_goes_with_the_last_one(served: Served) -> None:
    agent = live_a_little(served)
    with served.parts.database.read() as connection:
        held = connection.execute(select(grant.c.id, grant.c.operator_id)).one()
    served.parts.connections.revoke(held.operator_id, held.id)
    assert agent.call("orders_list").status == 401
    served.clock.move(days=364)
    purge.take_away(served.parts)
    assert ids_in(served, grant) == {held.id}  # its refund is of last year

    served.clock.move(days=2)
    purge.take_away(served.parts)

    assert not ids_in(served, grant)
    assert not ids_in(served, client)


def test_two_purges_at_once_beside_a_server_take_each_row_once(served: Served) -> None:
    agent = live_a_little(served)
    for number in range(2 * AT_A_TIME + 10):
        old_run(served, number, kind="read")
    rows = next(one for one in purge.kinds_of(served.parts) if one.name == "cs_run (reads)")

    with ThreadPoolExecutor(3) as pool:
        purges = [pool.submit(purge.take_away, served.parts) for _ in range(2)]
        calls = [agent.call("orders_list").status for _ in range(10)]
        told = [one.result() for one in purges]

    taken = [int(line.split()[-2]) for text in told for line in text.splitlines() if line.startswith(rows.name)]
    assert sum(taken) == 2 * AT_A_TIME + 10
    assert calls == [200] * 10


def test_a_dry_run_says_how_much_would_go_and_leaves_it(served: Served) -> None:
    live_a_little(served)
    old_run(served, 1)
    before = ids_in(served, run)

    told = purge.would_go(served.parts)

    (line,) = [line.split() for line in told.splitlines() if line.startswith("cs_run (writes)")]
    assert line[2:] == ["365", "days", "1", "2"]
    assert ids_in(served, run) == before


def test_each_kind_that_went_is_in_the_audit_once(served: Served) -> None:
    for number in range(AT_A_TIME + 1):
        old_run(served, number)
    purge.take_away(served.parts)
    purge.take_away(served.parts)

    with served.parts.database.read() as connection:
        events = connection.execute(select(audit.c.detail, audit.c.surface).where(audit.c.event == "records.purged"))
        assert events.all() == [('{"kind":"cs_run (writes)","kept":"365 days"}', "cli")]


def test_zero_days_means_for_ever_where_no_stranger_fills_the_table(prepared_instance: Instance) -> None:
    def given(**days: str) -> Retention:
        return load_settings(prepared_instance.environment() | days).retention

    assert given().writes == timedelta(days=365)
    assert given(COUNTERSIGN_KEEP_WRITES_DAYS="0").writes is None
    assert given(COUNTERSIGN_KEEP_TRIES_DAYS="3").tries == timedelta(days=3)
    for wrong in ({"COUNTERSIGN_KEEP_TRIES_DAYS": "0"}, {"COUNTERSIGN_KEEP_AUDIT_DAYS": "999999"}):
        with pytest.raises(SettingsError):
            given(**wrong)


def test_every_table_of_ours_but_the_people_has_a_retention(served: Served) -> None:
    kinds = purge.kinds_of(served.parts)
    covered = {column.table.name for rows in kinds for column in (rows.key, *rows.parts)}

    ours = {name for name in db.metadata.tables if name.startswith("cs_")}
    assert ours - covered == {"cs_operator"}


def test_the_command_prints_a_table(new_instance: Any) -> None:
    done = new_instance().run("purge", env={"COUNTERSIGN_KEEP_AUDIT_DAYS": "0"})

    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["TABLE", "KEPT", "FOR", "DELETED", "LEFT"]
    assert ["cs_audit", "ever", "0", "5"] in rows  # the people of the tests, made
