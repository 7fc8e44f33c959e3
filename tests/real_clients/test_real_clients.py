"""Real clients against the running server: registered, signed in, used, signed in again by themselves, cut off."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.real_clients.clients import CLIENTS
from tests.real_clients.excused import EXCUSED, stale, unexcused
from tests.real_clients.install import install_clients
from tests.real_clients.place import Place
from tests.real_clients.table import Row, Walk, as_text
from tests.support.browser import FormBrowser
from tests.support.server import ALICE, BOB, Instance, Person, ServerProcess
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
    """The table; each client has a home of its own, and two that call themselves the same have two people."""
    people = [signed_in(own_server, person) for person in (ALICE, BOB)]
    walks = [
        Walk(client, Place(own_server.mcp_url, tmp_path_factory.mktemp("home"), browser))
        for client, browser in zip(CLIENTS, itertools.cycle(people), strict=False)
    ]
    with ExitStack() as open_clients:
        for walk in walks:
            walk.start(open_clients)
        run_out = time.monotonic() + TOKEN_SECONDS
        wait_until("the end of the tokens", lambda: time.monotonic() > run_out)
        for walk in walks:
            walk.return_later()
        for browser in people:
            end_all_connections(browser)
        for walk in walks:
            walk.call_in_vain()
    return [walk.row for walk in walks]


def signed_in(server: ServerProcess, person: Person) -> FormBrowser:
    """Return the browser of a person who is signed in."""
    browser = FormBrowser(server.base_url)
    browser.sign_in(person.email, person.password)
    return browser


def end_all_connections(browser: FormBrowser) -> None:
    """Press every "End access" on the connections page."""
    page = browser.open("/connections")
    names = [name for button in page.all("button") if (name := page.name_of(button)).startswith("End access")]
    for name in names:
        browser.open("/connections")
        browser.submit(name)


def test_every_client_goes_all_the_way_or_is_excused(rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{as_text(rows)}")

    left = unexcused(rows, EXCUSED)

    assert not left, f"\n{as_text(left)}"


def test_every_excuse_is_still_needed(rows: list[Row]) -> None:
    assert not stale(rows, EXCUSED)
