"""What a developer writes every day passes the check; what is text in the coat of a construct doesn't."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    DateTime,
    Integer,
    MetaData,
    Numeric,
    Sequence,
    String,
    Table,
    case,
    cast,
    collate,
    column,
    extract,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.elements import quoted_name

from flows.effects import reads, writes
from flows.envelope import Status
from flows.operation import flow
from flows.recorder import FAR_FUNCTION, PLAIN_OPERATOR, PLAIN_TYPE
from flows.world import World
from tests.flows.house import Counter, House, Nothing, Person, Value

NUMBERED = Table("app_numbered", MetaData(), Column("id", Integer, Sequence("app_numbered_seq"), primary_key=True))
EVERYDAY: dict[str, Callable[[], Any]] = {
    "functions": lambda: select(func.coalesce(func.sum(Counter.value), 0), func.lower("A"), func.max(Counter.id)),
    "casts": lambda: select(cast(Counter.value, String(20)), cast(Counter.id, Numeric(10, 2, asdecimal=False))),
    "a cast to a time": lambda: select(cast(literal(datetime(2026, 1, 1, tzinfo=UTC)), DateTime(timezone=True))),
    "labels and order": lambda: select(Counter.value.label("much")).order_by(column("much")),
    "operators": lambda: select(Counter.value.op("||")("x"), Counter.value % 2, -Counter.value),
    "patterns": lambda: select(Person.name.ilike("a%"), Person.name.contains("%", autoescape=True)),
    "case and tuples": lambda: select(case((Counter.value > 1, "a"), else_="b")).where(
        tuple_(Counter.id, Counter.value).in_([(1, 0)])
    ),
    "extract": lambda: select(extract("year", literal(datetime(2026, 1, 1, tzinfo=UTC), DateTime()))),
    "a quoted name": lambda: select(Counter.value.label(quoted_name("two words", quote=True))),
    "windows": lambda: select(func.row_number().over(order_by=Counter.id)),
    "a write with a function": lambda: update(Counter).values(value=func.abs(Counter.value)),
}


def running(house: House, make: Callable[[], Any]) -> Any:
    @flow(
        id="guard.try",
        title="Try",
        effects=[writes("counter", Counter), writes("numbered", NUMBERED), reads("people", Person)],
        asks="Try",
    )
    def attempt(_params: Nothing, world: World) -> Value:
        """Try something."""
        world.session.execute(make())
        return Value(value=1)

    return house.write(attempt)


@pytest.mark.db
@pytest.mark.parametrize("name", EVERYDAY)
def test_what_is_written_every_day_passes(house: House, name: str) -> None:
    ran = running(house, EVERYDAY[name])

    assert ran.status is Status.DONE, (ran.code, ran.message)


@pytest.mark.db
def test_a_key_may_come_from_its_sequence_and_a_bare_sequence_is_refused(house: House) -> None:
    NUMBERED.create(house.database.writing)

    assert running(house, lambda: insert(NUMBERED)).status is Status.DONE
    if not house.database.is_sqlite:  # which has none
        ran = running(house, lambda: select(Sequence("app_numbered_seq").next_value()))
        assert (ran.status, ran.code) == (Status.FAILED, "unseen_sql")


@pytest.mark.db
def test_a_name_of_a_collation_is_a_name(house: House) -> None:
    known = "NOCASE" if house.database.is_sqlite else "C"
    assert running(house, lambda: select(collate(Person.name, known))).status is Status.DONE

    raw = quoted_name(f'"{known}", (SELECT 1)', quote=False)
    assert running(house, lambda: select(collate(Person.name, raw))).code == "unseen_sql"


@pytest.mark.parametrize("operator", ["||", "->>", "@>", "LIKE", "not ilike", "IS NOT DISTINCT FROM", "SIMILAR TO"])
def test_an_operator_is_an_operator(operator: str) -> None:
    assert PLAIN_OPERATOR.fullmatch(operator)


@pytest.mark.parametrize("operator", ["--", "/*", "+ (", "UNION SELECT", "= 1 OR", "FROM people", ";", "'x' ||"])
def test_nothing_else_is_an_operator(operator: str) -> None:
    assert not PLAIN_OPERATOR.fullmatch(operator)


@pytest.mark.parametrize("name", ["VARCHAR(20)", "NUMERIC(10, 2)", "TIMESTAMP WITH TIME ZONE", "INTEGER[]", 'a."B"'])
def test_a_type_is_a_type(name: str) -> None:
    assert PLAIN_TYPE.fullmatch(name)


@pytest.mark.parametrize("name", ["TEXT), (SELECT 1", "TEXT(1)) --(2)", "TEXT; DROP", "(SELECT 1)"])
def test_nothing_else_is_a_type(name: str) -> None:
    assert not PLAIN_TYPE.fullmatch(name)


@pytest.mark.parametrize("name", ["lower", "now", "date_trunc", "json_extract", "pg_typeof", "currval", "localtime"])
def test_a_function_that_stays_here_is_let_be(name: str) -> None:
    assert not FAR_FUNCTION.fullmatch(name)


@pytest.mark.parametrize("name", ["pg_advisory_lock", "pg_reload_conf", "crosstab", "ts_stat", "setval", "lo_export"])
def test_a_function_that_reaches_further_is_known(name: str) -> None:
    assert FAR_FUNCTION.fullmatch(name)
