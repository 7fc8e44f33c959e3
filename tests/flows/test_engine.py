"""The life of a run."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from sqlalchemy import Connection, func, literal, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.clock import SystemClock
from core.errors import AppError
from flows import models
from flows.admission import Ran
from flows.confine import unconfined
from flows.effects import reads, writes
from flows.envelope import Status
from flows.operation import Params, Result, Secret, Sensitive, flow
from flows.watch import Unwatched
from flows.world import World
from flows.worlds import FactsFailed
from flows.writes import POINTS, RequestIdConflict
from tests.flows.house import (
    Amount,
    Counter,
    House,
    Nothing,
    SetClock,
    Spent,
    TooMuch,
    Value,
    add,
    caller,
    get_counter,
    open_house,
    read_then_write,
)

pytestmark = pytest.mark.db


def test_a_read_gives_its_result_and_is_recorded_with_its_steps(house: House) -> None:
    ran = house.read(get_counter)

    assert (ran.status, ran.result, ran.code) == (Status.DONE, {"value": 0}, None)
    run = house.run(ran.run_id)
    assert (run.status, run.kind, run.reference, run.ended_at) == ("done", "read", "ref", house.clock.now())
    assert [(step.verb, step.target, step.detail) for step in run.steps] == [("read", "counter", "1 statement")]
    assert house.events(ran.run_id) == ["call.done"]


def test_a_write_commits_work_steps_message_audit_and_spent_confirmation_together(house: House) -> None:
    confirmation_id = house.confirm()
    ran = house.write(add, {"by": 3}, confirmation_id=confirmation_id)

    assert (ran.status, ran.result, house.counter()) == (Status.DONE, {"value": 3}, 3)
    run = house.run(ran.run_id)
    assert [(step.verb, step.target, step.detail) for step in run.steps] == [
        ("read", "counter", "1 statement"),
        ("send", "email", "1 message"),
        ("write", "counter", "1 row in 1 statement"),
    ]
    assert (run.arguments, run.result, run.confirmation_id) == ('{"by":3}', '{"value":3}', confirmation_id)
    assert house.events(ran.run_id) == ["call.done"]
    assert house.confirmation_state(confirmation_id) == "spent"
    assert [message.status for message in house.outbox.of_run(run.id)] == ["waiting"]


def test_a_declared_failure_changes_nothing_and_keeps_the_confirmation_spent(house: House) -> None:
    confirmation_id = house.confirm()
    ran = house.write(add, {"by": 101}, confirmation_id=confirmation_id)

    assert (ran.status, ran.code, ran.message) == (Status.FAILED, "too_much", TooMuch.public)
    assert (house.counter(), house.count(models.outbox), house.count(models.step)) == (0, 0, 0)
    assert house.confirmation_state(confirmation_id) == "spent"
    assert house.run(ran.run_id).message == TooMuch.public
    assert house.events(ran.run_id) == ["call.failed"]


def test_a_surprise_is_internal_and_its_words_stay_in_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    @flow(id="counter.boom", title="Boom", effects=[writes("counter", Counter)], asks="Boom")
    def boom(_params: Nothing, world: World) -> Value:
        """Break."""
        world.session.execute(update(Counter).values(value=9))
        raise RuntimeError("password=hunter2")

    ran = house.write(boom)

    assert (ran.status, ran.code, ran.message) == (Status.FAILED, "internal", AppError.public)
    assert house.counter() == 0
    assert "hunter2" not in str(house.run(ran.run_id))
    assert "hunter2" in caplog.text


def test_an_undeclared_flow_error_is_a_surprise_too(house: House) -> None:
    undeclared = replace(add, errors=())

    ran = house.write(undeclared, {"by": 101})

    assert (ran.status, ran.code) == (Status.FAILED, "internal")


def test_a_refused_spend_ends_the_run_refused_and_frees_its_request_id(house: House) -> None:
    spent = house.confirm()
    house.write(add, confirmation_id=spent, request_id="first")

    ran = house.write(add, confirmation_id=spent, request_id="wish")

    assert (ran.status, ran.code, house.counter()) == (Status.REFUSED, Spent.code, 1)
    assert house.run(ran.run_id).status == "refused"
    assert house.events(ran.run_id) == ["call.refused"]
    assert house.engine.replay(caller(), add, "wish", house.admit(add).arguments.digest) is None
    assert house.write(add, request_id="wish").status is Status.DONE


def test_the_confirmation_is_the_request_id_when_none_is_given(house: House) -> None:
    confirmation_id = house.confirm()
    first = house.write(add, confirmation_id=confirmation_id)

    again = house.write(add, confirmation_id=confirmation_id)

    assert (again.run_id, again.status, again.kept, again.result) == (first.run_id, Status.DONE, True, {"value": 1})
    assert house.counter() == 1


def test_the_same_request_id_replays_the_same_wish_and_refuses_another(house: House) -> None:
    first = house.write(add, {"by": 2}, request_id="wish")
    plan = house.admit(add, {"by": 2}).arguments.digest
    other_plan = house.admit(add, {"by": 3}).arguments.digest

    kept = house.engine.replay(caller(), add, "wish", plan)
    assert kept == replace(first, kept=True)
    with pytest.raises(RequestIdConflict):
        house.engine.replay(caller(), add, "wish", other_plan)
    raced = house.write(add, {"by": 3}, request_id="wish")
    assert (raced.status, raced.code, raced.run_id) == (Status.REFUSED, "request_id_conflict", None)
    assert house.counter() == 2


@pytest.mark.parametrize("other", [caller("op_bob"), caller(client_id="other")])
def test_a_request_id_belongs_to_one_operator_client_and_flow(house: House, other: Any) -> None:
    house.write(add, request_id="wish")
    plan = house.admit(add).arguments.digest

    assert house.engine.replay(other, add, "wish", plan) is None
    assert house.engine.replay(caller(), read_then_write, "wish", plan) is None
    assert house.write(add, request_id="wish", caller=other).kept is False
    assert house.counter() == 2


def test_a_failed_run_holds_its_request_id(house: House) -> None:
    failed = house.write(add, {"by": 101}, request_id="wish")

    again = house.write(add, {"by": 101}, request_id="wish")

    assert (again.run_id, again.status, again.code, again.kept) == (failed.run_id, Status.FAILED, "too_much", True)


def test_a_request_id_is_free_again_after_thirty_days(house: House, clock: SetClock) -> None:
    first = house.write(add, request_id="wish")
    clock.forward(days=30, seconds=1)

    second = house.write(add, request_id="wish")

    assert (second.kept, second.run_id == first.run_id, house.counter()) == (False, False, 2)


def test_a_key_that_another_call_took_over_meanwhile_stays_taken(
    house: House, clock: SetClock, database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_kind == "sqlite":
        pytest.skip("on SQLite nobody writes beside the one who accepts")
    house.write(add, request_id="wish")
    clock.forward(days=30, seconds=1)
    find, other = house.engine._writes._runs._find_row, house.admit(add)

    def overtaken(connection: Connection, key: Any) -> Any:
        monkeypatch.undo()
        found = find(connection, key)
        rival = threading.Thread(target=lambda: house.write(add, request_id="wish", run_id=other.run_id))
        rival.start()
        rival.join()
        return found

    monkeypatch.setattr(house.engine._writes._runs, "_find_row", overtaken)
    late = house.write(add, request_id="wish")

    assert (late.status, late.code, house.counter()) == (Status.REFUSED, "conflict", 2)
    assert house.write(add, request_id="wish").run_id == other.run_id


def test_a_value_that_does_not_fit_stays_out_of_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    class Card(Params):
        """A card."""

        pin: Annotated[str, Secret()]

    @flow(id="card.odd", title="Odd", effects=[])
    def odd(params: Card, _world: World) -> Value:
        """Give what doesn't fit."""
        return Value(value=params.pin)  # type: ignore[arg-type]

    assert house.read(odd, {"pin": "canary-4417"}).code == "internal"
    assert "valid integer" in caplog.text
    assert "canary-4417" not in caplog.text


