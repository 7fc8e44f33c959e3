"""Prepared statements say the same as SQLAlchemy's own way, and survive a broken connection."""

import pytest
from flask import Flask
from sqlalchemy import BigInteger, Column, MetaData, String, Table, bindparam, insert, select
from sqlalchemy.exc import DBAPIError

from core.db import open_database
from core.prepared import PreparedRead, insert_sql
from core.settings import load_settings

pytestmark = pytest.mark.db
fruit = Table("cs_fruit", MetaData(), Column("name", String(20), primary_key=True), Column("grams", BigInteger))
HEAVIER = (
    select(fruit.c.name, fruit.c.grams.label("weight"))
    .where(fruit.c.grams > bindparam("least"), fruit.c.name != "melon")
    .order_by(fruit.c.grams)
)


@pytest.fixture
def database(database_url, tmp_path):
    environ = {"COUNTERSIGN_SECRET_KEYS": "k" * 43, "COUNTERSIGN_DATABASE_URL": database_url}
    database = open_database(Flask(__name__), load_settings(environ, folder=tmp_path))
    with database.write() as connection:
        fruit.create(connection)
        connection.execute(insert(fruit), [{"name": "apple", "grams": 150}, {"name": "melon", "grams": 1200}])
    yield database
    database.reading.dispose()
    database.writing.dispose()


def test_the_first_row_comes_by_its_columns_names(database):
    row = PreparedRead(database.reading, HEAVIER).first({"least": 100})

    assert (row.name, row.weight) == ("apple", 150)


def test_no_row_is_none_and_a_value_is_never_sql(database):
    named = PreparedRead(database.reading, select(fruit.c.name).where(fruit.c.name == bindparam("wanted")))

    assert named.first({"wanted": "' OR 1=1 --"}) is None
    assert PreparedRead(database.reading, HEAVIER).first({"least": 200}) is None  # the melon is left out by a constant


def test_a_broken_connection_of_the_pool_is_replaced(database):
    prepared = PreparedRead(database.reading, HEAVIER)
    prepared.first({"least": 100})
    pooled = database.reading.raw_connection()
    pooled.driver_connection.close()
    pooled.close()

    assert prepared.first({"least": 100}).name == "apple"


def test_what_the_database_refuses_comes_as_sqlalchemys_error(database):
    prepared = PreparedRead(database.reading, HEAVIER)
    with database.write() as connection:
        fruit.drop(connection)

    with pytest.raises(DBAPIError):
        prepared.first({"least": 100})


def test_whole_rows_are_inserted_by_name(database):
    with database.write() as connection:
        rows = [{"grams": 5, "name": "cherry"}, {"name": "date", "grams": None}]
        connection.exec_driver_sql(insert_sql(database.writing, fruit), rows)
        found = connection.execute(
            select(fruit.c.name, fruit.c.grams).where(fruit.c.name.in_(["cherry", "date"]))
        ).all()

    assert sorted(tuple(row) for row in found) == [("cherry", 5), ("date", None)]
