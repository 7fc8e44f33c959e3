"""Work that can't be put in order is done again, for a while."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from flows.retries import TRIES, NeverInOrder, Retries
from tests.flows.house import SetClock

SECONDS = timedelta(seconds=5)


class Serialization(Exception):
    sqlstate = "40001"


def failing(times: int, error: Exception, tries: list[int]) -> Callable[[], str]:
    def work() -> str:
        tries.append(1)
        if len(tries) <= times:
            raise error
        return "done"

    return work


def conflict() -> DBAPIError:
    return DBAPIError("UPDATE", {}, Serialization())


@pytest.mark.parametrize("failures", [0, 1, TRIES - 1])
def test_work_is_tried_until_it_is_done_with_pauses_that_double(failures: int) -> None:
    tries: list[int] = []
    pauses: list[float] = []

    assert Retries(SetClock(), pauses.append).until_done("a", SECONDS, failing(failures, conflict(), tries)) == "done"

    assert len(tries) == failures + 1
    assert pauses == [min(0.01 * 2**number, 1.25) for number in range(failures)]


def test_it_is_given_up_after_ten_tries() -> None:
    tries: list[int] = []

    with pytest.raises(NeverInOrder):
        Retries(SetClock(), lambda _: None).until_done("a", SECONDS, failing(99, conflict(), tries))
    assert len(tries) == TRIES


def test_any_other_error_is_not_tried_again() -> None:
    for failures, error in ((1, RuntimeError()), (1, DBAPIError("x", {}, Exception()))):
        tries: list[int] = []
        with pytest.raises(type(error)):
            Retries(SetClock(), lambda _: None).until_done("a", SECONDS, failing(failures, error, tries))
        assert len(tries) == 1


def test_the_turn_is_free_after_every_end() -> None:
    retries = Retries(SetClock(), lambda _: None)
    for error in (conflict(), RuntimeError()):
        with pytest.raises((NeverInOrder, RuntimeError)):
            retries.until_done("a", SECONDS, failing(99, error, []))

    assert not retries._turns["a"].locked()
    assert retries.until_done("a", SECONDS, lambda: 1) == 1


def test_no_time_left_is_the_end() -> None:
    clock, tries = SetClock(), []

    def late() -> None:
        tries.append(1)
        clock.forward(seconds=6)
        raise conflict()

    with pytest.raises(NeverInOrder):
        Retries(clock, lambda _: None).until_done("a", SECONDS, late)
    assert len(tries) == 1


def test_a_second_try_without_a_name_keeps_nobody_waiting() -> None:
    retries, passed = Retries(SetClock(), lambda _longest: None), threading.Event()
    tries: list[int] = []

    def calling() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise conflict()
        other = threading.Thread(target=lambda: retries.until_done(None, SECONDS, passed.set))
        other.start()
        assert passed.wait(2)
        other.join()
        return "done"

    assert retries.until_done(None, SECONDS, calling) == "done"
