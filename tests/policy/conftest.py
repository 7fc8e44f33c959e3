"""The house of the policy tests, on whichever database the test runs."""

from collections.abc import Iterator

import pytest

from tests.policy.house import House, open_house


@pytest.fixture
def house(database_url: str) -> Iterator[House]:
    """An empty house on a fresh database."""
    made = open_house(database_url)
    yield made
    made.close()
