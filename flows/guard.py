"""What a statement of a flow touches, and whether the flow declared it (design D5).

Compiling is the one place that every construct passes (flows/recorder.py). It happens once a statement; running it
again costs two set lookups. This catches a developer's mistake; it is not a sandbox.
"""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Pool, PoolProxiedConnection, event

from flows.confine import CONFINED, Confining, install_confinement, unconfined
from flows.effects import Effect, Verb
from flows.operation import FlowError
from flows.recorder import Seen, Touched, is_recorded, record_statements

WATCHER = "countersign.watcher"
OF_SQLALCHEMY = vars(sys.modules[Connection.__module__])


class UnseenSql(FlowError):
    """The flow sent SQL in which its tables can't be seen."""

    code = "unseen_sql"
    public = "The flow used SQL that can't be checked against its declared effects. Nothing was changed."
    remedy = (
        "Say it in SQLAlchemy's constructs on mapped tables, through `world.session`; "
        "the log names what could not be seen."
    )


class UndeclaredEffect(FlowError):
    """The flow did what it didn't declare."""

    code = "undeclared_effect"
    public = "The flow tried to do something that it doesn't declare. Nothing was changed."
    remedy = "Declare the effect with the tables that it touches, those that the database reaches by itself included."


class Watcher(Confining, Protocol):
    """Follows the statements of one connection while a flow uses it; raises to refuse one."""

    def before(self, compiled: Any) -> None:
        """See a statement that is about to run."""

    def after(self, compiled: Any, rows: int | None) -> None:
        """See how many rows it changed; None: can't be told."""

    def committing(self) -> None:
        """See that the connection's transaction is about to end."""

    def rolling_back(self) -> None:
        """See that the connection's transaction is about to be given up; raises nothing."""


class Limits:
    """The tables that one flow may touch and how, by its declared effects."""

    def __init__(self, flow_id: str, effects: tuple[Effect, ...]) -> None:
        self.flow_id = flow_id
        self.targets = frozenset((effect.verb, effect.target) for effect in effects)
        self.outside = {
            Verb.READ: frozenset(effect.target for effect in effects if effect.outside),
            Verb.CALL: frozenset(effect.target for effect in effects if effect.verb is Verb.CALL),
        }
        self._writes = _by_table(effects, Verb.WRITE)
        self._deletes = _by_table(effects, Verb.DELETE)
        # Writing and deleting include reading (flows/effects.py); a declared read names the step.
        self._reads = {**self._deletes, **self._writes, **_by_table(effects, Verb.READ)}

    def judge(self, seen: Seen | None) -> Touched:
        """Give the effects that a statement has; raises UnseenSql or UndeclaredEffect."""
        if seen is None or seen.unseen:
            raise UnseenSql(detail=f"{self.flow_id}: {seen.unseen if seen else 'driver SQL'}")
        verdict = seen.judged.get(self)
        if verdict is None:
            verdict = seen.judged[self] = self._verdict(seen)
        return verdict

    def _verdict(self, seen: Seen) -> Touched:
        touched = [
            (verb, self._target(verb, table, declared))
            for verb, tables, declared in (
                (Verb.WRITE, seen.writes, self._writes),
                (Verb.DELETE, seen.deletes, self._deletes),
                (Verb.READ, seen.reads - seen.writes - seen.deletes, self._reads),
            )
            for table in sorted(tables)
        ]
        return tuple(dict.fromkeys(touched))

    def _target(self, verb: Verb, table: str, declared: Mapping[str, str]) -> str:
        if table not in declared:
            raise UndeclaredEffect(detail=f"{self.flow_id}: {verb} of the table {table}")
        return declared[table]


