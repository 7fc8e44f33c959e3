"""`countersign backup` and `countersign restore`: the whole database as one file, and back."""

from collections.abc import Iterator
from pathlib import Path

import click
from sqlalchemy import ClauseElement, Dialect, insert, make_url
from sqlalchemy.dialects import postgresql, sqlite

from auth.restored import end_access
from cli.copies import BackupFailed, Copies, NotEmpty, require_known, whole
from cli.postgresql_copies import PostgresqlCopies
from cli.sqlite_copies import SqliteCopies
from cli.tables import lines
from core.clock import SystemClock, to_us
from core.ids import Ids, SystemChance
from core.settings import Settings, load_settings
from flows.caller import Surface
from flows.restored import end_runs, hold_messages
from migrations import revisions
from policy.audit import Audit
from policy.models import audit
from policy.restored import end_confirmations

FILE = click.Path(path_type=Path, dir_okay=False)
KEEP_THE_KEY = "The key isn't in it: keep {place} apart from it, or make a new one after a restore."
UPGRADE = "The tables are of an older revision: run `countersign db upgrade` next."
LOOK = "Accounts, roles and passwords are those of the backup: look at `countersign operator list`."
ENDED = "Everybody signs in and connects anew; open confirmations have ended."
KEPT = "Sessions and connections are those of the backup, also what was taken away since; open confirmations ended."


def backup_command() -> click.Command:
    """Give the command `backup`."""

    @click.command("backup")
    @click.argument("file", type=FILE)
    @click.option("--force", is_flag=True, help="Replace FILE when it exists.")
    def backup(file: Path, *, force: bool) -> None:
        """Write the whole database, as it is at one moment, into FILE (mode 0600), also beside a running server.

        Tables of your own in the same database are in it. The key is not.
        """
        settings = load_settings(before_secrets=True)
        with whole(file.absolute(), replace=force) as draft:
            copies_of(settings).back_up(draft)
        click.echo(f"{file} is a backup of {place_of(settings)}, {file.stat().st_size} bytes.")
        click.echo(KEEP_THE_KEY.format(place=settings.instance / "secret-key"))

    return backup


def restore_command() -> click.Command:
    """Give the command `restore`."""

    @click.command("restore")
    @click.argument("file", type=FILE)
    @click.option("--force", is_flag=True, help="Replace a database that isn't empty, after a safety copy.")
    @click.option("--keep-sign-ins", is_flag=True, help="Leave sessions and connections as they were in the backup.")
    @click.option("--send-waiting", is_flag=True, help="Let messages leave that waited; they may have left before.")
    def restore(file: Path, *, force: bool, keep_sign_ins: bool, send_waiting: bool) -> None:
        """Put a backup into the empty database that the settings name, all or nothing; stop the server before.

        What may have changed since the backup is ended: sessions, connections, open confirmations, running runs and
        waiting messages.
        """
        settings = load_settings(before_secrets=True)
        copies, file = copies_of(settings), file.absolute()
        found = copies.revisions_of(file)
        require_known(found)
        copies.require_alone()
        if not copies.is_empty():
            click.echo(f"What was there is in {_safety_copy(settings, copies, force=force)}.")
        ended = forgotten(keep_sign_ins=keep_sign_ins, send_waiting=send_waiting)
        dialect = postgresql.dialect if isinstance(copies, PostgresqlCopies) else sqlite.dialect
        copies.restore(file, [_as_text(one, dialect(paramstyle="named")) for one in ended])
        click.echo(lines(("TABLE", "ROWS"), [(name, str(rows)) for name, rows in copies.counts()]))
        click.echo(f"{place_of(settings)} is restored. {KEPT if keep_sign_ins else ENDED} {LOOK}")
        if not revisions.expected(demo=revisions.is_demo(settings.flows)) <= found:
            click.echo(UPGRADE)

    return restore


def copies_of(settings: Settings) -> Copies:
    """Give what copies the database of these settings; raise BackupFailed for one that only lives in memory."""
    url = make_url(settings.database_url)
    if url.get_backend_name() != "sqlite":
        return PostgresqlCopies(settings.database_url)
    if not url.database or url.database == ":memory:":
        raise BackupFailed("A database in memory has no file.")
    return SqliteCopies(Path(url.database).absolute())


def place_of(settings: Settings) -> str:
    """Name the database without its password."""
    return make_url(settings.database_url).render_as_string(hide_password=True)


def forgotten(*, keep_sign_ins: bool, send_waiting: bool) -> Iterator[ClauseElement]:
    """Give the statements that end what may have gone on, or been taken away, after the backup was made."""
    clock = SystemClock()
    now = to_us(clock.now())
    yield from end_runs(now)
    yield from end_confirmations()
    if not keep_sign_ins:
        yield from end_access(now)
    if not send_waiting:
        yield from hold_messages(now)
    detail = {"kept_sign_ins": keep_sign_ins, "sends_waiting": send_waiting}
    event = Audit(Ids(clock, SystemChance()), clock).row("database.restored", surface=Surface.CLI.value, detail=detail)
    yield insert(audit).values(event)


def _safety_copy(settings: Settings, copies: Copies, *, force: bool) -> Path:
    if not force:
        raise NotEmpty
    path = settings.instance / f"before-restore-{SystemClock().now():%Y%m%d-%H%M%S-%f}.backup"
    with whole(path, replace=False) as draft:
        copies.back_up(draft)
    return path


def _as_text(statement: ClauseElement, dialect: Dialect) -> str:
    # Values of our own making, in a transaction that SQLAlchemy's connections take no part in.
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
