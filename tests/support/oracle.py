"""What the database itself says that a flow touched: SQLite's authorizer, PostgreSQL's counters of the transaction.

A database knows what no compiler sees: the tables behind a view, what a trigger writes, what a function of its own
reads. Rows that a foreign key makes it look at are read too: `neighbours` names those tables.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, inspect

from core.db import Database
from flows.effects import Verb
from flows.operation import Flow

NOT_THE_APPLICATIONS = ("cs_", "sqlite_")
KINDS = {
    sqlite3.SQLITE_READ: "reads",
    sqlite3.SQLITE_INSERT: "writes",
    sqlite3.SQLITE_UPDATE: "writes",
    sqlite3.SQLITE_DELETE: "deletes",
}
COUNTERS = """
SELECT CASE schemaname WHEN 'public' THEN relname ELSE schemaname || '.' || relname END,
       coalesce(seq_scan, 0) + coalesce(idx_scan, 0), n_tup_ins + n_tup_upd, n_tup_del
FROM pg_stat_xact_user_tables
"""
Counted = dict[str, tuple[int, ...]]


@dataclass
class Touched:
    """Tables by what was done to them."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)

    def add(self, kind: str, table: str) -> None:
        if not table.startswith(NOT_THE_APPLICATIONS):
            getattr(self, kind).add(table)

    def only_read(self) -> set[str]:
        """Give what was read and nothing else: writing and deleting include reading."""
        return self.reads - self.writes - self.deletes

    def beyond(self, declared: "Touched") -> set[str]:
        """Give what isn't declared, like `writes ledger`."""
        changed = {
            f"{kind} {table}"
            for kind in ("writes", "deletes")
            for table in getattr(self, kind) - getattr(declared, kind)
        }
        known = declared.reads | declared.writes | declared.deletes
        return changed | {f"reads {table}" for table in self.only_read() - known}


@dataclass(frozen=True)
class Catalogue:
    """Flows by their modules, how their tables are made and filled, and calls that go everywhere in them."""

    modules: tuple[str, ...]
    prepare: Callable[[Database, pytest.MonkeyPatch], None]
    calls: Mapping[str, Sequence[Mapping[str, Any]]]


def declared_by(flow: Flow) -> Touched:
    """Give the tables that a flow declares."""
    kinds = {Verb.READ: "reads", Verb.WRITE: "writes", Verb.DELETE: "deletes"}
    touched = Touched()
    for effect in flow.effects:
        for table in effect.tables:
            touched.add(kinds[effect.verb], table)
    return touched


def neighbours(database: Database, tables: set[str]) -> set[str]:
    """Give the tables that a foreign key ties to these: the database looks there when a row comes or goes."""
    look, found = inspect(database.writing), set()
    for table in look.get_table_names():
        for key in look.get_foreign_keys(table):
            pair = {table, key["referred_table"]}
            if pair & tables:
                found |= pair
    return found


@contextmanager
def watching(database: Database) -> Iterator[Touched]:
    """Collect what is touched through both engines while open; the tables of the product are left out."""
    touched = Touched()
    watch = _authorizer if database.is_sqlite else _counters
    _close_all(database)
    with watch(database, touched):
        yield touched
    _close_all(database)


def _close_all(database: Database) -> None:
    database.writing.dispose()
    database.reading.dispose()


@contextmanager
def _listening(target: Engine, name: str, listener: Callable[..., Any]) -> Iterator[None]:
    event.listen(target, name, listener)
    try:
        yield
    finally:
        event.remove(target, name, listener)


@contextmanager
def _authorizer(database: Database, touched: Touched) -> Iterator[None]:
    """Ask SQLite, which names every table while it prepares a statement: none may come from its cache."""

    def authorize(action: int, table: str | None, *_: Any) -> int:
        if action in KINDS and table:
            touched.add(KINDS[action], table)
        return sqlite3.SQLITE_OK

    def connecting(_dialect: Any, _record: Any, _arguments: Any, named: dict[str, Any]) -> None:
        named["cached_statements"] = 0

    def connected(driver: sqlite3.Connection, _record: Any) -> None:
        driver.set_authorizer(authorize)

    with (
        _listening(database.writing, "do_connect", connecting),
        _listening(database.reading, "do_connect", connecting),
        _listening(database.writing, "connect", connected),
        _listening(database.reading, "connect", connected),
    ):
        yield


@contextmanager
def _counters(database: Database, touched: Touched) -> Iterator[None]:
    """Ask PostgreSQL at both ends of every transaction."""
    open_ones: dict[int, Counted] = {}
    snapshot = database.snapshot

    def began(connection: Connection) -> None:
        driver = _driver(connection)
        open_ones[id(driver)] = _counted(driver)

    def ends(connection: Connection) -> None:
        driver = _driver(connection)
        if driver.info.transaction_status.name == "INTRANS":
            driver.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what waits for the COMMIT
            _compare(touched, open_ones.pop(id(driver), {}), _counted(driver))

    @contextmanager
    def watched() -> Iterator[Connection]:
        with snapshot() as connection:
            began(connection)
            yield connection
            ends(connection)

    database.snapshot = watched  # type: ignore[method-assign]
    with (
        _listening(database.writing, "begin", began),
        _listening(database.writing, "commit", ends),
        _listening(database.writing, "rollback", ends),
    ):
        yield
    del database.snapshot


def _driver(connection: Connection) -> Any:
    return connection._dbapi_connection.driver_connection  # type: ignore[union-attr]  # the public name is guarded


def _counted(driver: Any) -> Counted:
    return {table: tuple(counts) for table, *counts in driver.execute(COUNTERS).fetchall()}


def _compare(touched: Touched, before: Counted, after: Counted) -> None:
    for table, counts in after.items():
        for kind, now, then in zip(("reads", "writes", "deletes"), counts, before.get(table, (0, 0, 0)), strict=True):
            if now > then:
                touched.add(kind, table)
