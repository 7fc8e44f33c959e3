"""A small house behind the MCP endpoint: a few flows, a door that says what it is told, tokens by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from flask import Flask
from sqlalchemy import Column, Integer, MetaData, Table

from auth.bearer import Challenge
from core.documents import Documents
from core.errors import AppError
from core.http import register_http
from core.ids import SystemChance
from core.seal import Sealer
from core.settings import Settings
from flows.caller import Caller, Role, Surface
from flows.effects import reads, sends, writes
from flows.envelope import Envelope, Refusal, Status
from flows.operation import Flow, Params, Result, flow
from flows.prompt import Prompt
from flows.registry import Registry
from flows.watch import Watch
from mcp_provider.routes import mcp_routes
from policy.dispatch import Call, Stop
from policy.principal import Principal
from policy.scopes import Scopes
from tests.support.raw_mcp import RawAnswer

Headers = Mapping[str, str | None]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer alice"}
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ORDERS = Table("shop_orders", MetaData(), Column("id", Integer, primary_key=True))
READ_SCOPES = frozenset({"mcp:manifest:read", "mcp:schema:read", "mcp:flows:read"})


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time


class Nothing(Params):
    """No arguments."""


class ListOrders(Params):
    """One optional argument."""

    limit: int = 20


class Orders(Result):
    """What the list gives."""

    orders: list[str]


class Refund(Params):
    """What a refund needs."""

    order_id: int


class Refunded(Result):
    """What a refund gives."""

    refund_id: str


def _never(params: Any, world: object) -> Any:
    raise AssertionError("the door of these tests runs nothing")


@flow(id="orders.list", title="List orders", effects=[reads("orders", ORDERS)])
def orders_list(params: ListOrders, world: Any) -> Orders:
    """List the newest orders; not for searching customers."""
    return _never(params, world)  # type: ignore[no-any-return]


@flow(
    id="orders.refund",
    title="Refund an order",
    effects=[writes("orders", ORDERS), sends("email")],
    scope="orders:refund",
    asks="Refund order {order_id}",
)
def orders_refund(params: Refund, world: Any) -> Refunded:
    """Refund one order; not for cancelling it."""
    return _never(params, world)  # type: ignore[no-any-return]


@flow(id="summary.write", title="Write a summary", effects=[], client_capabilities=frozenset({"sampling"}))
def summary_write(params: Nothing, world: Any) -> Orders:
    """Needs a client that can sample."""
    return _never(params, world)  # type: ignore[no-any-return]


@flow(id="manifest.get", title="What can be done", effects=[])
def manifest_get(params: Nothing, world: Any) -> Orders:
    """Say what can be done here."""
    return _never(params, world)  # type: ignore[no-any-return]


def many_flows(count: int) -> tuple[Flow, ...]:
    """Give flows that only fill a list."""

    def one(number: int) -> Flow:
        @flow(id=f"list.n{number}", title="List", effects=[reads("orders", ORDERS)])
        def listed(params: ListOrders, world: Any) -> Orders:
            """List orders."""
            return _never(params, world)  # type: ignore[no-any-return]

        return listed

    return tuple(one(number) for number in range(count))


FLOWS = (orders_list, orders_refund, summary_write, manifest_get)


@dataclass(slots=True)
class Door:
    """Records every call and answers with what a test put there."""

    answer: Envelope | AppError | Exception = field(
        default_factory=lambda: Envelope(Status.DONE, run_id="run_1", result={"orders": ["1042"]})
    )
    calls: list[Call] = field(default_factory=list)
    held: list[tuple[str, str | None]] = field(default_factory=list)
    held_flow: Flow = orders_refund
    asked: list[str] = field(default_factory=list)
    refused: list[tuple[str, str, str | None]] = field(default_factory=list)  # (tool, code, flow id)

    def dispatch(self, _principal: Principal, call: Call) -> Envelope:
        self.calls.append(call)
        return self._answer()

    def invoke_held(
        self, _principal: Principal, token: str, phrase: str | None, *, stop: Stop, watch: Watch
    ) -> Envelope:
        self.held.append((token, phrase))
        return stop(self.held_flow) or self._answer()

    def ask_status(self, _principal: Principal, confirmation_id: str) -> Envelope:
        self.asked.append(confirmation_id)
        return self._answer()

    def note_refused(self, _principal: Principal, tool: str, code: str, flow: Flow | None = None) -> None:
        self.refused.append((tool, code, flow.id if flow else None))

    def _answer(self) -> Envelope:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Cancellations:
    """Remembers in this process what clients took back."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str | None, int | str]] = []

    def key(self, principal: Principal, session: str | None, request_id: int | str) -> Any:
        return principal.caller.grant_id, session, request_id

    def note(self, key: Any) -> None:
        self.noted.append(key)

    def is_noted(self, key: Any, _since: datetime) -> bool:
        return key in self.noted


