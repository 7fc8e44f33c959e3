"""Any mapped Table counts, whatever its schema and metadata: by the name that the database knows it by."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, delete, insert, select
from sqlalchemy.orm import registry

from flows.effects import deletes, reads, writes
from flows.envelope import Status
from flows.operation import flow
from flows.world import World
from tests.flows.house import House, Nothing, Value

pytestmark = pytest.mark.db


def make_table(house: House, metadata: MetaData, name: str = "app_cake") -> Table:
    """Declare a table in a schema: SQLite has one by itself, PostgreSQL gets one."""
    schema = "main" if house.database.is_sqlite else "sales"
    return Table(name, metadata, Column("id", Integer, primary_key=True), schema=schema)


def create(house: House, table: Table) -> None:
    with house.database.write() as connection:
        if not house.database.is_sqlite:
            connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS sales")
        table.metadata.create_all(connection)
        connection.execute(insert(table).values(id=1))


def test_tables_of_a_schema_are_read_written_and_deleted_as_declared(house: House) -> None:
    table = make_table(house, MetaData())
    create(house, table)

    class Cake:
        """Mapped by hand."""

    registry().map_imperatively(Cake, table)

    @flow(id="cakes.count", title="Count", effects=[reads("cakes", Cake)])
    def count(_params: Nothing, world: World) -> Value:
        """Count the cakes."""
        return Value(value=len(world.session.scalars(select(Cake)).all()))

    @flow(
        id="cakes.swap", title="Swap", effects=[writes("cakes", Cake), deletes("cakes", table)], asks="Swap the cakes"
    )
    def swap(_params: Nothing, world: World) -> Value:
        """Make a cake of another."""
        world.session.execute(insert(table).values(id=2))
        world.session.execute(delete(table).where(table.c.id == 1))
        return Value(value=2)

    assert house.read(count).result == {"value": 1}
    assert house.write(swap).status is Status.DONE
    assert house.read(count).result == {"value": 1}


def test_a_table_of_the_same_name_in_another_schema_is_another_table(house: House) -> None:
    there = make_table(house, MetaData())
    create(house, there)
    here = Table("app_cake", MetaData(), Column("id", Integer, primary_key=True))

    @flow(id="cakes.count", title="Count", effects=[reads("cakes", here)])
    def count(_params: Nothing, world: World) -> Value:
        """Declare one and read the other."""
        return Value(value=len(world.session.execute(select(there)).all()))

    ran = house.read(count)

    assert (ran.status, ran.code) == (Status.FAILED, "undeclared_effect")


def test_two_declarations_of_one_table_are_one_table(house: House) -> None:
    first, second = make_table(house, MetaData()), make_table(house, MetaData())
    create(house, first)

    @flow(id="cakes.count", title="Count", effects=[reads("cakes", first)])
    def count(_params: Nothing, world: World) -> Value:
        """Declare it by one metadata and read it by another."""
        return Value(value=len(world.session.execute(select(second)).all()))

    assert house.read(count).result == {"value": 1}
