"""Backups of SQLite: its online backup, which takes one moment of a database that others write to."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from cli.copies import SIDE_FILES, BackupFailed, NotABackup, RestoreFailed, StillServed
from migrations.revisions import VERSION_TABLE

PATIENCE = 10.0  # seconds for a lock
MAGIC = b"SQLite format 3\x00"


class SqliteCopies:
    """Copies of the database file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def back_up(self, draft: Path) -> None:
        """Copy all pages in one step: who writes meanwhile writes on, and isn't in it."""
        if not self._file.exists():
            raise BackupFailed(f"There is no database {self._file}.")
        try:
            with closing(_open(self._file)) as source, closing(_open(draft)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
                _require_sound(target)
        except sqlite3.Error as error:
            raise BackupFailed(f"The database can't be copied: {error}.") from None

    def require_alone(self) -> None:
        """Take the file out of WAL mode, which only who has it to himself can."""
        if not self._file.exists():
            return
        with closing(_open(self._file)) as connection, contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA busy_timeout=1000")
            if connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",):
                return
        raise StillServed

    def is_empty(self) -> bool:
        """Tell whether there is no table."""
        if not self._file.exists():
            return True
        with closing(_open(self._file)) as connection:
            return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None

    def revisions_of(self, file: Path) -> frozenset[str]:
        """Read them in the file itself."""
        _require_sqlite(file)
        try:
            with closing(_open(file, mode="ro")) as connection:
                rows = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()  # noqa: S608
        except sqlite3.Error as error:
            raise NotABackup(f"{file} can't be used: {error}.") from None
        return frozenset(row[0] for row in rows)

    def restore(self, file: Path, statements: Sequence[str]) -> None:
        """Make the statements in a copy, then copy that one over the database in one transaction."""
        try:
            with self._draft() as draft:
                with closing(_open(file, mode="ro")) as source, closing(_open(draft)) as target:
                    source.backup(target)
                    _require_sound(target)
                    target.executescript(";\n".join(["BEGIN", *statements, "COMMIT"]))
                with closing(_open(draft)) as source, closing(_open(self._file, mode="rwc")) as target:
                    source.backup(target)
                    _require_sound(target)
        except sqlite3.Error as error:
            raise RestoreFailed(f"The backup can't be restored: {error}.") from None

    def counts(self) -> list[tuple[str, int]]:
        """Count in each table."""
        with closing(_open(self._file)) as connection:
            named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            return [(name, _count(connection, name)) for (name,) in named]

    @contextmanager
    def _draft(self) -> Iterator[Path]:
        draft = self._file.with_name(f".{self._file.name}-{os.getpid()}")
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield draft
        except OSError as error:
            raise RestoreFailed(f"{draft.parent} can't be written: {error.strerror}.") from None
        finally:
            for suffix in SIDE_FILES:
                draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _open(file: Path, *, mode: str = "rw") -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file))}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None)


def _require_sqlite(file: Path) -> None:
    try:
        with file.open("rb") as start:
            is_sqlite = start.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise NotABackup(f"{file} can't be read: {error.strerror}.") from None
    if not is_sqlite:
        raise NotABackup(f"{file} is no backup of a SQLite database, which COUNTERSIGN_DATABASE_URL names.")


def _require_sound(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != ("ok",):
        raise sqlite3.DatabaseError(f"it is damaged: {found[0]}")


def _count(connection: sqlite3.Connection, table: str) -> int:
    quoted = table.replace('"', '""')
    return int(connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])  # noqa: S608 - its own table names
