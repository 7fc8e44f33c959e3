"""Fixtures of the authorization server's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
