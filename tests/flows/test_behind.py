"""Runs of read calls are written behind, all of them, whatever happens to the database meanwhile."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select

from core.clock import SystemClock
from core.errors import NotFound
from flows import behind, models
from flows.confine import unconfined
from flows.envelope import Status
from flows.trace import PATIENCE_SECONDS
from flows.world import World
from policy.models import audit
from tests.flows.house import Counter, House, Nothing, Value, get_counter, open_house
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db


@pytest.fixture
def live(database_url: str, tmp_path: Path) -> Iterator[House]:
    """A house by the real clock."""
    with open_house(database_url, tmp_path, SystemClock()) as made:
        yield made


def test_every_call_of_many_threads_is_written_with_its_audit_row(live: House) -> None:
    threads = [threading.Thread(target=lambda: [live.read(get_counter) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert live.writer.flush(20)
    assert (live.count(models.run, status="done"), live.count(models.step), live.count(audit)) == (200, 200, 200)


def test_close_writes_what_is_left_and_a_later_call_starts_again(live: House) -> None:
    before = set(threading.enumerate())
    for number in (1, 2):
        live.read(get_counter)
        live.writer.close()

        assert live.count(models.run) == number
        assert not {thread for thread in threading.enumerate() if thread.name == "trace-writer"} - before


def test_a_full_queue_makes_callers_wait_and_drops_nothing(live: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "MOST_WAITING", 3)
    monkeypatch.setattr(behind, "LARGEST_GROUP", 2)

    for _ in range(20):
        live.read(get_counter)
        assert len(live.writer._waiting) <= 3

    assert live.writer.flush(20)
    assert live.count(models.run) == 20


def test_a_busy_database_is_waited_for_and_said(
    live: House, database_kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if database_kind != "sqlite":
        pytest.skip("PostgreSQL has no single writer lock")
    monkeypatch.setattr("core.db.BUSY_MS", 20)
    monkeypatch.setattr(behind, "RETRY_SECONDS", 0.01)
    live.database.writing.dispose()  # so that the writer's connection has the short patience
    with live.database.write():
        live.read(get_counter)
        wait_until("a warning", lambda: "waits for the database" in caplog.text)
        assert not live.writer.flush(0.05)

    assert live.writer.flush(20)
    assert live.count(models.run) == 1


def test_a_row_that_can_not_be_written_is_logged_and_holds_up_nobody(
    live: House, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = live.ids.new("run")
    for same in (run_id, run_id, live.ids.new("run")):
        live.read(get_counter, run_id=same)

    assert live.writer.flush(20)
    assert live.count(models.run) == 2
    assert f"'run_id': '{run_id}'" in caplog.text


def test_a_connection_that_breaks_while_it_is_opened_is_opened_again(
    live: House, database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_kind == "sqlite":
        pytest.skip("SQLite has no connection that could break")
    monkeypatch.setattr(behind, "RETRY_SECONDS", 0.01)
    broken: list[int] = []

    def break_once(connection: Any, _record: object, _proxy: object) -> None:
        if threading.current_thread().name == "trace-writer" and not broken:
            broken.append(1)
            end_backend(live, connection)

    event.listen(live.database.writing, "checkout", break_once)
    live.read(get_counter)

    assert live.writer.flush(20)
    assert (len(broken), live.count(models.run)) == (1, 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced_and_its_rows_are_written(live: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_given: object) -> None:
        raise RuntimeError("the end of a thread")

    with monkeypatch.context() as patched:
        patched.setattr(live.writer, "_write", die)
        live.read(get_counter)
        thread = live.writer._thread
        assert thread is not None
        thread.join(10)
    live.read(get_counter)

    assert live.writer.flush(20)
    assert live.count(models.run) == 2


def test_a_read_whose_connection_breaks_has_failed_and_is_on_record(live: House, database_kind: str) -> None:
    if database_kind == "sqlite":
        pytest.skip("SQLite has no connection that could break")

    def break_it(_params: Nothing, world: World) -> Value:
        connection = world.session.connection()
        with unconfined():
            end_backend(live, connection.connection.driver_connection)
        return Value(value=world.session.scalars(select(Counter.value)).one())

    ran = live.read(replace(get_counter, function=break_it))

    assert (ran.status, ran.code) == (Status.FAILED, "internal")
    assert live.run(ran.run_id).status == "failed"
    assert live.events(ran.run_id) == ["call.failed"]
    assert live.read(get_counter).status is Status.DONE


def end_backend(house: House, driver: Any) -> None:
    """Let PostgreSQL end the session behind a driver's connection."""
    ended = threading.Thread(target=lambda: _terminate(house, driver.info.backend_pid))
    ended.start()
    ended.join()


def _terminate(house: House, pid: int) -> None:
    with house.database.write() as connection:
        connection.execute(select(func.pg_terminate_backend(pid, 5_000)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_writes_its_own_and_only_its_own(live: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "GATHER_SECONDS", 5)  # the parent's row is still waiting when the child is made
    live.read(get_counter, reference="parent")

    def as_child() -> None:
        live.database.writing.dispose(close=False)
        live.database.reading.dispose(close=False)
        live.read(get_counter, reference="child")
        live.writer.close()

    assert in_a_fork(as_child) == 0
    assert live.writer.flush(20)
    with live.database.read() as connection:
        assert sorted(connection.execute(select(models.run.c.reference)).scalars()) == ["child", "parent"]


def test_a_young_run_is_waited_for_and_a_made_up_id_is_not(house: House) -> None:
    looked: list[float] = []
    house.traces._pause = looked.append
    ran = house.read(get_counter)

    assert house.run(ran.run_id).id == ran.run_id
    for unknown in ("run_x", "cf_" + "0" * 32, "run_" + "z" * 32, "run_" + "0" * 32, "", "run_" + "9" * 64):
        with pytest.raises(NotFound):
            house.traces.get(unknown, house.admit(get_counter).caller)
    assert looked == []

    with pytest.raises(NotFound):
        house.traces.get(house.ids.new("run"), house.admit(get_counter).caller)
    assert 0 < sum(looked) <= PATIENCE_SECONDS + 0.001


def in_a_fork(work: Callable[[], Any]) -> int:
    """Do `work` in a forked child and give its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child of a test must never return into it
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
