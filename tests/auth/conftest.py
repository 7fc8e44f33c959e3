"""Fixtures of the authorization server's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auth.office import Office
from tests.auth.served import Served
from tests.support.server import Instance


@pytest.fixture
def served_factory(new_instance: Callable[[], Instance]) -> Iterator[Callable[..., Served]]:
    """A function that serves a fresh instance in this process, with settings and maybe a fetcher."""
    running: list[Served] = []

    def make(**settings: Any) -> Served:
        running.append(Served(new_instance(), **settings))
        return running[-1]

    yield make
    for one in running:
        one.stop()


@pytest.fixture
def served(served_factory: Callable[..., Served]) -> Served:
    """A fresh instance in this process, whose clock the test moves."""
    return served_factory()


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """The parts on an empty database, with Alice and the program that she has connected."""
    made = Office(tmp_path)
    made.open()
    yield made
    made.close()
