"""Real clients against the running server, from registration to a write that waits for a person."""

from collections.abc import Callable, Iterator

import pytest

from tests.real_clients.clients import CLIENTS
from tests.real_clients.excused import EXCUSED, stale, unexcused
from tests.real_clients.install import install_clients
from tests.real_clients.place import Place
from tests.real_clients.table import Row, as_text, walk
from tests.support.browser import FormBrowser
from tests.support.server import ALICE, Instance, ServerProcess


@pytest.fixture(scope="module")
def own_server(new_instance: Callable[[], Instance]) -> Iterator[ServerProcess]:
    """A server that no other test registers clients with."""
    install_clients()
    with ServerProcess(new_instance()) as running:
        yield running


@pytest.fixture(scope="module")
def rows(own_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The table; each client has a home and a person's browser of its own."""
    found = []
    for client in CLIENTS:
        browser = FormBrowser(own_server.base_url)
        browser.sign_in(ALICE.email, ALICE.password)
        found.append(walk(client, Place(own_server.mcp_url, tmp_path_factory.mktemp("home"), browser)))
    return found


def test_every_client_gets_to_a_write_that_waits_or_is_excused(
    rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{as_text(rows)}")

    left = unexcused(rows, EXCUSED)

    assert not left, f"\n{as_text(left)}"


def test_every_excuse_is_still_needed(rows: list[Row]) -> None:
    assert not stale(rows, EXCUSED)
