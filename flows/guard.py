"""What a statement of a flow touches, seen where it is compiled, and whether the flow declared it (design D5).

Compiling is the one place that every construct passes, whatever the ORM makes of it: joined loads, CTEs, aliases,
INSERT inside WITH. It happens once a statement; running it again costs two set lookups. This catches a developer's
mistake; it is not a sandbox.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Table, event

from flows.effects import Effect, Verb
from flows.operation import FlowError

WATCHER = "countersign.watcher"
CONFINED: "ContextVar[Watcher | None]" = ContextVar("confined", default=None)
# SQL functions that run SQL from a text, reach files, other sessions or settings, or only wait.
FAR_FUNCTION = re.compile(
    r"(query|table|database|schema|cursor)_to_.*|pg_(read|ls|sleep|terminate|cancel|stat_file).*|lo_.*|dblink.*"
    r"|set_config|pragma_.*|load_extension|readfile|writefile"
)
# What SQLAlchemy itself writes as a literal column: count(*), EXISTS (SELECT 1 …), LIKE '%' || x.
OWN_LITERAL = re.compile(r"\*|\d+|'%'")
PLAIN_OPERATOR = re.compile(r"[^\s\w();'\"]+|[A-Za-z]+(?: [A-Za-z]+)*")
Touched = tuple[tuple[Verb, str], ...]


class UnseenSql(FlowError):
    """The flow sent SQL in which its tables can't be seen."""

    code = "unseen_sql"
    public = "The flow used SQL that can't be checked against its declared effects. Nothing was changed."


class UndeclaredEffect(FlowError):
    """The flow did what it didn't declare."""

    code = "undeclared_effect"
    public = "The flow tried to do something that it doesn't declare. Nothing was changed."


class Watcher(Protocol):
    """Follows the statements of one connection while a flow uses it; raises to refuse one."""

    def before(self, compiled: Any) -> None:
        """See a statement that is about to run."""

    def after(self, compiled: Any, rows: int | None) -> None:
        """See how many rows it changed; None: can't be told."""

    def committing(self) -> None:
        """See that the connection's transaction is about to end."""

    def elsewhere(self) -> FlowError:
        """See a statement on a connection that isn't watched; give its refusal."""


@dataclass(slots=True)
class Seen:
    """What one compiled statement touches, and the verdicts on it by limits."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    unseen: str | None = None
    judged: "dict[Limits, Touched]" = field(default_factory=dict)


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
    compiler = engine.dialect.statement_compiler
    if issubclass(compiler, _Recorder):
        return
    engine.dialect.statement_compiler = type(f"Guarded{compiler.__name__}", (_Recorder, compiler), {})
    engine.clear_compiled_cache()  # what was compiled before has no record and would be refused
    event.listen(engine, "before_cursor_execute", _before)
    event.listen(engine, "after_cursor_execute", _after)
    event.listen(engine, "commit", _committing)


@contextmanager
def confined(watcher: Watcher) -> Iterator[None]:
    """Refuse what this thread sends to guarded engines beside the connection that is watched."""
    token = CONFINED.set(watcher)
    try:
        yield
    finally:
        CONFINED.reset(token)


@contextmanager
def unconfined() -> Iterator[None]:
    """Let the product itself work between two parts of a flow."""
    token = CONFINED.set(None)
    try:
        yield
    finally:
        CONFINED.reset(token)


def _by_table(effects: tuple[Effect, ...], verb: Verb) -> dict[str, str]:
    return {table: effect.target for effect in effects if effect.verb is verb for table in effect.tables}


def _before(connection: Connection, _cursor: Any, _sql: str, _values: Any, context: Any, _many: bool) -> None:  # noqa: FBT001 - SQLAlchemy's signature
    watcher: Watcher | None = connection.info.get(WATCHER)
    if watcher is not None:
        watcher.before(context.compiled if context is not None else None)
    elif (confining := CONFINED.get()) is not None:
        raise confining.elsewhere()


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
            connection.connection.rollback()
            raise


def _changed(cursor: Any, context: Any) -> int | None:
    """Give the rows that a statement changed; None where the driver can't say (RETURNING isn't fetched yet)."""
    if not context.compiled.effective_returning:
        return cursor.rowcount if cursor.rowcount >= 0 else None
    is_plain = context.isinsert and context.compiled.statement._post_values_clause is None  # noqa: SLF001 - no public name for ON CONFLICT
    return 1 if is_plain and len(context.compiled_parameters) == 1 else None


class _Recorder:
    """A mix-in for a dialect's SQL compiler: writes down every table, and whatever is text instead of a construct."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.seen = Seen()
        super().__init__(*args, **kwargs)

    def visit_table(self, table: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(table, self.seen.reads)
        return super().visit_table(table, *args, **kwargs)  # type: ignore[misc]

    def visit_insert(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.writes)
        return super().visit_insert(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_update(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.writes)
        return super().visit_update(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_delete(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.deletes)
        return super().visit_delete(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_textclause(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.unseen = "text()"
        return super().visit_textclause(*args, **kwargs)  # type: ignore[misc]

    def visit_tstring(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.unseen = "tstring()"
        return super().visit_tstring(*args, **kwargs)  # type: ignore[misc]

    def visit_column(self, column: Any, *args: Any, **kwargs: Any) -> Any:
        if column.is_literal and not OWN_LITERAL.fullmatch(str(column.name)):
            self.seen.unseen = "literal_column()"
        return super().visit_column(column, *args, **kwargs)  # type: ignore[misc]

    def visit_function(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        if FAR_FUNCTION.fullmatch(func.name.lower()):
            self.seen.unseen = func.name
        return super().visit_function(func, *args, **kwargs)  # type: ignore[misc]

    def visit_custom_op_binary(self, element: Any, operator: Any, **kwargs: Any) -> Any:
        self._operator(operator)
        return super().visit_custom_op_binary(element, operator, **kwargs)  # type: ignore[misc]

    def visit_custom_op_unary_operator(self, element: Any, operator: Any, **kwargs: Any) -> Any:
        self._operator(operator)
        return super().visit_custom_op_unary_operator(element, operator, **kwargs)  # type: ignore[misc]

    def visit_custom_op_unary_modifier(self, element: Any, operator: Any, **kwargs: Any) -> Any:
        self._operator(operator)
        return super().visit_custom_op_unary_modifier(element, operator, **kwargs)  # type: ignore[misc]

    def get_statement_hint_text(self, hint_texts: Any) -> Any:
        self.seen.unseen = "a hint"
        return super().get_statement_hint_text(hint_texts)  # type: ignore[misc]

    def format_from_hint_text(self, *args: Any) -> Any:
        self.seen.unseen = "a hint"
        return super().format_from_hint_text(*args)  # type: ignore[misc]

    def _operator(self, operator: Any) -> None:
        if not PLAIN_OPERATOR.fullmatch(operator.opstring.strip()):
            self.seen.unseen = "op()"

    def _touch(self, table: Any, tables: set[str]) -> None:
        if isinstance(table, Table):
            tables.add(table.fullname)
        else:
            self.seen.unseen = "table()"
