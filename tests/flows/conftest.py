"""The test application on a database of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.house import House, SetClock, open_house


@pytest.fixture
def clock() -> SetClock:
    """A clock that only the test moves."""
    return SetClock()


@pytest.fixture
def house(database_url: str, tmp_path: Path, clock: SetClock) -> Iterator[House]:
    """Everything that runs a flow; it never really pauses between two tries."""
    with open_house(database_url, tmp_path, clock, pause=lambda _longest: None) as made:
        yield made