def test_a_result_with_sensitive_fields_is_not_kept_for_a_replay(house: House) -> None:
    class Key(Result):
        """A new key."""

        key: Annotated[str, Sensitive()]
        pin: Annotated[str, Secret()]

    @flow(id="key.make", title="Make", effects=[writes("counter", Counter)], asks="Make a key")
    def make_key(_params: Nothing, _world: World) -> Key:
        """Make a key."""
        return Key(key="k1", pin="1234")

    first = house.write(make_key, request_id="wish")
    again = house.write(make_key, request_id="wish")

    assert first.result == {"key": "k1", "pin": "***"}
    assert (again.kept, again.status, again.result) == (True, Status.DONE, None)
    assert house.run(first.run_id).result is None


def test_sensitive_arguments_are_recorded_as_digests(house: House) -> None:
    class Card(Params):
        """A card."""

        number: Annotated[str, Sensitive()]
        pin: Annotated[str, Secret()]

    @flow(id="card.check", title="Check", effects=[])
    def check(_params: Card, _world: World) -> Value:
        """Check."""
        return Value(value=1)

    ran = house.read(check, {"number": "4417", "pin": "0000"})

    recorded = house.run(ran.run_id).arguments
    assert "4417" not in recorded
    assert "0000" not in recorded
    assert '"sha256"' in recorded


