"""The endpoint on its own, without a network."""

import pytest

from tests.mcp_provider.house import House, make_house


@pytest.fixture
def house() -> House:
    """A development house on localhost."""
    return make_house()
