"""What the database changes by itself when a row goes or its key changes, by the foreign keys of the models.

Triggers, rules and keys that only the database knows aren't in the models: a target names their tables, and the
oracle of the tests (tests/support/oracle.py) shows the missing ones.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sqlalchemy import Column, ForeignKeyConstraint, Table
from sqlalchemy.exc import NoReferenceError


@dataclass(slots=True)
class Reach:
    """The tables that the database deletes from and writes to by itself."""

    deletes: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


Change = tuple[Table, frozenset[str] | None]  # a table and the changed columns; None: its rows are deleted


def of_delete(table: Table) -> Reach:
    """Give what a DELETE from `table` reaches, ON DELETE by ON DELETE."""
    return _follow((table, None))


def of_update(table: Table, columns: Collection[str]) -> Reach:
    """Give what an UPDATE of these columns (by their keys) reaches, ON UPDATE by ON UPDATE."""
    return _follow((table, frozenset(columns)))


def _follow(first: Change) -> Reach:
    reach, seen, left = Reach(), {first}, [first]
    while left:
        for change in _next(*left.pop()):
            child, columns = change
            (reach.deletes if columns is None else reach.writes).add(child.fullname)
            if change not in seen:
                seen.add(change)
                left.append(change)
    return reach


def _next(table: Table, columns: frozenset[str] | None) -> Iterator[Change]:
    for key, referred in _keys_to(table):
        if columns is not None and not columns & {column.key for column in referred}:
            continue
        action = ((key.ondelete if columns is None else key.onupdate) or "").upper()
        if columns is None and action == "CASCADE":
            yield key.table, None
        elif action == "CASCADE" or action.startswith("SET "):
            yield key.table, frozenset(key.column_keys)


def _keys_to(table: Table) -> Iterator[tuple[ForeignKeyConstraint, list[Column[object]]]]:
    for other in table.metadata.tables.values():
        for key in other.foreign_key_constraints:
            try:
                referred = [element.column for element in key.elements]
            except NoReferenceError:
                continue  # it leads to a table that these models don't have
            if referred[0].table.key == table.key:  # not `is`: the ORM annotates the table of its statements
                yield key, referred
