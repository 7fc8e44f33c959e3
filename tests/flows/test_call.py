"""`world.call`: what came before it stays, nothing is called twice, and nobody pretends to know what they don't."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import ForeignKey, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from core.db import Work
from flows import models
from flows.confine import unconfined
from flows.effects import calls, reads, reads_outside, sends, writes
from flows.envelope import Status
from flows.operation import FlowError, flow
from flows.reconcile import AFTERWARDS, DECLINED_THEN_STOPPED, how_to_reconcile
from flows.world import World
from flows.writes import POINTS, POINTS_OF_A_CALL
from tests.flows.house import Counter, House, Nothing, Person, SetClock, Value, get_counter, open_house

pytestmark = pytest.mark.db
ADVICE = "Look for the key among the payments."


class Declined(FlowError):
    """The payment service said no."""

    code = "declined"
    public = "The payment was declined."


class Later(DeclarativeBase):
    """What is refused at COMMIT only."""


class Debt(Later):
    __tablename__ = "app_debt"
    id: Mapped[int] = mapped_column(primary_key=True)
    of: Mapped[int] = mapped_column(ForeignKey("app_debt.id", deferrable=True, initially="DEFERRED"))


class Elsewhere:
    """The outside: notes the keys it is called with, and does there, as another process would, what a test says."""

    def __init__(self, act: Callable[[], Any] = lambda: "ok") -> None:
        self.keys: list[str] = []
        self.act = act

    def __call__(self, key: str) -> Any:
        self.keys.append(key)
        with unconfined():
            return self.act()


def paying(outside: Callable[[str], Any], after: Callable[[World], None] = lambda _world: None) -> Any:
    @flow(
        id="counter.pay",
        title="Pay",
        effects=[writes("counter", Counter), sends("email"), calls("payments", reconcile=ADVICE)],
        asks="Pay",
        errors=(Declined,),
    )
    def pay(_params: Nothing, world: World) -> Value:
        """Note the payment, pay, and count it as paid."""
        counter = world.session.scalars(select(Counter)).one()
        counter.value = 10
        world.send("email", to="ada@example.test", subject="On its way", text="soon")
        world.call("payments", outside)
        after(world)
        counter.value += 1
        return Value(value=counter.value)

    return pay


def test_a_call_is_made_once_between_two_commits_and_its_key_is_on_record(house: House) -> None:
    seen: list[Any] = []
    outside = Elsewhere(lambda: seen.append((house.counter(), house.count(models.outbox))))
    confirmation_id = house.confirm()

    ran = house.write(paying(outside), confirmation_id=confirmation_id)

    assert (ran.status, ran.result, house.counter()) == (Status.DONE, {"value": 11}, 11)
    assert seen == [(10, 1)], "what came before the call is committed when it is made"
    assert outside.keys == [f"{ran.run_id}-1"]
    assert house.confirmation_state(confirmation_id) == "spent"
    steps = [(step.verb, step.target, step.detail) for step in house.run(ran.run_id).steps]
    assert ("call", "payments", f"key {ran.run_id}-1, answered") in steps
    assert ("write", "counter", "2 rows in 2 statements") in steps
    assert house.events(ran.run_id) == ["call.done"]
    assert house.count(models.outbox) == 1


def test_while_it_calls_nobody_waits_for_a_lock(house: House) -> None:
    def meanwhile() -> None:
        with house.database.write() as connection:
            connection.execute(update(Counter).values(value=50))

    ran = house.write(paying(Elsewhere(meanwhile)))

    assert (ran.status, house.counter()) == (Status.DONE, 51), "the part after it sees what others did meanwhile"


def test_a_call_that_the_outside_declines_has_failed(house: House) -> None:
    def decline() -> None:
        raise Declined

    ran = house.write(paying(Elsewhere(decline)))

    assert (ran.status, ran.code, ran.message) == (Status.FAILED, "declined", Declined.public)
    assert house.counter() == 10, "what came before the call stays, and its steps say so"
    run = house.run(ran.run_id)
    assert [(step.verb, step.detail) for step in run.steps if step.verb in ("call", "write")] == [
        ("write", "1 row in 1 statement"),
        ("call", f"key {ran.run_id}-1, declined"),
    ]
    assert how_to_reconcile(run, None) is None


def test_a_declined_call_may_be_handled(house: House) -> None:
    def decline() -> None:
        raise Declined

    @flow(
        id="counter.try",
        title="Try",
        effects=[writes("counter", Counter), calls("payments")],
        asks="Try",
        errors=(Declined,),
    )
    def attempt(_params: Nothing, world: World) -> Value:
        """Try to pay and note that it was declined."""
        with suppress(Declined):
            world.call("payments", Elsewhere(decline))
        world.session.execute(update(Counter).values(value=-1))
        return Value(value=-1)

    ran = house.write(attempt)

    assert (ran.status, house.counter()) == (Status.DONE, -1)


@pytest.mark.parametrize("when", ["in the call", "after it", "declared, after it"])
def test_any_other_end_is_unknown_and_holds_its_request_id(house: House, when: str) -> None:
    def break_down(_world: object = None) -> None:
        raise Declined if when.startswith("declared") else TimeoutError("nobody answered")

    outside = Elsewhere(break_down) if when == "in the call" else Elsewhere()
    pay = paying(outside, after=lambda world: None if when == "in the call" else break_down(world))
    admitted = house.admit(pay, confirmation_id=house.confirm(), request_id="wish")

    ran = house.write_admitted(admitted)

    assert (ran.status, ran.code) == (Status.UNKNOWN, "unknown")
    assert ran.message is not None
    assert f"{ran.run_id}-1" in ran.message
    assert (house.counter(), len(outside.keys)) == (10, 1)
    assert house.events(ran.run_id) == ["call.unknown"]
    run = house.run(ran.run_id)
    known = "not known whether it took place" if when == "in the call" else "answered"
    told = f"Look at payments: key {ran.run_id}-1, {known}. {ADVICE} {AFTERWARDS}"
    assert how_to_reconcile(run, pay) == told

    again = house.write_admitted(replace(admitted, run_id="run_2"))
    assert (again.status, again.run_id, again.kept) == (Status.UNKNOWN, ran.run_id, True)
    assert len(outside.keys) == 1, "never called a second time"


def test_a_serialization_failure_after_a_call_is_not_tried_again(house: House) -> None:
    class Failure(Exception):
        sqlstate = "40001"

    outside = Elsewhere()
    ran = house.write(paying(outside, after=lambda _world: _raise(OperationalError("x", None, Failure()))))

    assert (ran.status, len(outside.keys)) == (Status.UNKNOWN, 1)


def test_a_serialization_failure_before_the_call_is_tried_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failure(Exception):
        sqlstate = "40001"

    commit, tries = Work.commit, []

    def fail_once(self: Work) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OperationalError("x", None, Failure())
        commit(self)

    monkeypatch.setattr(Work, "commit", fail_once)
    outside = Elsewhere()

    ran = house.write(paying(outside))

    assert (ran.status, house.counter(), len(outside.keys)) == (Status.DONE, 11, 1)


def test_a_lost_answer_to_the_commit_before_the_call_calls_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_self: Work) -> None:
        raise OperationalError("x", None, ConnectionError("gone"))

    monkeypatch.setattr(Work, "commit", lost)
    outside = Elsewhere()

    ran = house.write(paying(outside))

    assert (ran.status, outside.keys) == (Status.UNKNOWN, [])


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_lost_answer_leaves_the_steps_as_the_database_has_them(
    house: House, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    commit = Work.commit

    def lost(self: Work) -> None:
        if is_committed:
            commit(self)
        raise OperationalError("x", None, ConnectionError("gone"))

    monkeypatch.setattr(Work, "commit", lost)
    ran = house.write(paying(Elsewhere()))

    steps = [step.verb for step in house.run(ran.run_id).steps]
    assert (ran.status, house.counter()) == (Status.UNKNOWN, 10 if is_committed else 0)
    assert steps == (["read", "send", "write", "call"] if is_committed else [])


def owing(call: Callable[[World], object] = lambda _world: None) -> Any:
    @flow(
        id="counter.owe",
        title="Owe",
        effects=[writes("counter", Counter), writes("debts", Debt), calls("payments")],
        asks="Owe",
    )
    def owe(_params: Nothing, world: World) -> Value:
        """Note what the database refuses when it is committed."""
        world.session.execute(update(Counter).values(value=10))
        world.session.add(Debt(id=1, of=999))
        call(world)
        return Value(value=1)

    return owe


@pytest.mark.parametrize("has_call", [True, False])
def test_what_the_database_refuses_to_commit_has_failed_and_holds_no_lock(house: House, has_call: bool) -> None:
    Debt.metadata.create_all(house.database.writing)
    outside = Elsewhere()

    ran = house.write(owing(lambda world: world.call("payments", outside)) if has_call else owing())

    assert (ran.status, outside.keys, house.counter()) == (Status.FAILED, [], 0)
    assert house.run(ran.run_id).status == "failed"
    assert house.write(paying(Elsewhere())).status is Status.DONE


def test_a_call_whose_next_part_can_not_begin_was_answered(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, parts = Work.begin, []

    def busy(self: Work) -> None:
        parts.append(1)
        if len(parts) == 2:
            raise OperationalError("x", None, ConnectionError("database is locked"))
        begin(self)

    monkeypatch.setattr(Work, "begin", busy)
    ran = house.write(paying(Elsewhere()))

    assert ran.status is Status.UNKNOWN
    assert f"key {ran.run_id}-1, answered" in [step.detail for step in house.run(ran.run_id).steps]


def test_a_lost_call_that_the_flow_swallows_is_unknown_and_nothing_is_called_again(house: House) -> None:
    outside = Elsewhere(lambda: _raise(TimeoutError()))

    def insist(_params: Nothing, world: World) -> Value:
        for _ in range(3):
            with suppress(Exception):
                world.call("payments", outside)
        return Value(value=1)

    ran = house.write(replace(paying(outside), function=insist))

    assert (ran.status, outside.keys) == (Status.UNKNOWN, [f"{ran.run_id}-1"])


def test_a_read_may_do_without_an_answer(house: House) -> None:
    def ask(_params: Nothing, world: World) -> Value:
        with suppress(TimeoutError):
            world.call("prices", Elsewhere(lambda: _raise(TimeoutError())))
        return Value(value=world.session.scalars(select(Counter.value)).one())

    asking = replace(get_counter, function=ask, effects=(reads("counter", Counter), reads_outside("prices")))

    assert house.read(asking).status is Status.DONE


def test_what_is_stopped_after_a_declined_call_says_that_something_stayed(house: House) -> None:
    def go_on(_params: Nothing, world: World) -> Value:
        world.session.execute(update(Counter).values(value=10))
        with suppress(Declined):
            world.call("payments", Elsewhere(lambda: _raise(Declined())))
        world.session.execute(select(Person)).all()
        return Value(value=1)

    ran = house.write(replace(paying(Elsewhere()), function=go_on))

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "undeclared_effect", 10)
    assert ran.message == DECLINED_THEN_STOPPED


@pytest.mark.parametrize("block", ["begin", "begin_nested"])
def test_a_call_in_the_middle_of_a_block_is_not_made(house: House, block: str) -> None:
    outside = Elsewhere()

    def enclose(_params: Nothing, world: World) -> Value:
        with getattr(world.session, block)():
            world.session.execute(update(Counter).values(value=10))
            world.call("payments", outside)
        return Value(value=1)

    ran = house.write(replace(paying(outside), function=enclose))

    assert (ran.status, outside.keys, house.counter()) == (Status.FAILED, [], 0)


def test_what_is_refused_inside_of_a_call_is_no_word_of_the_outside(house: House) -> None:
    def act(_params: Nothing, world: World) -> Value:
        world.call("payments", lambda _key: world.session.execute(select(Counter)))
        return Value(value=1)

    ran = house.write(replace(paying(Elsewhere()), function=act, errors=(FlowError,)))

    assert ran.status is Status.UNKNOWN


def test_the_session_is_closed_to_what_is_called(house: House) -> None:
    worlds: list[World] = []

    def reach_back(_key: str) -> None:
        worlds[0].session.execute(update(Counter).values(value=99))

    @flow(id="counter.back", title="Back", effects=[writes("counter", Counter), calls("payments")], asks="Back")
    def back(_params: Nothing, world: World) -> Value:
        """Use the session inside of the call."""
        worlds.append(world)
        world.session.execute(select(Counter)).all()
        with suppress(FlowError):
            world.call("payments", reach_back)
        return Value(value=0)

    ran = house.write(back)

    assert (ran.status, house.counter()) == (Status.UNKNOWN, 0)


@pytest.mark.parametrize("how", ["undeclared", "read-only", "inside of a call"])
def test_a_call_that_may_not_be_made_is_refused(house: House, how: str) -> None:
    outside = Elsewhere()
    declared = [writes("counter", Counter)] + ([calls("payments")] if how == "inside of a call" else [])

    @flow(id="counter.x", title="X", effects=declared, asks="X")
    def act(_params: Nothing, world: World) -> Value:
        """Call what isn't declared, or in a call."""
        with suppress(FlowError):
            if how == "inside of a call":
                world.call("payments", lambda _key: world.call("payments", outside))
            else:
                world.call("payments", outside)
        return Value(value=1)

    if how == "read-only":
        read = replace(get_counter, function=act.function, effects=(reads("counter", Counter),))
        ran = house.read(read)
    else:
        ran = house.write(act)

    expected = Status.UNKNOWN if how == "inside of a call" else Status.FAILED
    assert (ran.status, outside.keys) == (expected, [])