def test_a_result_over_the_cap_is_refused_and_undone(house: House) -> None:
    class Long(Result):
        """Long."""

        text: str

    @flow(id="text.long", title="Long", effects=[writes("counter", Counter)], asks="Long")
    def long(_params: Nothing, world: World) -> Long:
        """Give too much."""
        world.session.execute(update(Counter).values(value=9))
        return Long(text="x" * house.settings.result_bytes)

    ran = house.write(long)

    assert (ran.status, ran.code, ran.result, house.counter()) == (Status.FAILED, "result_too_large", None, 0)


def test_what_is_not_the_declared_result_is_a_failure(house: House) -> None:
    @flow(id="odd.one", title="Odd", effects=[])
    def odd(_params: Nothing, _world: World) -> Value:
        """Give something else."""
        return {"value": 1}  # type: ignore[return-value]

    assert house.read(odd).code == "internal"


def test_a_run_whose_lease_is_over_ends_interrupted_and_frees_its_request_id(house: House, clock: SetClock) -> None:
    admitted = house.admit(add, confirmation_id=house.confirm(), request_id="wish")

    def killed(_connection: Connection) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        house.write_admitted(admitted, spend=killed)
    running = house.write(add, request_id="wish")
    assert (running.status, running.kept, running.run_id) == (Status.RUNNING, True, admitted.run_id)
    assert house.engine.reap(house.record_reaped) == 0

    clock.forward(seconds=60)
    assert house.engine.reap(house.record_reaped) == 1
    assert house.engine.reap(house.record_reaped) == 0

    run = house.run(admitted.run_id)
    assert (run.status, run.code, run.ended_at) == ("interrupted", "interrupted", clock.now())
    assert house.events(admitted.run_id) == ["call.interrupted"]
    assert house.write(add, request_id="wish").status is Status.DONE
    assert house.counter() == 1


def test_a_flow_that_takes_too_long_is_stopped_at_its_next_statement(house: House, clock: SetClock) -> None:
    @flow(id="counter.late", title="Late", effects=[writes("counter", Counter)], asks="Late")
    def late(_params: Nothing, world: World) -> Value:
        """Take too long."""
        world.session.execute(update(Counter).values(value=9))
        clock.forward(seconds=6)
        return Value(value=9)

    ran = house.write(late)

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "took_too_long", 0)


def test_facts_are_read_on_the_server_and_their_failures_are_said_or_hidden(house: House) -> None:
    def facts(params: Amount, world: World) -> dict[str, object]:
        if params.by > 100:
            raise TooMuch
        if params.by < 0:
            raise RuntimeError("hunter2")
        return {"value": world.session.scalars(update(Counter).values(value=1)) if params.by == 7 else 0}

    asked = replace(add, facts=facts)

    def facts_of(by: int) -> Any:
        return house.engine.facts(asked, house.admit(asked, {"by": by}).arguments, caller())

    assert facts_of(1) == {"value": 0}
    with pytest.raises(TooMuch):
        facts_of(101)
    for by in (-1, 7):  # 7: facts can't write
        with pytest.raises(FactsFailed) as failed:
            facts_of(by)
        assert "hunter2" not in failed.value.public
    assert house.counter() == 0


