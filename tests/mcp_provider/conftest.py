"""The endpoint on its own, and the whole shop behind it, without a network."""

from collections.abc import Iterator

import pytest

from tests.mcp_provider.house import House, make_house
from tests.mcp_provider.shop import Shop, open_shop


@pytest.fixture
def house() -> House:
    """A development house on localhost."""
    return make_house()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The demo shop, whose runs stay for the tests of one module."""
    with open_shop(tmp_path_factory.mktemp("shop")) as opened:
        yield opened
