"""Escapes through the database: SQL in which tables can't be seen, effects that aren't declared, other connections."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    MetaData,
    cast,
    column,
    create_engine,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    text,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import joinedload, scoped_session, selectinload, sessionmaker
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.elements import ColumnElement, quoted_name
from sqlalchemy.types import UserDefinedType

from flows.models import run
from flows.world import World
from tests.flows.escapes.tables import VIEW, Base, Child, Ledger, Owner, Parent, Place

Act = Callable[[World, Place], Any]
PEEK = "(SELECT name FROM esc_owner)"


class Peek(ColumnElement[str]):
    """A construct that writes its own SQL."""

    inherit_cache = True


@compiles(Peek)
def _peek(_element: Peek, _compiler: Any, **_: Any) -> str:
    return PEEK


class PeekingType(UserDefinedType[str]):
    """A type whose name is more than one."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return f"TEXT) || {PEEK} || CAST('' AS TEXT"


def use_a_driver(world: World, _place: Place) -> None:
    cursor = world.session.connection().connection.cursor()
    cursor.execute("DELETE FROM esc_owner")


def use_the_driver_itself(world: World, _place: Place) -> None:
    driver: Any = world.session.connection().connection.driver_connection
    driver.execute("COMMIT")


def use_another_connection(world: World, _place: Place) -> None:
    with world.session.connection().engine.begin() as connection:
        connection.execute(delete(Owner))


def use_a_raw_connection(_world: World, place: Place) -> None:
    place.database.writing.raw_connection().cursor().execute("DELETE FROM esc_owner")


def use_a_session_of_its_own(_world: World, place: Place) -> None:
    with sessionmaker(place.database.writing).begin() as session:
        session.execute(delete(Ledger))


def use_a_scoped_session(_world: World, place: Place) -> None:
    scoped_session(sessionmaker(place.database.reading)).execute(select(Ledger.id))


def make_an_engine(_world: World, place: Place) -> None:
    with create_engine(place.database.writing.url).begin() as connection:
        connection.execute(delete(Ledger))


def unwatch_its_connection(world: World, _place: Place) -> None:
    world.session.connection().info.clear()
    world.session.execute(delete(Owner))


def translate_the_schema(world: World, _place: Place) -> None:
    schema = "main" if world.session.connection().dialect.name == "sqlite" else "information_schema"
    world.session.execute(select(Ledger.id), execution_options={"schema_translate_map": {None: schema}})


def roll_the_run_back(world: World, _place: Place) -> None:
    connection = world.session.connection()
    transaction = connection.get_transaction()
    assert transaction is not None
    transaction.rollback()


def close_over_its_work(world: World, _place: Place) -> None:
    world.session.execute(update(Ledger).values(value=9))
    world.session.close()


def swallow(world: World, _place: Place) -> None:
    try:
        world.session.execute(delete(Owner))
    except Exception:  # noqa: BLE001 - what a careless flow would write
        world.session.rollback()


def execute(statement: Callable[[], Any]) -> Act:
    return lambda world, _place: world.session.execute(statement()).all()


def change(statement: Callable[[], Any]) -> Act:
    return lambda world, _place: world.session.execute(statement())


UNSEEN_SQL: Mapping[str, Act] = {
    "text": change(lambda: text("DELETE FROM esc_owner")),
    "text COMMIT": change(lambda: text("COMMIT")),
    "text ROLLBACK": change(lambda: text("ROLLBACK")),
    "text SET or PRAGMA": change(lambda: text("PRAGMA foreign_keys=OFF")),
    "text in a WHERE": execute(lambda: select(Ledger.id).where(text(f"'Ada' = {PEEK}"))),
    "text in an ORDER BY": execute(lambda: select(Ledger.id).order_by(text(PEEK))),
    "text as the value of an update": change(lambda: update(Ledger).values(value=text("1"))),
    "from_statement": execute(lambda: select(Ledger).from_statement(text("SELECT * FROM esc_owner"))),
    "text with columns": execute(lambda: text("SELECT name FROM esc_owner").columns(column("name"))),
    "literal_column": execute(lambda: select(literal_column(PEEK))),
    "prefix": execute(lambda: select(Ledger.id).prefix_with(f"{PEEK},")),
    "suffix": execute(lambda: select(Ledger.id).suffix_with("UNION SELECT id FROM esc_owner")),
    "statement hint": execute(lambda: select(Ledger.id).with_statement_hint("UNION SELECT id FROM esc_owner")),
    "table hint": execute(lambda: select(Ledger.id).with_hint(Ledger, "ONLY")),
    "lightweight table": execute(lambda: select(table("esc_owner", column("name")))),
    "an insert into a lightweight table": change(lambda: insert(table("esc_note", column("id"))).values(id=1)),
    "op": execute(lambda: select(Ledger.value.op(f"+ {PEEK} +")(1))),
    "op of words": execute(lambda: select(Ledger.value.op("FROM esc_owner UNION SELECT")(1))),
    "op that comments out": change(lambda: update(Ledger).values(value=1).where(Ledger.id.op("--")(2))),
    "a name that isn't quoted": execute(lambda: select(column(quoted_name(PEEK, quote=False))).select_from(Ledger)),
    "a label that isn't quoted": execute(
        lambda: select(Ledger.id.label(quoted_name("x, name FROM esc_owner--", quote=False)))
    ),
    "a type": execute(lambda: select(cast(Ledger.value, PeekingType()))),
    "a construct of its own": execute(lambda: select(Peek())),
    "a construct of its own, nested": execute(
        lambda: select(func.coalesce(Peek().label("x"), "y")).select_from(Ledger)
    ),
    "schema_translate_map": translate_the_schema,
    "a function that runs SQL": execute(lambda: select(func.query_to_xml("SELECT 1", True, False, ""))),
    "a function that reads files": execute(lambda: select(func.pg_read_file("/etc/passwd"))),
    "a function that tells others": execute(lambda: select(func.pg_notify("channel", "word"))),
    "a function that loads code": execute(lambda: select(func.load_extension("evil"))),
    "a sequence": execute(lambda: select(func.nextval("esc_ledger_id_seq"))),
    "CREATE TABLE": change(lambda: CreateTable(VIEW.to_metadata(MetaData(), name="esc_made"))),
    "create_all": lambda w, _: Base.metadata.create_all(w.session.connection(), checkfirst=False),
    "SELECT INTO": change(lambda: select(Ledger.id).into("esc_made")),
    "driver SQL": lambda w, _: w.session.connection().exec_driver_sql("DELETE FROM esc_owner"),
    "driver SQL COMMIT": lambda w, _: w.session.connection().exec_driver_sql("COMMIT"),
    "the driver's cursor": use_a_driver,
    "the driver's connection": use_the_driver_itself,
    "another connection": use_another_connection,
    "a raw connection": use_a_raw_connection,
    "a session of its own": use_a_session_of_its_own,
    "a scoped session": use_a_scoped_session,
    "an engine of its own": make_an_engine,
    "an unwatched connection": unwatch_its_connection,
}
UNDECLARED: Mapping[str, Act] = {
    "another table": execute(lambda: select(Owner.name)),
    "a relationship, loaded late": lambda w, _: w.session.get_one(Ledger, 1).owner.name,
    "a relationship, joined": execute(lambda: select(Ledger).options(joinedload(Ledger.owner))),
    "a relationship, loaded beside": execute(lambda: select(Ledger).options(selectinload(Ledger.owner))),
    "a relationship, changed": lambda w, _: setattr(w.session.get_one(Ledger, 1).owner, "name", "x"),
    "a subquery": execute(lambda: select(Ledger.id).where(Ledger.value.in_(select(Owner.id)))),
    "a union": execute(lambda: select(Ledger.id).union(select(Owner.id))),
    "bulk insert": lambda w, _: w.session.bulk_insert_mappings(Owner, [{"id": 2, "name": "x"}]),
    "bulk save": lambda w, _: w.session.bulk_save_objects([Owner(id=2, name="x")]),
    "bulk update": change(lambda: update(Owner).values(name="x")),
    "bulk update by key": lambda w, _: w.session.execute(update(Owner), [{"id": 1, "name": "x"}]),
    "insert from select": change(lambda: insert(Ledger).from_select(["id", "value"], select(Owner.id, Owner.id))),
    "a write in a WITH": execute(
        lambda: select(insert(Owner).values(id=2, name="x").returning(Owner.id).cte("added").c.id)
    ),
    "a delete of what is written": change(lambda: delete(Ledger)),
    "a cascade": change(lambda: delete(Parent)),
    "a cascade by the session": lambda w, _: w.session.delete(w.session.get_one(Parent, 1)),
    "a cascade of a key": change(lambda: update(Parent).values(id=2)),
    "a child": change(lambda: delete(Child)),
    "our tables": execute(lambda: select(run.c.id)),
    "commit": lambda w, _: w.session.connection().commit(),
    "rollback": roll_the_run_back,
    "close over its work": close_over_its_work,
    "a message": lambda w, _: w.send("email", to="ada@example.test", subject="x", text="y"),
    "a call": lambda w, place: w.call("disk", lambda _key: place.file.unlink()),
    "a refusal that is swallowed": swallow,
}
