"""What a statement touches, written down while it is compiled: the one place that every construct passes (design D5).

It sees whatever the ORM makes of a construct: joined loads, CTEs, aliases, INSERT inside WITH. What is text instead
of a construct can't be seen, and is noted as such.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Engine, Table
from sqlalchemy.ext import compiler as extension

from flows import cascades
from flows.effects import Verb

Touched = tuple[tuple[Verb, str], ...]
# SQL functions that run SQL from a text, reach files, other sessions or settings, or only wait.
FAR_FUNCTION = re.compile(
    r"(query|table|database|schema|cursor)_to_.*|lo_.*|dblink.*|crosstab.*|connectby|xpath_table|ts_stat|ts_rewrite"
    r"|set_config|nextval|setval|pragma_.*|load_extension|readfile|writefile|eval|fts3_tokenizer"
    r"|pg_(?!typeof$|size_pretty$|column_size$|input_is_valid$).*"
)
# What SQLAlchemy itself writes as a literal column: count(*), EXISTS (SELECT 1 …), LIKE '%' || x.
OWN_LITERAL = re.compile(r"\*|\d+|'%'")
WORD_OPERATORS = (
    r"(NOT )?(I?LIKE|IN|REGEXP|RLIKE|GLOB|MATCH|BETWEEN|OVERLAPS|SIMILAR TO)|IS( NOT)?( DISTINCT FROM)?"
    r"|AND|OR|XOR|MOD|DIV|COLLATE|AT TIME ZONE"
)
PLAIN_OPERATOR = re.compile(rf"(?!.*(--|/\*))[^\s\w();'\"]+|(?i:{WORD_OPERATORS})")
PLAIN_TYPE = re.compile(r"[\w .\"\[\]-]*(\([\d, ]*\))?[\w .\"\[\]-]*")
PLAIN_NAME = re.compile(r"\w+")


@dataclass(slots=True)
class Seen:
    """What one compiled statement touches, and the verdicts on it by limits (flows/guard.py)."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    has_cascades: bool = False
    unseen: str | None = None
    judged: dict[object, Touched] = field(default_factory=dict)

    def add(self, reach: cascades.Reach) -> None:
        """Add what the database does with it by itself."""
        self.writes |= reach.writes
        self.deletes |= reach.deletes
        self.has_cascades = self.has_cascades or bool(reach.writes or reach.deletes)


def is_recorded(engine: Engine) -> bool:
    """Tell whether the engine's statements are written down."""
    return issubclass(engine.dialect.statement_compiler, Recorder)


def record_statements(engine: Engine) -> None:
    """Let the engine write down what each statement touches, as `seen` of what is compiled."""
    _see_custom_constructs()
    compiler = engine.dialect.statement_compiler
    engine.dialect.statement_compiler = type(f"Recording{compiler.__name__}", (Recorder, compiler), {})
    engine.clear_compiled_cache()  # what was compiled before has no record and would be refused


@cache
def _see_custom_constructs() -> None:
    """Note each construct that is made to SQL by a function of its own (`@compiles`); the compiler isn't asked then."""
    dispatcher: Any = extension._dispatcher  # noqa: SLF001 - the one place that they all pass
    compile_it = dispatcher.__call__

    def compile_seen(self: Any, element: Any, compiler: Any, **kwargs: Any) -> Any:
        if isinstance(compiler, Recorder):
            compiler.seen.unseen = f"@compiles of {type(element).__name__}"
        return compile_it(self, element, compiler, **kwargs)

    dispatcher.__call__ = compile_seen