def test_facts_can_not_call(house: House) -> None:
    outside = Elsewhere()

    def facts(_params: Nothing, world: World) -> dict[str, object]:
        world.call("payments", outside)
        return {}

    pay = replace(paying(outside), facts=facts)
    with pytest.raises(FlowError):
        house.engine.facts(pay, house.admit(pay).arguments, house.admit(pay).caller)
    assert outside.keys == []


def test_a_read_asks_the_outside_what_it_declares(house: House) -> None:
    outside = Elsewhere(lambda: 7)

    def ask(_params: Nothing, world: World) -> Value:
        before = world.session.scalars(select(Counter.value)).one()
        return Value(value=before + world.call("prices", outside))

    asking = replace(get_counter, function=ask, effects=(reads("counter", Counter), reads_outside("prices")))
    ran = house.read(asking)

    assert (ran.status, ran.result) == (Status.DONE, {"value": 7})
    steps = [(step.verb, step.target, step.detail) for step in house.run(ran.run_id).steps]
    assert steps == [("read", "counter", "1 statement"), ("read", "prices", f"key {ran.run_id}-1, answered")]
    assert house.read(replace(asking, effects=(reads("counter", Counter), calls("prices")))).status is Status.FAILED
    with pytest.raises(FlowError):
        house.engine.facts(replace(asking, facts=ask), house.admit(asking).arguments, house.admit(asking).caller)
    assert len(outside.keys) == 1