def test_a_run_is_looked_at_again_in_its_own_transaction_without_steps_and_without_writing(house: House) -> None:
    seen: list[Any] = []

    def look(world: World) -> None:
        seen.append(get_counter.function(Nothing(), world).value)

    def change(world: World) -> None:
        world.session.execute(update(Counter).values(value=9))

    ran = house.write_admitted(house.admit(add, confirmation_id=house.confirm()), recheck=look)
    assert (ran.status, seen, house.counter()) == (Status.DONE, [0], 1)
    assert [step.detail for step in house.run(ran.run_id).steps if step.verb == "read"] == ["1 statement"]

    confirmation_id = house.confirm()
    ran = house.write_admitted(house.admit(add, confirmation_id=confirmation_id), recheck=change)
    assert (ran.status, ran.code, house.counter()) == (Status.REFUSED, "undeclared_effect", 1)
    assert house.confirmation_state(confirmation_id) == "approved"


def test_a_read_flow_can_not_write(house: House) -> None:
    @flow(id="counter.sly", title="Sly", effects=[reads("counter", Counter)])
    def sly(_params: Nothing, world: World) -> Value:
        """Write in a read."""
        world.session.execute(update(Counter).values(value=9))
        return Value(value=9)

    ran = house.read(sly)

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "undeclared_effect", 0)


def test_what_a_read_flow_leaves_in_its_session_is_refused_and_not_lost_silently(house: House) -> None:
    @flow(id="counter.leave", title="Leave", effects=[reads("counter", Counter)])
    def leave(_params: Nothing, world: World) -> Value:
        """Leave something behind."""
        world.session.add(Counter(id=2, value=1))
        return Value(value=1)

    ran = house.read(leave)

    assert (ran.status, ran.code) == (Status.FAILED, "undeclared_effect")


def test_all_statements_of_a_read_see_one_moment(house: House) -> None:
    def change(value: int) -> None:
        with house.database.write() as connection:
            connection.execute(update(Counter).values(value=value))

    @flow(id="counter.twice", title="Twice", effects=[reads("counter", Counter)])
    def twice(_params: Nothing, world: World) -> Value:
        """Read twice."""
        first = get_counter.function(_params, world).value
        with unconfined():
            together(1, lambda _: change(first + 1))
        world.session.expire_all()
        return Value(value=get_counter.function(_params, world).value - first)

    assert house.read(twice).result == {"value": 0}
    assert house.counter() == 1


def test_points_are_passed_in_order(database_url: str, tmp_path: Path, clock: SetClock) -> None:
    passed: list[str] = []
    with open_house(database_url, tmp_path, clock, at=passed.append) as house:
        house.write(add)

    assert tuple(passed) == POINTS