class Recorder:
    """A mix-in for a dialect's SQL compiler: writes down every table, and whatever is text instead of a construct."""

    isinsert: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.seen = Seen()
        if kwargs.get("schema_translate_map"):
            self.seen.unseen = "schema_translate_map"
        super().__init__(*args, **kwargs)

    def visit_table(self, table: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(table, self.seen.reads)
        return super().visit_table(table, *args, **kwargs)  # type: ignore[misc]

    def visit_insert(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.writes)
        self._change(statement.table, getattr(statement._post_values_clause, "update_values_to_set", {}))  # noqa: SLF001 - no public name for ON CONFLICT
        return super().visit_insert(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_update(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.writes)
        values, keys = statement._values or {}, getattr(self, "column_keys", None)  # noqa: SLF001 - no public name
        if isinstance(statement.table, Table):  # else that is noted already
            columns = statement.table.c
            named = [columns[key] for key in keys or () if key in columns]  # the others are binds of WHERE
            self._change(statement.table, (*values, *named) if values or keys else columns)
        return super().visit_update(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_delete(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        self._touch(statement.table, self.seen.deletes)
        if isinstance(statement.table, Table):
            self.seen.add(cascades.of_delete(statement.table))
        return super().visit_delete(statement, *args, **kwargs)  # type: ignore[misc]

    def visit_textclause(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.unseen = "text()"
        return super().visit_textclause(*args, **kwargs)  # type: ignore[misc]

    def visit_tstring(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.unseen = "tstring()"
        return super().visit_tstring(*args, **kwargs)  # type: ignore[misc]

    def visit_column(self, column: Any, *args: Any, **kwargs: Any) -> Any:
        self._name(column.name)
        if column.is_literal and not OWN_LITERAL.fullmatch(str(column.name)):
            self.seen.unseen = "literal_column()"
        return super().visit_column(column, *args, **kwargs)  # type: ignore[misc]

    def visit_label(self, label: Any, *args: Any, **kwargs: Any) -> Any:
        self._name(label.name)
        return super().visit_label(label, *args, **kwargs)  # type: ignore[misc]

    def visit_alias(self, alias: Any, *args: Any, **kwargs: Any) -> Any:
        self._name(alias.name)
        return super().visit_alias(alias, *args, **kwargs)  # type: ignore[misc]

    def visit_cte(self, cte: Any, *args: Any, **kwargs: Any) -> Any:
        self._name(cte.name)
        return super().visit_cte(cte, *args, **kwargs)  # type: ignore[misc]

    def visit_collation(self, element: Any, *args: Any, **kwargs: Any) -> Any:
        self._name(element.collation)
        return super().visit_collation(element, *args, **kwargs)  # type: ignore[misc]

    def visit_function(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        for name in (*func.packagenames, func.name):
            self._name(name)
        if FAR_FUNCTION.fullmatch(func.name.lower()):
            self.seen.unseen = func.name
        return super().visit_function(func, *args, **kwargs)  # type: ignore[misc]

    def visit_sequence(self, *args: Any, **kwargs: Any) -> Any:
        if not self.isinsert:
            self.seen.unseen = "a sequence"
        return super().visit_sequence(*args, **kwargs)  # type: ignore[misc]

    def visit_extract(self, extract: Any, **kwargs: Any) -> Any:
        if not PLAIN_NAME.fullmatch(extract.field):
            self.seen.unseen = "extract()"
        return super().visit_extract(extract, **kwargs)  # type: ignore[misc]

    def visit_typeclause(self, *args: Any, **kwargs: Any) -> Any:
        text = super().visit_typeclause(*args, **kwargs)  # type: ignore[misc]
        if not PLAIN_TYPE.fullmatch(text):
            self.seen.unseen = "a type"
        return text

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

    def _name(self, name: Any) -> None:
        """Note a name that SQLAlchemy was told to write as it stands (`quoted_name(…, quote=False)`)."""
        if getattr(name, "quote", None) is False and not PLAIN_NAME.fullmatch(name):
            self.seen.unseen = "an unquoted name"

    def _touch(self, table: Any, tables: set[str]) -> None:
        if isinstance(table, Table):
            self._name(table.name)
            self._name(table.schema)
            tables.add(table.fullname)
        else:
            self.seen.unseen = "table()"

    def _change(self, table: Any, columns: Iterable[Any]) -> None:
        """Add what the database changes by itself when these columns of the table change."""
        if isinstance(table, Table):
            keys, known = {getattr(column, "key", column) for column in columns}, set(table.c.keys())
            # What isn't the name of a column is an attribute's: of any of them.
            self.seen.add(cascades.of_update(table, keys if keys <= known else known))
