"""What the database changes by itself counts as the flow's: it is told where a flow is declared and where it runs."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import ForeignKey, MetaData, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flows.cascades import of_delete, of_update
from flows.effects import Effect, deletes, writes
from flows.envelope import Status
from flows.faults import FlowFaults
from flows.operation import Flow, flow
from flows.registry import Registry
from flows.world import World
from tests.flows.house import House, Nothing, Value


class Base(DeclarativeBase):
    """Tables on which one delete reaches through four others."""


class Firm(Base):
    __tablename__ = "casc_firm"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(default="x")


class Team(Base):
    __tablename__ = "casc_team"
    id: Mapped[int] = mapped_column(primary_key=True)
    firm_id: Mapped[int] = mapped_column(ForeignKey(Firm.id, ondelete="CASCADE", onupdate="cascade"), unique=True)


class Desk(Base):
    __tablename__ = "casc_desk"
    id: Mapped[int] = mapped_column(primary_key=True)
    team_id: Mapped[int | None] = mapped_column(ForeignKey(Team.id, ondelete="SET NULL"))
    firm_id: Mapped[int | None] = mapped_column(ForeignKey(Team.firm_id, ondelete="SET DEFAULT", onupdate="SET NULL"))


class Badge(Base):
    __tablename__ = "casc_badge"
    id: Mapped[int] = mapped_column(primary_key=True)
    team_id: Mapped[int] = mapped_column(ForeignKey(Team.id, ondelete="CASCADE"))


class Visit(Base):
    __tablename__ = "casc_visit"
    id: Mapped[int] = mapped_column(primary_key=True)
    firm_id: Mapped[int] = mapped_column(ForeignKey(Firm.id, ondelete="RESTRICT"))


EVERYTHING = [deletes("firm", Firm, Team, Badge), writes("desks", Desk)]


def table_of(mapped: type[DeclarativeBase]) -> Table:
    assert isinstance(mapped.__table__, Table)
    return mapped.__table__


def removal(effects: list[Effect], act: Callable[[World], Any] = lambda _world: None) -> Flow:
    @flow(id="firm.remove", title="Remove", effects=effects, asks="Remove")
    def remove(_params: Nothing, world: World) -> Value:
        """Remove a firm."""
        act(world)
        return Value(value=0)

    return remove


def test_a_delete_reaches_from_key_to_key() -> None:
    reach = of_delete(table_of(Firm))

    assert (reach.deletes, reach.writes) == ({"casc_team", "casc_badge"}, {"casc_desk"})
    assert of_delete(table_of(Desk)).deletes == set()


def test_a_changed_key_reaches_further_and_another_column_does_not() -> None:
    assert of_update(table_of(Firm), {"id"}).writes == {"casc_team", "casc_desk"}
    assert of_update(table_of(Firm), {"name"}).writes == set()


def test_a_key_to_a_table_that_the_models_do_not_have_leads_nowhere() -> None:
    metadata = MetaData()
    table_of(Team).to_metadata(metadata)
    assert of_delete(table_of(Badge).to_metadata(metadata)).deletes == set()


@pytest.mark.parametrize(
    ("effects", "faults"),
    [
        (EVERYTHING, []),
        (
            [deletes("firm", Firm)],
            [
                "delete:firm doesn't name casc_badge, from which the database deletes with it",
                "delete:firm doesn't name casc_team, from which the database deletes with it",
                "delete:firm: no write names casc_desk, to which the database writes with it",
            ],
        ),
        ([deletes("firm", Firm), deletes("teams", Team, Badge), writes("desks", Desk)], []),
    ],
)
def test_a_declaration_names_what_its_delete_reaches(effects: list[Effect], faults: list[str]) -> None:
    told: list[str] = []
    try:
        Registry([removal(effects)])
    except FlowFaults as error:
        told = [fault.sentence for fault in error.faults]

    assert told == faults


@pytest.fixture
def firm(house: House) -> House:
    """The house with one firm, its team, desk and badge."""
    Base.metadata.create_all(house.database.writing)
    with house.database.write() as connection:
        connection.execute(insert(Firm), {"id": 1, "name": "x"})
        connection.execute(insert(Team), {"id": 1, "firm_id": 1})
        connection.execute(insert(Desk), {"id": 1, "team_id": 1, "firm_id": 1})
        connection.execute(insert(Badge), {"id": 1, "team_id": 1})
    return house


def replace_key(world: World) -> None:
    dialect: Any = sqlite if world.session.connection().dialect.name == "sqlite" else postgresql
    replace = dialect.insert(Firm).values(id=1, name="y")
    world.session.execute(replace.on_conflict_do_update(index_elements=["id"], set_={"id": 2}))


def change_key(world: World) -> None:
    firm = world.session.get_one(Firm, 1)
    firm.id = 2


CHANGES: dict[str, Callable[[World], Any]] = {
    "values": lambda world: world.session.execute(update(Firm).values(id=2)),
    "parameters": lambda world: world.session.connection().execute(update(table_of(Firm)), {"id": 2}),
    "the orm": change_key,
    "an upsert": replace_key,
}


@pytest.mark.db
def test_what_the_database_deletes_by_itself_must_be_declared(firm: House) -> None:
    remove = removal([deletes("firm", Firm), deletes("teams", Team, Badge)], lambda w: w.session.execute(delete(Firm)))

    ran = firm.write(remove)

    assert (ran.status, ran.code, firm.count(table_of(Badge))) == (Status.FAILED, "undeclared_effect", 1)


@pytest.mark.db
def test_what_is_declared_is_deleted_and_its_rows_are_not_guessed(firm: House) -> None:
    ran = firm.write(removal(EVERYTHING, lambda world: world.session.execute(delete(Firm))))

    assert (ran.status, firm.count(table_of(Badge)), firm.count(table_of(Team))) == (Status.DONE, 0, 0)
    with firm.database.read() as connection:
        assert connection.execute(select(Desk.team_id)).scalars().all() == [None]
    steps = [(step.verb, step.target, step.detail) for step in firm.run(ran.run_id).steps]
    assert steps == [("write", "desks", "1 statement"), ("delete", "firm", "1 statement")]


@pytest.mark.db
@pytest.mark.parametrize("how", CHANGES)
def test_a_changed_key_writes_where_the_database_follows_it(firm: House, how: str) -> None:
    narrow = firm.write(removal([writes("firm", Firm)], CHANGES[how]))
    assert (narrow.status, narrow.code) == (Status.FAILED, "undeclared_effect")

    wide = firm.write(removal([writes("firm", Firm), writes("teams", Team, Desk)], CHANGES[how]))
    assert wide.status is Status.DONE


@pytest.mark.db
def test_a_column_that_nothing_follows_is_written_alone(firm: House) -> None:
    rename = removal([writes("firm", Firm)], lambda world: setattr(world.session.get_one(Firm, 1), "name", "y"))

    assert firm.write(rename).status is Status.DONE
