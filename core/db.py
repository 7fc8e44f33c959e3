"""The database: two engines a process, one that writes and one that can only read (design D7).

Writing: SQLite begins IMMEDIATE with synchronous=FULL, so a read-then-write can't lose an update; PostgreSQL is
READ COMMITTED, and `work` asks for REPEATABLE READ. Reading: autocommit on a connection that refuses to write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Connection, Engine, event, make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from core.settings import Settings

READING = "reading"
THREADS = 16  # cli/served.py: a worker's threads; each may hold one connection of each engine
BUSY_MS = 10_000

db = SQLAlchemy()  # holds the metadata and the models; its session is never used on the call path


class Work:
    """The transaction in which a flow works; `world.call` commits it in parts (design D5)."""

    def __init__(self, connection: Connection, limits: str | None) -> None:
        self.connection = connection
        self._limits = limits

    def begin(self) -> None:
        """Begin a part."""
        self.connection.begin()
        if self._limits is not None:
            self.connection.exec_driver_sql(self._limits)

    def commit(self) -> None:
        """Commit the part; there is no transaction until the next begins."""
        transaction = self.connection.get_transaction()
        if transaction is not None:
            transaction.commit()


class Database:
    """Opens connections for one purpose each; nothing else in the product opens one."""

    def __init__(self, writing: Engine, reading: Engine, *, work_deadline: timedelta) -> None:
        self.writing = writing
        self.reading = reading
        self.is_sqlite = writing.dialect.name == "sqlite"
        milliseconds = work_deadline // timedelta(milliseconds=1)
        # A lock's limit comes first, so that who waits in vain is told to come again and keeps what was confirmed.
        limits = f"SET LOCAL lock_timeout = {milliseconds // 2}; SET LOCAL statement_timeout = {milliseconds}"
        self._limit_work = None if self.is_sqlite else limits

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a writing transaction (READ COMMITTED on PostgreSQL): committed at the end, rolled back by an error."""
        with self.writing.begin() as connection:
            yield connection

    @contextmanager
    def work(self) -> Iterator[Work]:
        """Give the transaction in which a flow works: as `write`, but on PostgreSQL REPEATABLE READ and with limits."""
        options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.writing.connect().execution_options(**options) as connection:
            work = Work(connection, self._limit_work)
            work.begin()
            yield work
            work.commit()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give an autocommit connection on which every statement that would write fails."""
        with self.reading.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a reading connection whose statements all see one moment; what it reads is never left open."""
        begin = "BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self.reading.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute(begin)
            try:
                yield connection
            finally:
                try:
                    driver.rollback()  # nothing was written; the pool itself resets nothing
                except self.reading.dialect.loaded_dbapi.Error as error:
                    connection.invalidate(error)  # broken: what broke it is said where it was met


def open_database(app: Flask, settings: Settings) -> Database:
    """Make the two engines for `app`; connects to nothing yet."""
    app.config["SQLALCHEMY_DATABASE_URI"] = settings.database_url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = _options(settings.database_url)
    app.config["SQLALCHEMY_BINDS"] = {
        READING: {
            **_options(settings.database_url),
            "url": settings.database_url,
            "isolation_level": "AUTOCOMMIT",
            "pool_reset_on_return": None,
        }
    }
    db.init_app(app)
    with app.app_context():
        database = Database(db.engines[None], db.engines[READING], work_deadline=settings.write_deadline)
    if database.is_sqlite:
        event.listen(database.writing, "connect", _sqlite_writing)
        event.listen(database.writing, "begin", _begin_immediate)
        event.listen(database.writing, "checkin", _roll_back_what_is_open)
        event.listen(database.reading, "connect", _sqlite_reading)
    else:
        milliseconds = settings.read_deadline // timedelta(milliseconds=1)
        event.listen(database.reading, "connect", lambda one, _record: _postgresql_reading(one, milliseconds))
    return database


def is_serialization_failure(error: BaseException) -> bool:
    """Tell whether PostgreSQL asks for the transaction to be run again (40001, 40P01)."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in ("40001", "40P01")


def is_busy(error: BaseException) -> bool:
    """Tell whether a lock could not be had in time: SQLite's only one, or a row's on PostgreSQL (55P03)."""
    if not isinstance(error, OperationalError):
        return False
    return "database is locked" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "55P03"


def is_out_of_time(error: BaseException) -> bool:
    """Tell whether a statement was stopped since it took too long: by PostgreSQL (57014), or by us on SQLite."""
    if not isinstance(error, OperationalError):
        return False
    return str(error.orig) == "interrupted" or getattr(error.orig, "sqlstate", None) == "57014"


def _options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {"pool_size": THREADS, "max_overflow": 8, "pool_use_lifo": True}
    options["hide_parameters"] = True  # an error's words go into the log, the values of a statement must not
    if make_url(url).get_backend_name() != "sqlite":
        options["pool_pre_ping"] = True
    return options


def _sqlite_writing(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; sqlite3 would begin late and deferred
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _sqlite_reading(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    for pragma in (f"busy_timeout={BUSY_MS}", "query_only=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _postgresql_reading(connection: Any, longest_ms: int) -> None:
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    connection.execute(f"SET statement_timeout = {longest_ms}")
    connection.commit()


def _roll_back_what_is_open(connection: Any, _record: object) -> None:
    # SQLAlchemy takes a transaction whose COMMIT failed for ended. SQLite holds it, and with it the only writer lock.
    if connection is not None and connection.in_transaction:
        connection.rollback()


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
