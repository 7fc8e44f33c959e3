"""The migrations make exactly the tables that the code declares, from an empty database, on both databases."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from flask import Flask
from sqlalchemy import inspect

from auth import models as auth_models
from core.db import Database, db, open_database
from core.settings import load_settings
from flows import models as flow_models
from flows.catalogue import seed, tables
from migrations import revisions
from policy import models as policy_models
from tests.support.server import REPO, clean_environment

pytestmark = pytest.mark.db
DECLARED = (auth_models, policy_models, flow_models, tables)  # importing them fills the metadata
KEY = "k" * 43
UPGRADE = """
import sys, pathlib, flask
from core.db import open_database
from core.settings import load_settings
from migrations import revisions
revisions.upgrade(open_database(flask.Flask("x"), load_settings(folder=pathlib.Path(sys.argv[1]))), demo=True)
"""


@pytest.fixture
def open_fresh(database_url: str, tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """A function that opens the same empty database as another process would."""
    environ = {"COUNTERSIGN_SECRET_KEYS": KEY, "COUNTERSIGN_DATABASE_URL": database_url}
    settings = load_settings(environ, folder=tmp_path)
    opened: list[Database] = []

    def make() -> Database:
        opened.append(open_database(Flask(__name__), settings))
        return opened[-1]

    yield make
    for database in opened:
        database.reading.dispose()
        database.writing.dispose()


@pytest.fixture
def database(open_fresh: Callable[[], Database]) -> Database:
    return open_fresh()


def _differences(database: Database) -> list[object]:
    options = {"version_table": revisions.VERSION_TABLE, "compare_server_default": True}
    with database.writing.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection, opts=options), db.metadata)


def _tables(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


def test_upgrading_an_empty_database_makes_exactly_the_declared_tables(database):
    revisions.upgrade(database, demo=True)

    assert _differences(database) == []


def test_the_revision_is_the_expected_one_after_an_upgrade_and_none_before(database):
    with database.read() as connection:
        before = revisions.current(connection)
    revisions.upgrade(database, demo=True)
    with database.read() as connection:
        after = revisions.current(connection)

    assert before == frozenset()
    assert after == revisions.expected(demo=True)


def test_an_application_without_the_demo_shop_gets_only_our_own_tables(database):
    revisions.upgrade(database, demo=False)

    assert {name for name in _tables(database) if not name.startswith("cs_")} == set()
    with database.read() as connection:
        assert revisions.current(connection) == revisions.expected(demo=False)


def test_an_upgrade_done_twice_changes_nothing(database):
    revisions.upgrade(database, demo=True)
    before = _tables(database)
    revisions.upgrade(database, demo=True)

    assert _tables(database) == before
    assert _differences(database) == []


def test_the_demo_shop_can_be_added_later(database):
    revisions.upgrade(database, demo=False)
    revisions.upgrade(database, demo=True)

    assert _differences(database) == []


def test_the_applications_own_tables_are_left_alone(database):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('theirs')")
    revisions.upgrade(database, demo=True)

    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == ["theirs"]


def test_a_failed_upgrade_leaves_nothing_half_made(database):
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE cs_step (x INTEGER)")
    with pytest.raises(Exception, match="cs_step"):
        revisions.upgrade(database, demo=True)

    assert _tables(database) == {"cs_step"}


def test_a_database_at_another_revision_is_refused_and_the_command_named(database):
    with pytest.raises(revisions.WrongRevision, match="found"):
        revisions.require_current(database, demo=False)
    revisions.upgrade(database, demo=True)

    revisions.require_current(database, demo=True)
    revisions.require_current(database, demo=False)
    assert "countersign db upgrade" in revisions.WrongRevision.public


def test_a_database_newer_than_the_program_is_refused(database):
    revisions.upgrade(database, demo=False)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE cs_alembic_version SET version_num = '9999'")

    with pytest.raises(revisions.WrongRevision):
        revisions.require_current(database, demo=False)


def test_the_shop_is_filled_once(database):
    revisions.upgrade(database, demo=True)
    with database.write() as connection:
        assert seed.load_shop(connection) is True
    with database.write() as connection:
        assert seed.load_shop(connection) is False


def test_two_processes_that_upgrade_at_once_both_end_well(database, database_url, tmp_path):
    with database.write():  # SQLite: the file is in WAL mode before the two meet
        pass
    command = [sys.executable, "-c", UPGRADE, str(tmp_path)]
    environ = clean_environment() | {"COUNTERSIGN_SECRET_KEYS": KEY, "COUNTERSIGN_DATABASE_URL": database_url}
    both = [subprocess.Popen(command, cwd=REPO, env=environ) for _ in range(2)]

    assert [process.wait(60) for process in both] == [0, 0]
    assert _differences(database) == []