def test_a_write_calls_only_what_it_declares_to_call(house: House) -> None:
    outside = Elsewhere()
    pay = replace(paying(outside), effects=(writes("counter", Counter), sends("email"), reads_outside("payments")))

    assert (house.write(pay).status, outside.keys) == (Status.FAILED, [])


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@pytest.mark.parametrize("point", POINTS + POINTS_OF_A_CALL)
def test_a_run_that_dies_around_its_call_is_unknown_exactly_where_the_outside_may_have_acted(
    database_url: str, tmp_path: Any, point: str
) -> None:
    def die(reached: str) -> None:
        if reached == point:
            raise Killed

    clock, outside = SetClock(), Elsewhere()
    with open_house(database_url, tmp_path, clock, at=die) as house:
        admitted = house.admit(paying(outside), confirmation_id=house.confirm(), request_id="wish")
        with pytest.raises(Killed):
            house.write_admitted(admitted)
        clock.forward(minutes=5)
        house.engine.reap(house.record_reaped)

        run = house.run(admitted.run_id)
        called = [step.detail for step in run.steps if step.verb == "call"]
        unsure = ("calling", "called", "ran", "recorded")
        assert run.status == ("done" if point == "committed" else "unknown" if point in unsure else "interrupted")
        assert len(outside.keys) == (1 if point in ("called", "ran", "recorded", "committed") else 0)
        assert len(called) == (1 if point in (*unsure, "committed") else 0)
        assert house.counter() == (11 if point == "committed" else 10 if point in unsure else 0)
        state = house.confirmation_state(admitted.confirmation_id or "")
        assert state == ("approved" if run.status == "interrupted" else "spent")
        if run.status != "interrupted":
            again = house.write_admitted(replace(admitted, run_id="run_2"))
            assert (again.status.value, again.kept) == (run.status, True)


def test_a_long_call_keeps_its_lease(house: House) -> None:
    def slow() -> None:
        house.clock.forward(seconds=29)
        assert house.engine.reap(house.record_reaped) == 0

    assert house.write(paying(Elsewhere(slow))).status is Status.DONE


def test_a_call_beyond_its_lease_ends_as_it_was_reaped(house: House) -> None:
    def too_slow() -> None:
        house.clock.forward(minutes=5)
        assert house.engine.reap(house.record_reaped) == 1

    ran = house.write(paying(Elsewhere(too_slow)))

    assert (ran.status, house.counter()) == (Status.UNKNOWN, 10)
    assert house.events(ran.run_id) == ["call.unknown"]


def _raise(error: Exception) -> None:
    raise error
