"""A small application of the tests: a counter and a shop, their flows, and everything that runs them."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import Connection, ForeignKey, func, insert, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from core.clock import Clock
from core.db import Database, db, open_database
from core.errors import AppError
from core.ids import Ids, SystemChance
from core.mail import Mail
from core.settings import Settings
from flows import models
from flows.admission import Admitted, Ran
from flows.arguments import parse_arguments
from flows.behind import TraceWriter
from flows.caller import Caller, Role, Surface
from flows.effects import deletes, reads, sends, writes
from flows.engine import Engine
from flows.operation import Flow, FlowError, Params, Result, flow
from flows.outbox import Outbox
from flows.trace import RunRecord, Traces
from flows.world import World
from policy.models import audit, confirmation

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class Base(DeclarativeBase):
    """The test application's own tables."""


class Counter(Base):
    __tablename__ = "app_counter"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[int]


class Person(Base):
    __tablename__ = "app_person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    things: Mapped[list["Thing"]] = relationship(back_populates="person")


class Thing(Base):
    __tablename__ = "app_thing"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    person_id: Mapped[int] = mapped_column(ForeignKey("app_person.id"))
    person: Mapped[Person] = relationship(back_populates="things")


class Nothing(Params):
    """No arguments."""


class Amount(Params):
    """How much to add."""

    by: int = 1


class Value(Result):
    """The counter."""

    value: int


class TooMuch(FlowError):
    """The counter is full."""

    code = "too_much"
    public = "The counter can't hold that much."


@flow(id="counter.get", title="Get the counter", effects=[reads("counter", Counter)])
def get_counter(_params: Nothing, world: World) -> Value:
    """Read the counter."""
    return Value(value=world.session.scalars(select(Counter.value)).one())


@flow(
    id="counter.add",
    title="Add to the counter",
    effects=[writes("counter", Counter), sends("email")],
    asks="Add {by} to the counter",
    errors=(TooMuch,),
)
def add(params: Amount, world: World) -> Value:
    """Add to the counter and tell about it."""
    counter = world.session.scalars(select(Counter)).one()
    if params.by > 100:
        raise TooMuch
    counter.value += params.by
    world.send("email", to="ada@example.test", subject="Added", text=f"{params.by} more")
    return Value(value=counter.value)


@flow(id="counter.slow_add", title="Add", effects=[writes("counter", Counter)], asks="Add one")
def read_then_write(_params: Nothing, world: World) -> Value:
    """Read the counter in one statement and write what follows from it in another: what loses updates."""
    value = world.session.execute(select(Counter.value)).scalar_one()
    world.session.execute(update(Counter).values(value=value + 1))
    return Value(value=value + 1)


@flow(id="counter.clear", title="Clear", effects=[deletes("counter", Counter)], asks="Clear the counter")
def clear(_params: Nothing, world: World) -> Value:
    """Delete the counter."""
    world.session.delete(world.session.scalars(select(Counter)).one())
    return Value(value=0)


def caller(operator_id: str = "op_ada", *, role: Role = Role.OPERATOR, client_id: str = "agent") -> Caller:
    return Caller(operator_id, f"{operator_id}@example.test", role, client_id, "gr_1", Surface.MCP, frozenset())


@dataclass
class SetClock:
    """A clock that stands still until a test moves it."""

    moment: datetime = NOON

    def now(self) -> datetime:
        return self.moment

    def forward(self, **by: float) -> None:
        self.moment += timedelta(**by)


@dataclass
class Letters:
    """A mailer that keeps what it is given, or refuses as told."""

    got: list[Mail] = field(default_factory=list)
    refusal: BaseException | None = None

    def deliver(self, mail: Mail) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.got.append(mail)


class Spent(AppError):
    code = "confirmation_spent"
    public = "It was spent."


def settings(url: str, folder: Path) -> Settings:
    return Settings(
        base_url="http://localhost:6535",
        port=6535,
        instance=folder,
        database_url=url,
        secret_keys=("k" * 32,),
        production=False,
    )


