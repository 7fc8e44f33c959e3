"""What a flow may do, declared once: it feeds manifest, annotations, consent, approval page, audit and the check."""

from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Table


class Verb(StrEnum):
    """What is done to a target."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    SEND = "send"
    CALL = "call"
    PROPOSE = "propose"


@dataclass(frozen=True, slots=True)
class Effect:
    """A verb, a target in the words of the house, and the tables that the target names.

    A database may reach further than the statement says: a target names what cascades and triggers reach too.
    `mapped`: the tables of a delete, from which the registry follows the cascades. `outside`: what is read isn't in
    the flow's database. `reconcile` says what a person does where it isn't known whether a call took place.
    """

    verb: Verb
    target: str
    tables: frozenset[str] = frozenset()
    outside: bool = False
    reconcile: str = ""
    mapped: tuple[Table, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.verb}:{self.target}"


def reads(target: str, *tables: type | Table) -> Effect:
    """Declare that the flow reads `target`, which names these tables (mapped classes or Tables)."""
    return Effect(Verb.READ, target, _names(tables))


def reads_outside(target: str) -> Effect:
    """Declare that the flow only reads something outside, by `world.call`: another program, a second database."""
    return Effect(Verb.READ, target, outside=True)


def writes(target: str, *tables: type | Table) -> Effect:
    """Declare that the flow inserts or updates `target`; reading it is included."""
    return Effect(Verb.WRITE, target, _names(tables))


def deletes(target: str, *tables: type | Table) -> Effect:
    """Declare that the flow deletes from `target`; reading it is included.

    Name the tables from which the database deletes with it (ON DELETE CASCADE, triggers) as well; what it writes by
    itself (ON DELETE SET NULL, SET DEFAULT, triggers) needs a `writes`.
    """
    return Effect(Verb.DELETE, target, _names(tables), mapped=_tables(tables))


def sends(target: str) -> Effect:
    """Declare that a message leaves after commit, e.g. `sends("email")`."""
    return Effect(Verb.SEND, target)


def calls(target: str, *, reconcile: str = "") -> Effect:
    """Declare that the flow calls something outside while it runs (`world.call`), e.g. `calls("payments")`.

    `reconcile` is one sentence for a run that ended as `unknown`: where to look for the call's key.
    """
    return Effect(Verb.CALL, target, reconcile=reconcile)


def _names(tables: tuple[type | Table, ...]) -> frozenset[str]:
    return frozenset(table.fullname for table in _tables(tables))


def _tables(tables: tuple[type | Table, ...]) -> tuple[Table, ...]:
    return tuple(_table(given) for given in tables)


def _table(given: type | Table) -> Table:
    table = given if isinstance(given, Table) else getattr(given, "__table__", None)
    if not isinstance(table, Table):
        raise TypeError(f"{given!r} is neither a mapped class nor a Table")
    return table
