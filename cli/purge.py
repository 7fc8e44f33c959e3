"""`countersign purge`: take away what has been kept long enough."""

import time
from collections.abc import Callable
from datetime import timedelta

import click
from sqlalchemy import Connection

from auth import purge as access
from auth.assertions import used_assertions
from auth.document_clients import unused_documents
from auth.fetched import fetched_texts
from cli.parts import Build, Parts
from cli.tables import lines
from core.purge import Rows, count, take_all
from flows import purge as runs
from flows.caller import Surface
from policy import purge as decisions

PAUSE_SECONDS = 0.01
MORE_LATER = "What only these rows hold back (a connection with old runs, say) goes with the same command, after them."


def command(build: Build) -> click.Command:
    """Give the command `purge`."""

    @click.command("purge")
    @click.option("--dry-run", is_flag=True, help="Only say what would go.")
    def purge(*, dry_run: bool) -> None:
        """Delete records that were kept as long as COUNTERSIGN_KEEP_..._DAYS says; for a daily timer.

        Safe beside a running server. What is alive, or needed by something that is kept, stays.
        """
        click.echo(would_go(build()) if dry_run else take_away(build()))

    return purge


def take_away(parts: Parts) -> str:
    """Delete what is over, a little at a time; give the table to print."""
    told = []
    for rows in kinds_of(parts):
        deleted = take_all(parts.database, rows, first=_noted(parts, rows), pause=lambda: time.sleep(PAUSE_SECONDS))
        told.append((rows.name, kept_for(rows.kept), str(deleted), str(count(parts.database, rows, over=False))))
    return lines(("TABLE", "KEPT FOR", "DELETED", "LEFT"), told)


def would_go(parts: Parts) -> str:
    """Give the table of what is over now, without deleting anything."""
    told = [
        (rows.name, kept_for(rows.kept), *(str(count(parts.database, rows, over=over)) for over in (True, False)))
        for rows in kinds_of(parts)
    ]
    return f"{lines(('TABLE', 'KEPT FOR', 'WOULD GO', 'NOW'), told)}\n{MORE_LATER}"


def kinds_of(parts: Parts) -> list[Rows]:
    """Give the kinds of rows in the order in which they go: what refers to another row before that row."""
    now, kept = parts.clock.now(), parts.settings.retention
    return [
        *runs.rows_over(now, kept, parts.settings.lifetimes.request_key),
        *decisions.rows_over(now, kept),
        *access.rows_over(now, kept),
        unused_documents(now),
        fetched_texts(now),
        used_assertions(now),
    ]


def kept_for(kept: timedelta | None) -> str:
    """Give a retention in words."""
    if kept is None:
        return "ever"
    if not kept:
        return "until its end"
    days, seconds = kept.days, kept.seconds
    words = f"{days} day{'' if days == 1 else 's'}" if days or not seconds else ""
    return " ".join(word for word in (words, f"{seconds} s" if seconds else "") if word)


def _noted(parts: Parts, rows: Rows) -> Callable[[Connection], None]:
    # Written with the first rows that go, so that a purge that is cut off is on record too.
    row = parts.audit.row(
        "records.purged", surface=Surface.CLI.value, detail={"kind": rows.name, "kept": kept_for(rows.kept)}
    )
    return lambda connection: parts.audit.write(connection, row)
