"""The house of the page tests, and the accessibility checker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.house import House


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """The application on a fresh database."""
    made = House(database_url, tmp_path)
    yield made
    made.close()
