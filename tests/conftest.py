"""Fixtures for everyone: databases, servers, browsers; nothing leaves loopback."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.support.missing import missing_lines, skip_or_fail
from tests.support.network import loopback_only
from tests.support.pages import CHROMIUM, run_chromium
from tests.support.postgres import PostgresServer, find_postgres, run_postgres
from tests.support.server import Instance, ServerProcess

collect_ignore = ["own_application"]  # an application of its own: tests/journeys/test_own_application.py runs it
DATABASES = ("sqlite", "postgresql")
ServerFactory = Callable[..., ServerProcess]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked `db` on both databases, and every other user of a database on SQLite only."""
    if "database_kind" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("db") is not None
        kinds, ids = (DATABASES, None) if both else (("sqlite",), (pytest.HIDDEN_PARAM,))
        metafunc.parametrize("database_kind", kinds, ids=ids, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests in Chromium come last: Playwright leaves an event loop running in the thread of the tests."""
    items.sort(key=lambda item: "chromium" in getattr(item, "fixturenames", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line each which program was missing."""
    for line in missing_lines():
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    with loopback_only():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that lives as long as the test run."""
    programs = find_postgres()
    if programs is None:
        skip_or_fail("PostgreSQL")
    with run_postgres(programs) as server:
        yield server


@pytest.fixture(scope="session")
def database_kind(request: pytest.FixtureRequest) -> str:
    """`sqlite` or `postgresql`; a `db` test runs once with each."""
    return str(request.param)


@pytest.fixture(scope="session")
def new_database_url(database_kind: str, request: pytest.FixtureRequest) -> Callable[[Path], str]:
    """A function that makes an empty database (on SQLite: in the given folder) and returns its address."""
    if database_kind == "sqlite":
        return lambda folder: f"sqlite:///{folder / 'countersign.db'}"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return lambda _folder: postgres.create_database()


@pytest.fixture
def database_url(new_database_url: Callable[[Path], str], tmp_path: Path) -> str:
    """The address of a fresh, empty database."""
    return new_database_url(tmp_path)


@pytest.fixture(scope="session")
def prepared_instance(
    database_kind: str, new_database_url: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> Instance:
    """An instance that no server runs on: made once, copied for whoever needs one."""
    folder = tmp_path_factory.mktemp(f"prepared-{database_kind}") / "instance"
    folder.mkdir(mode=0o700)
    instance = Instance(folder, new_database_url(folder))
    instance.prepare()
    return instance


@pytest.fixture(scope="session")
def new_instance(
    prepared_instance: Instance, database_kind: str, request: pytest.FixtureRequest
) -> Iterator[Callable[[], Instance]]:
    """A function that returns a fresh instance: secrets, tables, demo shop and the people of the tests."""
    with tempfile.TemporaryDirectory(prefix="countersign-tests-") as home:
        numbers = itertools.count(1)

        def make() -> Instance:
            folder = Path(home) / str(next(numbers)) / "instance"
            url = f"sqlite:///{folder / 'countersign.db'}"
            if database_kind == "postgresql":
                postgres: PostgresServer = request.getfixturevalue("postgres")
                url = postgres.create_database(copy_of=prepared_instance.database_url)
            return prepared_instance.copy_to(folder, url)

        yield make


@pytest.fixture
def server_factory(new_instance: Callable[[], Instance]) -> Iterator[ServerFactory]:
    """A function that starts a server of its own, with settings: `server_factory(COUNTERSIGN_X="…", workers=1)`."""
    started: list[ServerProcess] = []

    def make(*, workers: int = 2, **settings: str) -> ServerProcess:
        server = ServerProcess(new_instance(), workers=workers, settings=settings)
        started.append(server)
        return server.start()

    yield make
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def server(new_instance: Callable[[], Instance]) -> Iterator[ServerProcess]:
    """One running server with 2 workers for all tests on this database; leave no state that others notice."""
    with ServerProcess(new_instance()) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One headless Chromium for the test run."""
    if not CHROMIUM.exists():
        skip_or_fail("Chromium")
    with run_chromium() as browser:
        yield browser


@pytest.fixture
def chromium_context(chromium: Browser) -> Iterator[BrowserContext]:
    """A profile of its own in Chromium: no cookies, no cache."""
    context = chromium.new_context()
    yield context
    context.close()
