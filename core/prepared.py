"""Hot statements: compiled once and handed to the driver as they are (design D7); measured four times as fast."""

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ClauseElement, Engine, Select, Table, insert


class PreparedRead:
    """One SELECT on an engine that autocommits, of columns that the driver gives as they are: text and integers."""

    def __init__(self, engine: Engine, statement: Select[Any]) -> None:
        self._engine = engine
        self._statement = statement
        self._sql, self._constants = _compiled(engine, statement)
        names = [str(column.key) for column in statement.selected_columns]
        self._row = namedtuple("Row", names)  # type: ignore[misc] # noqa: PYI024 - its fields are known only now
        self._driver_error = engine.dialect.loaded_dbapi.Error

    def first(self, values: Mapping[str, object]) -> Any:
        """Give the first row by its columns' names, or None; raises what SQLAlchemy raises."""
        try:
            row = self._fetched(values)
        except self._driver_error:
            # SQLAlchemy's own way says what is wrong, and renews the pool after a restart of the database.
            with self._engine.connect() as connection:
                row = connection.execute(self._statement, dict(values)).first()
        return None if row is None else self._row(*row)

    def _fetched(self, values: Mapping[str, object]) -> Any:
        pooled = self._engine.raw_connection()
        try:
            driver: Any = pooled.driver_connection
            return driver.execute(self._sql, {**self._constants, **values}).fetchone()
        except self._driver_error as error:
            pooled.invalidate(error)
            raise
        finally:
            pooled.close()


def insert_sql(engine: Engine, table: Table) -> str:
    """Give the INSERT of whole rows into `table`, for `exec_driver_sql` with a list of dicts."""
    return _compiled(engine, insert(table))[0]


def _compiled(engine: Engine, statement: ClauseElement) -> tuple[str, dict[str, Any]]:
    """Give the SQL with named parameters, and the values of those that are part of the statement."""
    style = "named" if engine.dialect.name == "sqlite" else "pyformat"
    compiled = statement.compile(dialect=type(engine.dialect)(paramstyle=style))  # type: ignore[call-arg]
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}
