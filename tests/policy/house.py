"""A small house for policy tests: a shop's refund flow, its people and their agents, a clock that one moves."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import flask
from pydantic import Field

from core.db import Database, db, open_database
from core.ids import Ids, SystemChance
from core.mail import Mail
from core.settings import Settings
from flows.arguments import parse_arguments
from flows.behind import TraceWriter
from flows.caller import Caller, Role, Surface
from flows.effects import Effect, Verb, sends
from flows.envelope import Envelope
from flows.operation import Flow, FlowError, Params, Result, Rule, Secret, flow
from flows.outbox import Outbox
from flows.registry import Registry
from policy.approval import Approver, Proof, ProofKind
from policy.audit import Audit
from policy.confirmations import Confirmations
from policy.dispatch import Call, Door, open_door
from policy.models import audit
from policy.principal import Principal
from policy.scopes import Scopes

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
ORDERS = Effect(Verb.WRITE, "orders", frozenset({"shop_order"}))
READ_ORDERS = Effect(Verb.READ, "orders", frozenset({"shop_order"}))
CANARY = "4417-canary"


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)


class NoMailer:
    """Delivers nothing: no test here waits for mail."""

    def deliver(self, mail: Mail) -> None:
        raise AssertionError(mail)


class Refund(Params):
    order_id: str
    amount: Annotated[int, Field(ge=1)] = 4500
    card: Annotated[str, Secret()] = CANARY


class Refunded(Result):
    refund: str


class ListOrders(Params):
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class Orders(Result):
    orders: list[str]


class AlreadyRefunded(FlowError):
    code = "already_refunded"
    public = "This order was refunded before."


class Shop:
    """What the flows really did, and what they are told to do next."""

    def __init__(self) -> None:
        self.refunds: list[str] = []
        self.refunded: set[str] = set()
        self.currency = "EUR"
        self.fails: Exception | None = None
        self.during: Callable[[], None] = lambda: None


SHOP = Shop()


def refund_facts(params: Refund, world: Any) -> Mapping[str, object]:
    if params.order_id in SHOP.refunded:
        raise AlreadyRefunded
    return {"amount": f"{params.amount / 100:.2f} {SHOP.currency}"}


@flow(
    id="orders.refund", title="Refund an order", effects=[ORDERS, sends("email")], scope="orders:refund",
    asks="Refund {amount} of order {order_id}", facts=refund_facts, errors=(AlreadyRefunded,),
)  # fmt: skip
def orders_refund(params: Refund, world: Any) -> Refunded:
    """Refund a paid order."""
    SHOP.refunds.append(params.order_id)
    SHOP.during()
    if SHOP.fails is not None:
        raise SHOP.fails
    return Refunded(refund=params.order_id)


@flow(id="orders.list", title="Find orders", effects=[READ_ORDERS])
def orders_list(params: ListOrders, world: Any) -> Orders:
    """List orders, newest first."""
    return Orders(orders=["1042"])


@flow(
    id="orders.tag", title="Tag an order", effects=[ORDERS], asks="Tag order {order_id}",
    rule=Rule.CLIENT, unattended=True,
)  # fmt: skip
def orders_tag(params: Refund, world: Any) -> Refunded:
    """Put a tag on an order."""
    return Refunded(refund=params.order_id)


FLOWS = (orders_refund, orders_list, orders_tag)


def settings_for(url: str, **changes: Any) -> Settings:
    """Settings of a development console on loopback, where the clients named `bot` may act unattended."""
    plain: dict[str, Any] = {
        "base_url": "http://localhost:6535",
        "port": 6535,
        "instance": Path("/nonexistent"),
        "database_url": url,
        "secret_keys": ("k" * 40,),
        "production": False,
        "unattended_clients": frozenset({"bot"}),
    }
    return Settings(**(plain | changes))


def open_house(url: str, *, flows: tuple[Flow, ...] = FLOWS, **changes: Any) -> "House":
    """Make the tables at `url` and everything of policy on top of them."""
    settings = settings_for(url, **changes)
    database = open_database(flask.Flask("house"), settings)
    db.metadata.create_all(database.writing)
    return House(database, settings, flows)


class House:
    """The parts, and short words for what people and agents do."""

    def __init__(self, database: Database, settings: Settings, flows: tuple[Flow, ...]) -> None:
        self.clock = MovedClock()
        self.database = database
        self.settings = settings
        self.ids = Ids(self.clock, SystemChance())
        self.registry = Registry(flows)
        self.scopes = Scopes(self.registry)
        self.audit = Audit(self.ids, self.clock)
        self.confirmations = self.confirmations_of(self.registry, settings)

    def confirmations_of(self, registry: Registry, settings: Settings) -> Confirmations:
        return Confirmations(
            database=self.database, ids=self.ids, clock=self.clock, settings=settings, audit=self.audit,
            registry=registry,
        )  # fmt: skip

    @cached_property
    def door(self) -> Door:
        SHOP.__init__()  # type: ignore[misc]
        self.writer = TraceWriter(self.database, audit)
        return open_door(
            registry=self.registry, scopes=self.scopes, confirmations=self.confirmations, audit=self.audit,
            database=self.database, settings=self.settings, ids=self.ids, clock=self.clock, writer=self.writer,
            outbox=Outbox(self.database, self.ids, self.clock, NoMailer()), at=lambda _point: None,
        )  # fmt: skip

    def call(self, flow_id: str = "orders.refund", principal: Principal | None = None, **call: Any) -> Envelope:
        """Take a call through the door; its arguments are `args`, by default those of a refund of order 1042."""
        arguments = call.pop("args", {} if flow_id == "orders.list" else {"order_id": "1042"})
        return self.door.dispatch(principal or agent(), Call(flow_id, arguments, **call))

    def invoke_held(self, principal: Principal, token: str, phrase: str) -> Envelope:
        """Run a held call on a surface that stops none."""
        return self.door.invoke_held(principal, token, phrase, stop=lambda _flow: None)

    def confirmed(self, **call: Any) -> dict[str, Any]:
        """Ask for a call, let alice approve it, and give what its next call carries."""
        waiting = self.call(**call).waiting
        assert waiting is not None
        self.approve(waiting.confirmation_id)
        return {"confirm_token": waiting.confirm_token, "confirmation": "CONFIRM"}

    def ask(self, principal: Principal | None = None, flow: Flow = orders_refund, **kwargs: Any) -> Any:
        raw = kwargs.pop("raw", {"order_id": "1042"})
        arguments = parse_arguments(flow, raw)
        options = {"summary": "Refund 45.00 EUR of order 1042", "reason": "a broken lid", "rule": Rule.HUMAN}
        return self.confirmations.ask(principal or agent(), flow, arguments, **(options | kwargs))

    def present(
        self, token: str | None, phrase: str | None = "CONFIRM", principal: Principal | None = None, **kwargs: Any
    ) -> Any:
        flow = kwargs.pop("flow", orders_refund)
        arguments = parse_arguments(flow, kwargs.pop("raw", {"order_id": "1042"}))
        rule = kwargs.pop("rule", Rule.HUMAN)
        return self.confirmations.present(principal or agent(), flow, arguments, token=token, phrase=phrase, rule=rule)

    def proof(self, operator_id: str = "op_alice", **changes: Any) -> Proof:
        return replace(Proof(operator_id, ProofKind.PASSWORD, self.clock.now()), **changes)

    def approve(self, confirmation_id: str, by: Approver | None = None) -> None:
        person = by or person_named("alice")
        self.confirmations.decide(
            confirmation_id, person, approve=True, note=None, proof=self.proof(person.operator_id)
        )

    def deny(self, confirmation_id: str, note: str | None = None) -> None:
        self.confirmations.decide(confirmation_id, person_named("alice"), approve=False, note=note, proof=None)

    def rows(self, statement: Any) -> list[Mapping[str, Any]]:
        with self.database.read() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def close(self) -> None:
        if "door" in self.__dict__:
            self.writer.close()
        self.database.writing.dispose()
        self.database.reading.dispose()


def agent(
    name: str = "alice", *, client: str = "claude", grant: str = "gr_1", role: Role = Role.OPERATOR, **changes: Any
) -> Principal:
    """The agent of a person, holding everything an operator may."""
    scopes = changes.pop("scopes", frozenset({"mcp:flows:read", "mcp:action:invoke", "orders:refund"}))
    surface = changes.pop("surface", Surface.MCP)
    caller = Caller(f"op_{name}", f"{name}@example.test", role, client, grant, surface, scopes)
    return Principal(caller, client.title(), 1)


def person_named(name: str, role: Role = Role.OPERATOR) -> Approver:
    return Approver(f"op_{name}", f"{name}@example.test", role)