def install_guard(engine: Engine) -> None:
    """Make `engine` record what each statement touches and ask the connection's watcher; once an engine."""
    install_confinement()
    _guard_other_engines()
    if is_recorded(engine):
        return
    record_statements(engine)
    engine._connection_cls = _Guarded  # noqa: SLF001 - no event tells of the driver's connection being taken
    event.listen(engine, "after_cursor_execute", _after)
    event.listen(engine, "commit", _committing)
    event.listen(engine, "rollback", _rolling_back)
    event.listen(engine, "checkout", _taken_here)


@cache
def _guard_other_engines() -> None:
    """Refuse what a confined thread does on any engine of this process beside its world's connection."""
    event.listen(Engine, "before_cursor_execute", _before)
    event.listen(Engine, "do_connect", _connecting)
    event.listen(Pool, "checkout", _taken)


def _by_table(effects: tuple[Effect, ...], verb: Verb) -> dict[str, str]:
    return {table: effect.target for effect in effects if effect.verb is verb for table in effect.tables}


def _before(connection: Connection, _cursor: Any, _sql: str, _values: Any, context: Any, _many: bool) -> None:  # noqa: FBT001 - SQLAlchemy's signature
    watcher: Watcher | None = connection.info.get(WATCHER)
    if watcher is not None:
        watcher.before(context.compiled if context is not None else None)
    elif CONFINED.watcher is not None:
        _refuse("another connection", is_ours=is_recorded(connection.engine))


def _after(connection: Connection, cursor: Any, _sql: str, _values: Any, context: Any, _many: bool) -> None:  # noqa: FBT001 - SQLAlchemy's signature
    watcher: Watcher | None = connection.info.get(WATCHER)
    if watcher is not None:
        watcher.after(context.compiled, _changed(cursor, context))


def _committing(connection: Connection) -> None:
    watcher: Watcher | None = connection.info.get(WATCHER)
    if watcher is not None:
        try:
            watcher.committing()
        except FlowError:
            # SQLAlchemy gives up its transaction now, the database would still hold it with its locks.
            with unconfined():
                connection.connection.rollback()
            raise


def _rolling_back(connection: Connection) -> None:
    watcher: Watcher | None = None if connection.invalidated else connection.info.get(WATCHER)
    if watcher is not None:
        watcher.rolling_back()


def _connecting(_dialect: Any, _record: Any, _arguments: Any, _named: Any) -> None:
    if CONFINED.watcher is not None:
        _refuse("another connection", is_ours=False)


def _taken(_driver: Any, _record: Any, _proxy: Any) -> None:
    if CONFINED.watcher is not None:
        _refuse("another connection", is_ours=False)


def _taken_here(_driver: Any, _record: Any, _proxy: Any) -> None:
    if CONFINED.watcher is not None:
        _refuse("another connection", is_ours=True)


def _refuse(what: str, *, is_ours: bool) -> None:
    if CONFINED.watcher is not None and (refusal := CONFINED.watcher.elsewhere(what, is_ours=is_ours)) is not None:
        raise refusal


def _changed(cursor: Any, context: Any) -> int | None:
    """Give the rows that a statement changed; None where the driver can't say (RETURNING isn't fetched yet)."""
    if context.compiled.seen.has_cascades:
        return None  # the rows that the database changed with them aren't counted by anybody
    if not context.compiled.effective_returning:
        return cursor.rowcount if cursor.rowcount >= 0 else None
    is_plain = context.isinsert and context.compiled.statement._post_values_clause is None  # noqa: SLF001 - no public name for ON CONFLICT
    return 1 if is_plain and len(context.compiled_parameters) == 1 else None


class _Guarded(Connection):
    """A connection whose driver's connection, on which no statement could be seen, a flow can't take."""

    @property
    def connection(self) -> PoolProxiedConnection:
        if CONFINED.watcher is not None and sys._getframe(1).f_globals is not OF_SQLALCHEMY:  # noqa: SLF001
            _refuse("the driver's connection", is_ours=True)
        return super().connection

    @property
    def info(self) -> dict[Any, Any]:
        return super().connection.info  # asked for with every statement, and no harm