class Bearer:
    """Knows tokens by the name of their person."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self.held: dict[str, tuple[Role, frozenset[str]]] = {
            "alice": (Role.OPERATOR, scopes.declared),
            "reader": (Role.OPERATOR, READ_SCOPES),
            "bob": (Role.OPERATOR, scopes.declared),
        }
        self.broken: Exception | None = None

    def principal(self, authorization: str | None, surface: Surface) -> Principal | Challenge:
        if self.broken is not None:
            raise self.broken
        name = (authorization or "").removeprefix("Bearer ")
        if name not in self.held:
            return Challenge(401, 'Bearer resource_metadata="https://x"', {"error": "unauthorized"})
        role, scopes = self.held[name]
        caller = Caller(f"op_{name}", f"{name}@example.test", role, "client_1", f"gr_{name}", surface, scopes)
        return Principal(caller, client_name="Test", grant_version=1)

    def forbidden(self, _principal: Principal, refusal: Refusal) -> Challenge:
        scope = " ".join(refusal.missing_scopes)
        return Challenge(403, f'Bearer error="insufficient_scope", scope="{scope}"', {"error": "insufficient_scope"})


@dataclass(slots=True)
class House:
    """The endpoint, and everything behind it that a test may look at or change."""

    app: Flask
    door: Door
    bearer: Bearer
    clock: Clock
    cancelled: Cancellations

    def post(self, body: Any, headers: Headers | None = None, path: str = "/mcp") -> RawAnswer:
        """Post `body` (bytes as they are, all else as JSON) with the usual headers, some replaced or left out."""
        given = {name: value for name, value in {**HEADERS, **(headers or {})}.items() if value is not None}
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.open("POST", path, given, data)

    def open(self, method: str, path: str, headers: Mapping[str, str], data: bytes = b"") -> RawAnswer:
        """Send one request as it stands."""
        answer = self.app.test_client().open(path, method=method, headers=dict(headers), data=data)
        return RawAnswer(answer.status_code, {name.lower(): value for name, value in answer.headers}, answer.data)

    def modern(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        headers: Headers | None = None,
        **meta: Any,
    ) -> RawAnswer:
        """Post one request of 2026-07-28; `meta` replaces envelope members, Ellipsis leaves one out."""
        given = dict(params or {})
        envelope = {"protocolVersion": MODERN, "clientCapabilities": {}} | meta
        given["_meta"] = {META + name: value for name, value in envelope.items() if value is not ...}
        found: dict[str, str | None] = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if isinstance(given.get("name"), str):
            found["Mcp-Name"] = given["name"]
        return self.post(request(method, given), {**found, **(headers or {})})

    def legacy(
        self, method: str, params: Any = None, headers: Headers | None = None, version: str = LEGACY
    ) -> RawAnswer:
        """Post one request of an older revision."""
        return self.post(request(method, params), {"MCP-Protocol-Version": version, **(headers or {})})

    def initialize(self, version: str = LEGACY, capabilities: Any = None, person: str = "alice") -> RawAnswer:
        """Post the handshake's first request."""
        params = {
            "protocolVersion": version,
            "capabilities": {} if capabilities is None else capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        return self.post(request("initialize", params), {"Authorization": f"Bearer {person}"})


def request(method: str, params: Any = None, request_id: Any = 7) -> dict[str, Any]:
    """Give the body of one request."""
    body = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return body if params is None else body | {"params": params}


def make_house(flows: tuple[Flow, ...] = FLOWS, prompts: tuple[Prompt, ...] = (), **changed: Any) -> House:
    """Put the endpoint together with fakes of the door and the bearer check."""
    given: dict[str, Any] = {
        "base_url": "http://localhost:6535",
        "port": 6535,
        "instance": Path("nowhere"),
        "database_url": "sqlite://",
        "secret_keys": ("k" * 40,),
        "production": False,
    }
    settings = Settings(**(given | changed))
    registry, clock, door, cancelled = Registry(flows), Clock(), Door(), Cancellations()
    scopes = Scopes(registry)
    bearer = Bearer(scopes)
    app = Flask("house")
    register_http(app, settings, SystemChance(), lambda *words: "<html>page</html>")
    routes = mcp_routes(
        settings=settings,
        bearer=bearer,  # type: ignore[arg-type]
        door=door,  # type: ignore[arg-type]
        registry=registry,
        scopes=scopes,
        sealer=Sealer(settings.secret_keys, clock),
        traces=None,  # type: ignore[arg-type] # the door of this house ran nothing
        documents=Documents(Path("nowhere")),
        prompts=prompts,
        cancellations=cancelled,  # type: ignore[arg-type]
        clock=clock,
    )
    app.register_blueprint(routes)
    return House(app, door, bearer, clock, cancelled)