@dataclass
class House:
    """Everything that runs a flow, put together as app.py does."""

    database: Database
    clock: Clock
    settings: Settings
    ids: Ids
    letters: Letters
    writer: TraceWriter
    traces: Traces
    outbox: Outbox
    engine: Engine
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def admit(self, declared: Flow, raw: dict[str, Any] | None = None, **changes: Any) -> Admitted:
        """Give one call as the door would; a confirmation id makes it a write."""
        admitted = Admitted(
            run_id=self.ids.new("run"),
            flow=declared,
            arguments=parse_arguments(declared, raw or {}),
            caller=caller(),
            reference="ref",
        )
        return replace(admitted, **changes)

    def read(self, declared: Flow, raw: dict[str, Any] | None = None, **changes: Any) -> Ran:
        """Run a read-only flow."""
        admitted = self.admit(declared, raw, **changes)
        return self.engine.read(admitted, lambda ran: self.audit_row(ran.run_id, ran.status))

    def confirm(self) -> str:
        """Give the id of an approved confirmation."""
        confirmation_id = f"cf_{next(self.numbers)}"
        row = dict.fromkeys(column.name for column in confirmation.columns)
        row.update(dict.fromkeys(("rule", "operator_id", "client_id", "grant_id", "flow_id", "digest", "summary"), "-"))
        row.update(id=confirmation_id, state="approved", flow_version=1, created_at=1, expires_at=2)
        with self.database.write() as connection:
            connection.execute(confirmation.insert(), row)
        return confirmation_id

    def write(self, declared: Flow, raw: dict[str, Any] | None = None, **changes: Any) -> Ran:
        """Run a flow with an approved confirmation of its own unless one is named."""
        changes.setdefault("confirmation_id", None)
        changes["confirmation_id"] = changes["confirmation_id"] or self.confirm()
        changes.setdefault("request_id", changes["confirmation_id"])
        return self.write_admitted(self.admit(declared, raw, **changes))

    def write_admitted(self, admitted: Admitted, **other: Callable[..., None]) -> Ran:
        """Run an admitted write, spending its confirmation once."""

        def spend(connection: Connection) -> None:
            self.spend(connection, admitted)

        def record(connection: Connection, ran: Ran) -> None:
            connection.execute(audit.insert(), self.audit_row(ran.run_id, ran.status))

        given: dict[str, Any] = {
            "spend": spend,
            "recheck": lambda _world: None,
            "respend": spend,
            "record": record,
            **other,
        }
        return self.engine.write(admitted, **given)

    def spend(self, connection: Connection, admitted: Admitted) -> None:
        done = connection.execute(
            update(confirmation)
            .where(confirmation.c.id == admitted.confirmation_id, confirmation.c.used_at.is_(None))
            .values(used_at=1, state="spent", run_id=admitted.run_id)
        )
        if done.rowcount != 1:
            raise Spent

    def record_reaped(self, connection: Connection, reaped: RunRecord) -> None:
        connection.execute(audit.insert(), self.audit_row(reaped.id, reaped.status))

    def audit_row(self, run_id: str | None, status: str) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(column.name for column in audit.columns)
        return row | {"id": self.ids.new("au"), "at": 1, "event": f"call.{status}", "surface": "mcp", "run_id": run_id}

    # What a test looks at

    def counter(self) -> int | None:
        with self.database.read() as connection:
            return connection.execute(select(Counter.value)).scalar()

    def confirmation_state(self, confirmation_id: str) -> str:
        with self.database.read() as connection:
            wanted = select(confirmation.c.state).where(confirmation.c.id == confirmation_id)
            return str(connection.execute(wanted).scalar_one())

    def count(self, table: Any, **where: Any) -> int:
        wanted = select(func.count()).select_from(table)
        for name, value in where.items():
            wanted = wanted.where(table.c[name] == value)
        with self.database.read() as connection:
            return int(connection.execute(wanted).scalar_one())

    def events(self, run_id: str | None) -> list[str]:
        self.writer.flush(10)
        with self.database.read() as connection:
            found = select(audit.c.event).where(audit.c.run_id == run_id).order_by(audit.c.id)
            return list(connection.execute(found).scalars())

    def run(self, run_id: str | None) -> RunRecord:
        self.writer.flush(10)
        return self.traces.get(run_id or "", caller(role=Role.ADMIN))


def create_tables(database: Database) -> None:
    """Make the tables that runs need, and the application's, with one counter at zero and a person with two things."""
    wanted = [models.run, models.step, models.request_key, models.outbox, models.slot, audit, confirmation]
    db.metadata.create_all(database.writing, tables=wanted)
    Base.metadata.create_all(database.writing)
    with database.write() as connection:
        connection.execute(insert(Counter), {"id": 1, "value": 0})
        connection.execute(insert(Person), {"id": 1, "name": "Ada"})
        things = [{"id": number, "name": f"thing {number}", "person_id": 1} for number in (1, 2)]
        connection.execute(insert(Thing), things)


def build(database: Database, given: Settings, clock: Clock, **engine: Any) -> House:
    """Put the parts together on an open database."""
    ids = Ids(clock, SystemChance())
    letters = Letters()
    writer = TraceWriter(database, audit)
    outbox = Outbox(database, ids, clock, letters)
    made = Engine(database=database, ids=ids, clock=clock, traces=writer, outbox=outbox, settings=given, **engine)
    return House(
        database=database,
        clock=clock,
        settings=given,
        ids=ids,
        letters=letters,
        writer=writer,
        traces=Traces(database, writer, clock),
        outbox=outbox,
        engine=made,
    )


@contextlib.contextmanager
def open_house(
    url: str,
    folder: Path,
    clock: Clock,
    *,
    fresh: bool = True,
    work_deadline: timedelta = timedelta(seconds=5),
    read_deadline: timedelta = timedelta(seconds=50),
    **engine: Any,
) -> Iterator[House]:
    """Give a house on the database at `url` and leave no connection or thread behind."""
    given = replace(settings(url, folder), write_deadline=work_deadline, read_deadline=read_deadline)
    database = open_database(Flask(__name__), given)
    if fresh:
        create_tables(database)
    house = build(database, given, clock, **engine)
    try:
        yield house
    finally:
        house.writer.close()
        house.outbox.close()
        database.writing.dispose()
        database.reading.dispose()