def test_a_failed_end_that_can_not_be_written_is_left_to_the_reaper(
    house: House, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(connection: Connection, _ran: object) -> None:
        connection.execute(text("SELECT * FROM no_such_table"))

    admitted = house.admit(add, {"by": 101}, confirmation_id=house.confirm(), request_id="wish")
    ran = house.write_admitted(admitted, record=broken)

    assert (ran.run_id, ran.status, ran.code) == (admitted.run_id, Status.RUNNING, None)
    assert house.run(admitted.run_id).status == "running"
    assert "could not be written" in caplog.text

    clock.forward(seconds=60)
    assert house.engine.reap(house.record_reaped) == 1
    assert house.run(admitted.run_id).status == "interrupted"
    assert house.confirmation_state(admitted.confirmation_id or "") == "approved"


def test_a_commit_whose_answer_is_lost_is_not_called_failed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = house.database.writing.dialect.do_commit
    lost: list[int] = []

    def lose(connection: Any) -> None:
        commit(connection)
        if lost:
            lost.pop()
            raise house.database.writing.dialect.loaded_dbapi.OperationalError("the answer is lost")

    def fail(*_given: Any) -> None:
        raise PoolTimeout

    def recorded(connection: Connection, ran: Ran) -> None:
        lost.append(1)
        monkeypatch.setattr(house.engine._writes._runs, "get", fail)

    monkeypatch.setattr(house.database.writing.dialect, "do_commit", lose)
    ran = house.write_admitted(house.admit(add, confirmation_id=house.confirm()), record=recorded)

    assert (ran.status, house.counter()) == (Status.RUNNING, 1)
    monkeypatch.undo()
    assert house.run(ran.run_id).status == "done"


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in threads that start at one moment; give what they gave."""
    gate, given = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        gate.wait()
        given[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


def test_four_hundred_read_then_write_flows_lose_no_update_and_all_are_done(database_url: str, tmp_path: Path) -> None:
    with open_house(database_url, tmp_path, SystemClock()) as house:
        statuses = together(4, lambda _: [house.write(read_then_write).status for _ in range(100)])

        assert [status for several in statuses for status in several] == [Status.DONE] * 400
        assert house.counter() == 400


@pytest.mark.parametrize("wishes", [(None, None), (None, "a"), ("a", "b")])
def test_of_two_parallel_calls_with_one_confirmation_one_runs(
    database_url: str, tmp_path: Path, wishes: tuple[str | None, str | None]
) -> None:
    with open_house(database_url, tmp_path, SystemClock()) as house:
        for done in range(1, 11):
            confirmation_id = house.confirm()

            def call(number: int, confirmation_id: str = confirmation_id) -> Ran:
                wish = wishes[number]
                request_id = confirmation_id if wish is None else confirmation_id + wish
                return house.write(add, confirmation_id=confirmation_id, request_id=request_id)

            ran = together(2, call)

            assert house.counter() == done
            assert [one.status for one in ran if not one.kept].count(Status.DONE) == 1


def test_a_run_that_was_reaped_while_it_worked_ends_as_the_reaper_said(house: House, database_kind: str) -> None:
    if database_kind == "sqlite":
        pytest.skip("on SQLite work holds the only writer lock, so nobody reaps meanwhile")
    confirmation_id = house.confirm()
    admitted = house.admit(add, confirmation_id=confirmation_id, request_id="wish")

    def reaped_meanwhile(_connection: Connection, _ran: object) -> None:
        with house.database.write() as other:
            ended = models.run.update().where(models.run.c.id == admitted.run_id)
            other.execute(ended.values(status="interrupted", code="interrupted"))

    ran = house.write_admitted(admitted, record=reaped_meanwhile)

    assert (ran.status, ran.code, ran.kept) == (Status.INTERRUPTED, "interrupted", False)
    assert (house.counter(), house.count(models.step), house.count(models.outbox)) == (0, 0, 0)
    assert house.confirmation_state(confirmation_id) == "approved"


def test_a_busy_database_refuses_the_run_and_loses_nothing(
    database_url: str, tmp_path: Path, database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_kind != "sqlite":
        pytest.skip("PostgreSQL has no single writer lock")
    monkeypatch.setattr("core.db.BUSY_MS", 50)
    with open_house(database_url, tmp_path, SystemClock()) as house:
        confirmation_id = house.confirm()
        with house.database.write():
            ran = house.write(add, confirmation_id=confirmation_id, request_id="wish")

        assert (ran.status, ran.code, ran.run_id) == (Status.REFUSED, "unavailable", None)
        assert house.write(add, confirmation_id=confirmation_id, request_id="wish").status is Status.DONE


def test_work_waits_for_a_lock_no_longer_than_it_may_work(
    database_url: str, tmp_path: Path, database_kind: str
) -> None:
    if database_kind == "sqlite":
        pytest.skip("on SQLite nobody else can hold a lock while work has the only one")
    with open_house(database_url, tmp_path, SystemClock(), work_deadline=timedelta(milliseconds=400)) as house:
        confirmation_id = house.confirm()
        with house.database.write() as rival:
            rival.execute(update(Counter).values(value=5))
            ran = house.write(add, confirmation_id=confirmation_id)

        assert (ran.status, ran.code) == (Status.REFUSED, "unavailable")
        assert house.confirmation_state(confirmation_id) == "approved"


def count_for_ever(world: World) -> Value:
    """Let the database count further than it comes."""
    numbers = select(literal(1).label("number")).cte(recursive=True)
    numbers = numbers.union_all(select(numbers.c.number + 1).where(numbers.c.number < 10**9))
    return Value(value=world.session.scalars(select(func.count()).select_from(numbers)).one())


@flow(id="counter.doze", title="Doze", effects=[writes("counter", Counter)], asks="Doze")
def doze(_params: Nothing, world: World) -> Value:
    """Let the database work on and on inside of a write."""
    return count_for_ever(world)


@flow(id="counter.gaze", title="Gaze", effects=[reads("counter", Counter)])
def gaze(_params: Nothing, world: World) -> Value:
    """Let the database work on and on."""
    return count_for_ever(world)


def test_a_statement_that_works_on_and_on_is_stopped(database_url: str, tmp_path: Path) -> None:
    short = timedelta(milliseconds=50)
    with open_house(database_url, tmp_path, SystemClock(), work_deadline=short, read_deadline=short) as house:
        wrote, read, after = house.write(doze), house.read(gaze), house.read(get_counter)

    assert (wrote.status, wrote.code) == (Status.FAILED, "took_too_long")
    assert (read.status, read.code) == (Status.FAILED, "took_too_long")
    assert after.status is Status.DONE


class Gone(Unwatched):
    """A client that has left."""

    def is_gone(self) -> bool:
        return True


def test_a_read_that_nobody_waits_for_ends_and_a_write_does_not(house: House) -> None:
    read = house.read(get_counter, watch=Gone())
    wrote = house.write(add, {"by": 1}, watch=Gone())

    assert (read.status, read.code, wrote.status) == (Status.FAILED, "cancelled", Status.DONE)


def test_on_sqlite_a_statement_that_nobody_waits_for_is_stopped(house: House, database_kind: str) -> None:
    if database_kind != "sqlite":
        pytest.skip("PostgreSQL stops a statement by time alone")

    class GoneSoon(Unwatched):
        """A client that leaves while its statement runs."""

        asked = 0

        def is_gone(self) -> bool:
            self.asked += 1
            return self.asked > 3

    ran = house.read(gaze, watch=GoneSoon())

    assert (ran.status, ran.code) == (Status.FAILED, "cancelled")


def test_each_try_is_given_the_arguments_as_they_were_confirmed(house: House) -> None:
    class Several(Params):
        """Some numbers."""

        numbers: list[int]

    class Serialization(Exception):
        sqlstate = "40001"

    seen: list[list[int]] = []

    def facts(params: Several, _world: World) -> dict[str, object]:
        return {"first": params.numbers.pop(0)}

    @flow(id="counter.eat", title="Eat", effects=[writes("counter", Counter)], asks="Eat {first}", facts=facts)
    def eat(params: Several, _world: World) -> Value:
        """Use its arguments up."""
        seen.append(params.numbers[:])
        params.numbers.clear()
        if len(seen) == 1:
            raise DBAPIError("UPDATE", {}, Serialization())
        return Value(value=len(seen))

    admitted = house.admit(eat, {"numbers": [1, 2]}, confirmation_id=house.confirm())
    assert house.engine.facts(eat, admitted.arguments, caller()) == {"first": 1}
    ran = house.write_admitted(admitted)

    assert (ran.status, seen) == (Status.DONE, [[1, 2], [1, 2]])
    assert house.run(ran.run_id).arguments == '{"numbers":[1,2]}'


def test_a_conflict_that_never_ends_is_refused_and_the_confirmation_stays(house: House, database_kind: str) -> None:
    tries = []

    class Serialization(Exception):
        sqlstate = "40001"

    @flow(id="counter.rival", title="Rival", effects=[writes("counter", Counter)], asks="Rival")
    def rival(_params: Nothing, _world: World) -> Value:
        """Always meet somebody."""
        tries.append(1)
        raise DBAPIError("UPDATE", {}, Serialization())

    confirmation_id = house.confirm()
    ran = house.write(rival, confirmation_id=confirmation_id)

    assert (ran.status, ran.code, len(tries)) == (Status.REFUSED, "conflict", 10)
    assert house.confirmation_state(confirmation_id) == "approved"
