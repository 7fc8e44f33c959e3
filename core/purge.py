"""Takes away rows whose time is over: a few beside a new row, or all of them in many short transactions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, delete, func, select, true

from core.db import Database

AT_A_TIME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one kind in one table: how long they are kept, and which of them are `over` now.

    `key` is a unique column; `parts` are columns of other tables that hold this key: their rows go with it.
    """

    name: str
    key: Column[Any]
    kept: timedelta | None
    over: ColumnElement[bool]
    among: ColumnElement[bool] = field(default_factory=true)
    parts: tuple[Column[Any], ...] = ()


def take_some(connection: Connection, rows: Rows) -> None:
    """Delete at most 200 rows that are over, in the caller's transaction: what strangers can make grow stays bounded.

    For rows that an index finds by their time.
    """
    # Two that purge at once take different rows, so that neither waits for the other.
    over = select(rows.key).where(rows.over).limit(AT_A_TIME).with_for_update(skip_locked=True)
    connection.execute(delete(rows.key.table).where(rows.key.in_(over)))


def take_all(database: Database, rows: Rows, *, first: Callable[[Connection], None], pause: Callable[[], None]) -> int:
    """Delete every row that is over, at most 200 a transaction, and give how many.

    `first` is part of the first transaction that deletes something; `pause` lets others write between two of them.
    """
    taken, after = 0, ""
    while page := _page(database, rows, after):
        with database.write() as connection:
            gone = _delete(connection, rows, page)
            if gone and not taken:
                first(connection)
        taken, after = taken + gone, page[-1]
        pause()
    return taken


def count(database: Database, rows: Rows, *, over: bool) -> int:
    """Count the rows of this kind, all or those that are over."""
    condition = rows.over if over else rows.among
    with database.read() as connection:
        return int(connection.execute(select(func.count(rows.key)).where(condition)).scalar_one())


def _page(database: Database, rows: Rows, after: str) -> list[str]:
    # Found before the writer lock is held, and in the order of the key: one walk over the table, whatever is left.
    found = select(rows.key).where(rows.key > after, rows.over).order_by(rows.key).limit(AT_A_TIME)
    with database.read() as connection:
        return list(connection.execute(found).scalars())


def _delete(connection: Connection, rows: Rows, page: list[str]) -> int:
    still_over = select(rows.key).where(rows.key.in_(page), rows.over).order_by(rows.key)
    keys = list(connection.execute(still_over.with_for_update(skip_locked=True, of=rows.key.table)).scalars())
    for part in rows.parts:
        connection.execute(delete(part.table).where(part.in_(keys)))
    connection.execute(delete(rows.key.table).where(rows.key.in_(keys)))
    return len(keys)
