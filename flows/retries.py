"""Work that PostgreSQL couldn't put in order is done again, for a while (design D7: 40001, 40P01)."""

import random
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from core.clock import Clock
from core.db import is_serialization_failure
from core.errors import Conflict

T = TypeVar("T")

TRIES = 10
FIRST_PAUSE = 0.01  # seconds, doubled with each try
LAST_MOMENT = 0.25  # of what is left: the longest pause that leaves time for the work after it


def random_pause(longest: float) -> None:
    """Sleep for a random part of `longest` seconds, so that two rivals don't meet again."""
    time.sleep(random.uniform(longest / 4, longest))  # noqa: S311 - chance without a secret


class NeverInOrder(Conflict):
    """The work met somebody else's at every try."""


class Retries:
    """Tries again, and lets nobody of this process start the same work beside a second try.

    Pauses alone leave each try the same odds against newcomers; with the turn, a second try meets only those who had
    started before it, and other processes.
    """

    def __init__(self, clock: Clock, pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._turns: dict[str, threading.Lock] = {}

    def until_done(self, name: str | None, within: timedelta, work: Callable[[], T]) -> T:
        """Give what `work` gives; raises NeverInOrder after 10 tries or when the time is over.

        Without a name nobody waits for a turn: for work that may wait for somebody outside.
        """
        turn = threading.Lock() if name is None else self._turns.setdefault(name, threading.Lock())
        until = self._clock.now() + within
        if turn.acquire(timeout=self._left(until)):  # wait for a second try, then let everybody pass
            turn.release()
        try:
            return work()
        except DBAPIError as error:
            if not is_serialization_failure(error):
                raise
        return self._again(turn, until, work)

    def _again(self, turn: threading.Lock, until: datetime, work: Callable[[], T]) -> T:
        for number in range(TRIES - 1):
            if not self._left(until):
                break
            self._pause(min(FIRST_PAUSE * 2**number, self._left(until) * LAST_MOMENT))
            if not turn.acquire(timeout=self._left(until)):
                break
            try:
                return work()
            except DBAPIError as error:
                if not is_serialization_failure(error):
                    raise
            finally:
                turn.release()
        raise NeverInOrder

    def _left(self, until: datetime) -> float:
        return max((until - self._clock.now()).total_seconds(), 0)
