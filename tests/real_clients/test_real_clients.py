"""Real clients against the running server, from registration to a write that waits for a person."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real_clients.clients import CLIENTS
from tests.real_clients.excused import EXCUSED, stale, unexcused
from tests.real_clients.install import install_clients
from tests.real_clients.place import Place
from tests.real_clients.table import Row, Walk, as_text
from tests.support.browser import FormBrowser
from tests.support.server import ALICE, Instance, ServerProcess
from tests.support.waiting import wait_until

TOKEN_SECONDS = 10  # of an access token; Codex refreshes from half a minute before its end, the others after it


@pytest.fixture(scope="module")
def own_server(new_instance: Callable[[], Instance]) -> Iterator[ServerProcess]:
    """A server that no other test registers clients with, and whose access tokens soon run out."""
    install_clients()
    settings = {"COUNTERSIGN_ACCESS_TOKEN_SECONDS": str(TOKEN_SECONDS)}
    with ServerProcess(new_instance(), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def rows(own_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """The table; each client has a home and a person's browser of its own."""
    walks = [Walk(client, place(own_server, tmp_path_factory.mktemp("home"))) for client in CLIENTS]
    with ExitStack() as open_clients:
        for walk in walks:
            walk.start(open_clients)
        run_out = time.monotonic() + TOKEN_SECONDS
        wait_until("the end of the tokens", lambda: time.monotonic() > run_out)
        for walk in walks:
            walk.return_later()
    return [walk.row for walk in walks]


def place(server: ServerProcess, home: Path) -> Place:
    """Return a client's surroundings with a person who is signed in."""
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    return Place(server.mcp_url, home, browser)


def test_every_client_gets_to_a_write_that_waits_and_stays_signed_in_or_is_excused(
    rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{as_text(rows)}")

    left = unexcused(rows, EXCUSED)

    assert not left, f"\n{as_text(left)}"


def test_every_excuse_is_still_needed(rows: list[Row]) -> None:
    assert not stale(rows, EXCUSED)
