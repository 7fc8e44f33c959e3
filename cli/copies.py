"""What a backup is on either database, and how one can fail."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cli.refusals import InstanceUnwritable
from core.errors import AppError
from migrations import revisions

SIDE_FILES = ("", "-journal", "-wal", "-shm")


class FileThere(AppError):
    """A backup would replace a file."""

    code = "file_exists"
    remedy = "Name another file, or give --force."


class BackupFailed(AppError):
    """The backup could not be made; no file was left."""

    code = "backup_failed"
    remedy = "Do what the sentence names, then make the backup again."


class NotABackup(AppError):
    """The file is no backup that this program can restore into this database."""

    code = "not_a_backup"
    remedy = "Give a file that `countersign backup` made of the same kind of database, with a program no older."


class NotEmpty(AppError):
    """The database to restore into has tables already."""

    code = "database_not_empty"
    public = "The database isn't empty. --force replaces it, after a safety copy."
    remedy = "Restore into an empty database, or give --force."


class StillServed(AppError):
    """A server, or another program, uses the database that would be replaced."""

    code = "database_in_use"
    public = "The database is in use. Stop every process that uses it, then restore."
    remedy = "Stop the server, then restore."


class RestoreFailed(AppError):
    """The backup could not be restored; the database is as it was."""

    code = "restore_failed"
    remedy = "Do what the sentence names, then restore again."


class ProgramMissing(AppError):
    """PostgreSQL's own programs, which make and read its backups, aren't installed."""

    code = "program_missing"
    remedy = "Install PostgreSQL's client programs (Debian: postgresql-client), of the server's version or newer."


class Copies(Protocol):
    """Makes and restores whole copies of one database."""

    def back_up(self, draft: Path) -> None:
        """Write all of the database as it is at one moment into the empty file `draft`; raise BackupFailed."""

    def require_alone(self) -> None:
        """Raise StillServed while another process has the database open."""

    def is_empty(self) -> bool:
        """Tell whether there is nothing that a restore would replace."""

    def revisions_of(self, file: Path) -> frozenset[str]:
        """Give the revisions of the tables in a backup; raise NotABackup."""

    def restore(self, file: Path, statements: Sequence[str]) -> None:
        """Put the backup in the place of the database and do the statements, all or nothing.

        Raise RestoreFailed; the database is then as it was.
        """

    def counts(self) -> list[tuple[str, int]]:
        """Give each table with the number of its rows."""


def require_known(found: frozenset[str]) -> None:
    """Raise NotABackup for tables that aren't ours or are newer than this program."""
    if not found:
        raise NotABackup("The backup has no tables of Countersign.")
    if not found <= revisions.known():
        raise NotABackup("The backup is of a newer Countersign. Restore it with that version.")


@contextmanager
def whole(path: Path, *, replace: bool) -> Iterator[Path]:
    """Give an empty draft (0600) that becomes `path` at the end; after a failure there is none.

    Raise FileThere when there is a file already that it mustn't replace, InstanceUnwritable.
    """
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        if path.exists() and not replace:
            raise FileExistsError
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        _settle(draft)
        if replace:
            draft.replace(path)
        else:
            path.hardlink_to(draft)
        _settle(path.parent)
    except FileExistsError:
        raise FileThere(f"{path} exists. Nothing was written.") from None
    except OSError as error:
        raise InstanceUnwritable(f"{path} can't be written: {error.strerror}.") from None
    finally:
        for suffix in SIDE_FILES:
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _settle(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
