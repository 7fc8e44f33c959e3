"""Brings the database to the revision of this code, and says which revision it has."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select, text

from core.db import Database
from core.errors import AppError

FOLDER = Path(__file__).parent
VERSION_TABLE = "cs_alembic_version"
VERSIONS = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32)))  # Alembic makes and keeps it
DEMO = "demo"
LOCK = 0x636F756E746572  # "counter": no other program's advisory lock by accident


class WrongRevision(AppError):
    """The tables are older or newer than this code (design D7)."""

    code = "wrong_revision"
    status = 503
    public = "The database is at another revision than this program. Run `countersign db upgrade`, then start again."
    remedy = "Run `countersign db upgrade`, then start again."


def is_demo(flows: Sequence[str]) -> bool:
    """Tell whether these flow modules (COUNTERSIGN_FLOWS) are the demo shop's, which needs tables of its own."""
    return any(name.startswith("flows.catalogue.") for name in flows)


def upgrade(database: Database, *, demo: bool) -> None:
    """Bring the database to the newest revision, all or nothing; `demo` also makes the demo shop's tables.

    Two processes that upgrade at once wait for each other (SQLite: the writer lock; PostgreSQL: an advisory lock).
    """
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        config = _config(connection)
        command.upgrade(config, "main@head")
        if demo:
            command.upgrade(config, f"{DEMO}@head")


def current(connection: Connection) -> frozenset[str]:
    """Give the revisions that the database has, empty when it has never been upgraded."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return frozenset()
    return frozenset(connection.scalars(select(VERSIONS.c.version_num)))


@cache
def expected(*, demo: bool) -> frozenset[str]:
    """Give the revisions that this code works with."""
    scripts = ScriptDirectory.from_config(_config())
    branches = ("main", DEMO) if demo else ("main",)
    heads = (scripts.get_revision(f"{branch}@head") for branch in branches)
    return frozenset(head.revision for head in heads if head is not None)


@cache
def known() -> frozenset[str]:
    """Give every revision that this code can upgrade from, the newest included."""
    scripts = ScriptDirectory.from_config(_config())
    return frozenset(script.revision for script in scripts.walk_revisions())


def require_current(database: Database, *, demo: bool) -> None:
    """Do nothing when the database has the expected revisions; raise WrongRevision otherwise."""
    with database.read() as connection:
        found = current(connection)
    wanted = expected(demo=demo)
    if not wanted <= found:  # a demo shop that is no longer served may stay
        raise WrongRevision(detail=f"found {sorted(found)}, expected {sorted(wanted)}")


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", f"{FOLDER / 'versions'}\n{FOLDER / DEMO}")
    return config
