"""What a flow does is what it declared, however it says it; what can't be seen is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    column,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased, joinedload, selectinload

from flows.effects import deletes, reads, sends, writes
from flows.envelope import Status
from flows.guard import UnseenSql
from flows.models import outbox, run
from flows.operation import flow
from flows.world import World
from tests.flows.house import Counter, House, Nothing, Person, Thing, Value, add

pytestmark = pytest.mark.db
Act = Callable[[World], Any]
STRANGER = Table("app_stranger", MetaData(), Column("id", Integer))


def commits(world: World) -> None:
    world.session.execute(update(Counter).values(value=4))
    world.session.commit()


ALLOWED: dict[str, Act] = {
    "select": lambda w: w.session.execute(select(Counter.value)).all(),
    "orm": lambda w: w.session.get(Counter, 1),
    "count": lambda w: w.session.execute(select(func.count()).select_from(Counter)).all(),
    "exists": lambda w: w.session.execute(select(exists().where(Counter.id == 1))).all(),
    "any": lambda w: w.session.scalars(select(Person).where(Person.things.any(Thing.name == "x"))).all(),
    "contains": lambda w: w.session.scalars(select(Person).where(Person.name.contains("d%"))).all(),
    "joined": lambda w: w.session.scalars(select(Person).options(joinedload(Person.things))).unique().all(),
    "selectin": lambda w: w.session.scalars(select(Person).options(selectinload(Person.things))).all(),
    "lazy": lambda w: w.session.scalars(select(Person)).one().things,
    "alias and cte": lambda w: w.session.execute(select(aliased(Counter, select(Counter).cte()))).all(),
    "insert": lambda w: w.session.execute(insert(Counter).values(id=2, value=1)),
    "insert many": lambda w: w.session.execute(insert(Counter), [{"id": 2, "value": 1}, {"id": 3, "value": 1}]),
    "flush": lambda w: w.session.add_all([Counter(id=2, value=1), Counter(id=3, value=2)]),
    "update": lambda w: w.session.execute(update(Counter).values(value=5)),
    "update from": lambda w: w.session.execute(update(Counter).values(value=5).where(Counter.id == Person.id)),
    "nested": lambda w: w.session.begin_nested().commit(),
    "commit": commits,
}
UNSEEN: dict[str, Act] = {
    "text": lambda w: w.session.execute(text("SELECT 1")),
    "text columns": lambda w: w.session.execute(select(text("value")).select_from(Counter)),
    "text where": lambda w: w.session.execute(select(Counter.id).where(text("1 = 1"))).all(),
    "text subquery": lambda w: w.session.execute(text("SELECT 1 AS a").columns(column("a"))).all(),
    "literal column": lambda w: w.session.execute(select(literal_column("(SELECT 1)"))).all(),
    "prefix": lambda w: w.session.execute(select(Counter.id).prefix_with("DISTINCT")).all(),
    "suffix": lambda w: w.session.execute(select(Counter.id).suffix_with("LIMIT 1")).all(),
    "hint": lambda w: w.session.execute(select(Counter.id).with_statement_hint("LIMIT 1")).all(),
    "lightweight table": lambda w: w.session.execute(select(table("app_counter", column("id")))).all(),
    "operator": lambda w: w.session.execute(select(Counter.id.op("+ (SELECT 1) +")(1))).all(),
    "driver sql": lambda w: w.session.connection().exec_driver_sql("SELECT 1"),
    "text set": lambda w: w.session.execute(update(Counter).values(value=text("1"))),
}
UNDECLARED: dict[str, Act] = {
    "another table": lambda w: w.session.execute(select(STRANGER)).all(),
    "in a subquery": lambda w: w.session.scalars(select(Counter).where(Counter.id.in_(select(STRANGER.c.id)))).all(),
    "in a cte": lambda w: w.session.execute(select(select(STRANGER).cte())).all(),
    "in an insert from select": lambda w: w.session.execute(
        insert(Counter).from_select(["id", "value"], select(STRANGER.c.id, STRANGER.c.id))
    ),
    "our own": lambda w: w.session.execute(select(run.c.id)).all(),
    "a write to what it only reads": lambda w: w.session.execute(update(Person).values(name="x")),
    "a write hidden in a cte": lambda w: w.session.execute(
        select(insert(Person).values(id=9, name="x").returning(Person.id).cte())
    ),
    "a delete of what it only writes": lambda w: w.session.execute(delete(Counter)),
    "a delete by the orm": lambda w: w.session.delete(w.session.get(Counter, 1)),
    "the end of the transaction": lambda w: w.session.connection().commit(),
    "a message": lambda w: w.send("email", to="a@b.test", subject="x", text="y"),
}


def run_act(house: House, act: Act) -> Any:
    @flow(
        id="world.try",
        title="Try",
        effects=[writes("counter", Counter), reads("people", Person, Thing)],
        asks="Try",
    )
    def attempt(_params: Nothing, world: World) -> Value:
        """Try something."""
        act(world)
        return Value(value=1)

    return house.write(attempt)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_declared_works_however_it_is_said(house: House, name: str) -> None:
    assert run_act(house, ALLOWED[name]).status is Status.DONE


@pytest.mark.parametrize("name", UNSEEN)
def test_sql_whose_tables_can_not_be_seen_is_refused(house: House, name: str) -> None:
    ran = run_act(house, UNSEEN[name])

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "unseen_sql", 0)


@pytest.mark.parametrize("name", UNDECLARED)
def test_what_is_not_declared_is_refused_and_undone(house: House, name: str) -> None:
    def act(world: World) -> None:
        world.session.execute(update(Counter).values(value=5))
        UNDECLARED[name](world)

    ran = run_act(house, act)

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "undeclared_effect", 0)


def test_a_refused_statement_is_refused_for_each_flow_by_its_own_effects(house: House) -> None:
    @flow(id="world.delete", title="Delete", effects=[deletes("counter", Counter)], asks="Delete")
    def remove(_params: Nothing, world: World) -> Value:
        """Delete."""
        world.session.execute(delete(Counter))
        return Value(value=0)

    assert run_act(house, lambda w: w.session.execute(delete(Counter))).code == "undeclared_effect"
    assert house.write(remove).status is Status.DONE
    assert run_act(house, lambda w: w.session.execute(delete(Counter))).code == "undeclared_effect"


def test_steps_count_statements_and_rows_by_effect(house: House) -> None:
    def act(world: World) -> None:
        world.session.execute(insert(Counter), [{"id": 2, "value": 1}, {"id": 3, "value": 1}])
        world.session.execute(update(Counter).values(value=7))
        world.session.scalars(select(Person)).one().things  # noqa: B018 - the lazy load is what is counted

    ran = run_act(house, act)

    steps = [(step.verb, step.target, step.detail) for step in house.run(ran.run_id).steps]
    assert steps == [("write", "counter", "5 rows in 2 statements"), ("read", "people", "2 statements")]


def test_an_upsert_is_a_write(house: House) -> None:
    dialect = sqlite if house.database.is_sqlite else postgresql

    def act(world: World) -> None:
        upsert = dialect.insert(Counter).values(id=1, value=5)
        world.session.execute(upsert.on_conflict_do_update(index_elements=["id"], set_={"value": 6}))

    assert run_act(house, act).status is Status.DONE
    assert house.counter() == 6


def test_a_flow_may_roll_back_to_where_its_session_began_and_go_on(house: House) -> None:
    def act(world: World) -> None:
        world.session.execute(update(Counter).values(value=5))
        world.session.commit()
        world.session.add(Counter(id=1, value=9))
        with pytest.raises(IntegrityError):
            world.session.commit()
        world.session.rollback()
        world.session.execute(update(Counter).values(value=Counter.value + 1))

    ran = run_act(house, act)
    assert (ran.status, house.counter()) == (Status.DONE, 6)
    assert [step.detail for step in house.run(ran.run_id).steps] == ["2 rows in 2 statements"]


def test_what_a_flow_took_back_is_neither_recorded_nor_sent(house: House) -> None:
    def take_back(_params: Nothing, world: World) -> Value:
        world.session.execute(update(Counter).values(value=5))
        world.send("email", to="ada@example.test", subject="x", text="y")
        world.session.rollback()
        return Value(value=1)

    ran = house.write(replace(add, function=take_back, params=Nothing))

    assert (ran.status, house.counter(), house.count(outbox)) == (Status.DONE, 0, 0)
    assert house.run(ran.run_id).steps == ()


@pytest.mark.parametrize("act", [lambda s: s.execute(update(Counter).values(value=5)), lambda s: s.add(Counter(id=2))])
def test_a_session_that_is_closed_over_its_work_fails_the_run(house: House, act: Callable[[Any], Any]) -> None:
    def lose(world: World) -> None:
        with world.session as session:
            act(session)

    def keep(world: World) -> None:
        with world.session as session:
            session.execute(update(Counter).values(value=7))
            session.commit()

    ran = run_act(house, lose)
    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "undeclared_effect", 0)
    assert (run_act(house, keep).status, house.counter()) == (Status.DONE, 7)


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_flow_reaches_the_database_through_its_world_alone(house: House, *, swallowed: bool) -> None:
    def beside(world: World) -> None:
        try:
            with house.database.reading.connect() as connection:
                connection.execute(select(Person.name)).all()
        except UnseenSql:
            if not swallowed:
                raise

    ran = run_act(house, beside)

    assert (ran.status, ran.code) == (Status.FAILED, "unseen_sql")
    with house.database.read() as connection:
        assert connection.execute(select(Person.name)).scalars().all() == ["Ada"]


@pytest.mark.parametrize(
    "name",
    [
        "query_to_xml", "TABLE_TO_XML", "pg_read_file", "pg_ls_dir", "pg_stat_file", "lo_import", "dblink_exec",
        "set_config", "pg_sleep_for", "pg_terminate_backend", "pg_cancel_backend", "pragma_table_info",
        "load_extension", "readfile", "writefile",
    ],
)  # fmt: skip
def test_functions_that_reach_elsewhere_are_refused_before_they_run(house: House, name: str) -> None:
    function: Any = getattr(func, name)
    ran = run_act(house, lambda world: world.session.execute(select(function("x"))))
    assert (ran.status, ran.code) == (Status.FAILED, "unseen_sql")
    ran = run_act(house, lambda world: world.session.execute(select(function("x").table_valued("name"))))
    assert (ran.status, ran.code) == (Status.FAILED, "unseen_sql")


def test_a_refusal_that_the_flow_swallows_fails_the_run(house: House) -> None:
    def act(world: World) -> None:
        try:
            world.session.execute(delete(Counter))
        except Exception:  # noqa: BLE001 - what a careless flow would write
            world.session.rollback()

    ran = run_act(house, act)

    assert (ran.status, ran.code, house.counter()) == (Status.FAILED, "undeclared_effect", 0)


@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ("a@b.test\nBcc: c@d.test", "x"),
        ("a@b.test, c@d.test", "x"),
        ("nobody", "x"),
        ("a@b.test", "x\r\nBcc: c@d.test"),
        ("a@b.test", ""),
        ("a" * 250 + "@b.test", "x"),
    ],
)
def test_an_address_or_subject_that_is_more_than_one_is_refused(house: House, to: str, subject: str) -> None:
    @flow(id="mail.send", title="Send", effects=[writes("counter", Counter), sends("email")], asks="Send")
    def mail(_params: Nothing, world: World) -> Value:
        """Send a mail."""
        world.send("email", to=to, subject=subject, text="y")
        return Value(value=1)

    assert house.write(mail).code == "internal"


def test_the_world_knows_who_and_when_and_makes_ids(house: House) -> None:
    def act(world: World) -> None:
        assert world.caller.operator_id == "op_ada"
        assert world.now == house.clock.now()
        assert world.new_id("rf").startswith("rf_")
        with pytest.raises(ValueError, match="letters"):
            world.new_id("cs_at")

    assert run_act(house, act).status is Status.DONE


def test_no_connection_is_watched_after_the_run(house: House) -> None:
    run_act(house, ALLOWED["update"])
    run_act(house, UNSEEN["text"])

    with house.database.write() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
        assert "countersign.watcher" not in connection.info
