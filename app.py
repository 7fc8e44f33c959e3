"""Countersign, put together: the only place that knows every layer.

Served by `gunicorn "app:create_app()"`; the console script `countersign` enters at `main`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from auth.assertions import Assertions
from auth.bearer import Bearer
from auth.client_auth import ClientAuthentication
from auth.clients import Clients
from auth.consent import Consents
from auth.devices import Devices
from auth.document_clients import DocumentClients
from auth.events import ClientEvents
from auth.fetched import Library
from auth.fetching import Fetcher
from auth.grants import Connections
from auth.introspection import Introspection
from auth.local import LocalIdentities
from auth.machines import Machines
from auth.operators import Operators
from auth.passwords import Passwords
from auth.proofs import Proofs
from auth.routes import auth_routes
from auth.server import Server
from auth.sessions import Sessions
from auth.throttle import Throttle
from auth.tokens import Tokens
from cli.main import command_line
from cli.serve import refuse_other_gunicorn
from core.clock import Clock, SystemClock
from core.db import Database, open_database
from core.documents import Documents
from core.http import register_http
from core.ids import Chance, Ids, SystemChance
from core.logs import configure_logs
from core.mail import FileMailer, Mailer, SmtpMailer
from core.seal import Sealer
from core.settings import Settings, load_settings
from flows.behind import TraceWriter
from flows.builtin import builtin_flows
from flows.loading import Loaded, load_flows
from flows.operation import Flow
from flows.outbox import Outbox
from flows.prompt import Prompt
from flows.registry import Registry
from flows.trace import Traces
from mcp_provider.routes import mcp_routes
from migrations.revisions import is_demo, require_current
from policy import models as policy_models
from policy.audit import Audit
from policy.builtin import policy_flows
from policy.cancellations import Cancellations
from policy.confirmations import Confirmations
from policy.dispatch import Door, open_door
from policy.messages import Messages
from policy.scopes import Scopes
from policy.search import Shelf, search_flows
from policy.tool_search import is_too_large_to_list, tool_search_flow
from web.clients import ClientNames
from web.confirmations import confirmations_routes
from web.connections import connections_routes
from web.documents import documents_routes
from web.flows import flows_routes
from web.health import health_routes
from web.home import home_routes
from web.rendering import Pages
from web.runs import runs_routes

HERE = Path(__file__).parent
STATIC_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that one process is made of."""

    flask: Flask
    settings: Settings
    clock: Clock
    ids: Ids
    chance: Chance
    sealer: Sealer
    database: Database
    registry: Registry
    scopes: Scopes
    documents: Documents
    prompts: tuple[Prompt, ...]
    audit: Audit
    traces: Traces
    outbox: Outbox
    confirmations: Confirmations
    door: Door
    operators: Operators
    sessions: Sessions
    proofs: Proofs
    throttle: Throttle
    clients: Clients
    tokens: Tokens
    consents: Consents
    server: Server
    bearer: Bearer
    local: LocalIdentities
    connections: Connections
    events: ClientEvents
    machines: Machines
    document_clients: DocumentClients
    devices: Devices


def create_app(
    settings: Settings | None = None,
    *,
    catalogue: Iterable[Flow] | None = None,
    clock: Clock | None = None,
    chance: Chance | None = None,
    fetcher: Fetcher | None = None,
    mailer: Mailer | None = None,
) -> Flask:
    """Give the WSGI application; raises SettingsError, FlowFaults or WrongRevision when it can't serve."""
    refuse_other_gunicorn()
    configure_logs()
    return serve(build(settings, catalogue=catalogue, clock=clock, chance=chance, fetcher=fetcher, mailer=mailer))


def build(
    settings: Settings | None = None,
    *,
    catalogue: Iterable[Flow] | None = None,
    clock: Clock | None = None,
    chance: Chance | None = None,
    fetcher: Fetcher | None = None,
    mailer: Mailer | None = None,
    at: Callable[[str], None] = lambda _point: None,
) -> Parts:
    """Make the parts of one process; reads settings and flows, connects to nothing.

    `at` is told each named point in the life of a write run (flows/engine.py), for tests that end the process there.
    """
    settings = settings or load_settings()
    clock, chance = clock or SystemClock(), chance or SystemChance()
    ids, sealer = Ids(clock, chance), Sealer(settings.secret_keys, clock)
    flask = Flask("countersign", root_path=str(HERE))
    database = open_database(flask, settings)
    audit = Audit(ids, clock)

    writer = TraceWriter(database, policy_models.audit)
    traces = Traces(database, writer, clock)
    outbox = Outbox(database, ids, clock, mailer or _mailer(settings, clock))
    documents = Documents(HERE / "docs")
    loaded = load_flows(settings.flows) if catalogue is None else Loaded(tuple(catalogue), ())
    registry, scopes = _catalogue(settings, loaded, traces=traces, sealer=sealer, documents=documents)
    confirmations = Confirmations(
        database=database, ids=ids, clock=clock, settings=settings, audit=audit, registry=registry
    )
    door = open_door(
        registry=registry, scopes=scopes, confirmations=confirmations, audit=audit, database=database,
        settings=settings, ids=ids, clock=clock, writer=writer, outbox=outbox, at=at,
    )  # fmt: skip

    operators = Operators(database, ids, clock, Passwords(settings.argon2), audit)
    throttle = Throttle(database, ids, clock, settings.retention)
    sessions = Sessions(database=database, ids=ids, clock=clock, sealer=sealer, scopes=scopes, settings=settings)
    events = ClientEvents(database, ids, clock, settings.retention)
    clients = Clients(database=database, ids=ids, clock=clock, audit=audit, events=events, retention=settings.retention)
    library = Library(
        database=database, fetcher=fetcher or Fetcher(), throttle=throttle, clock=clock, settings=settings
    )
    document_clients = DocumentClients(database=database, library=library, clock=clock, audit=audit, events=events)
    authentication = ClientAuthentication(
        clients,
        document_clients,
        Assertions(database=database, library=library, clock=clock, settings=settings),
    )
    tokens = Tokens(
        database=database, ids=ids, clock=clock, sealer=sealer, settings=settings, audit=audit, events=events
    )
    devices = Devices(
        database=database, ids=ids, clock=clock, sealer=sealer, throttle=throttle, tokens=tokens,
        scopes=scopes, settings=settings, audit=audit, events=events,
    )  # fmt: skip
    return Parts(
        flask=flask,
        settings=settings,
        clock=clock,
        ids=ids,
        chance=chance,
        sealer=sealer,
        database=database,
        registry=registry,
        scopes=scopes,
        documents=documents,
        prompts=loaded.prompts,
        audit=audit,
        traces=traces,
        outbox=outbox,
        confirmations=confirmations,
        door=door,
        operators=operators,
        sessions=sessions,
        proofs=Proofs(
            database=database, operators=operators, throttle=throttle, settings=settings, clock=clock, audit=audit
        ),
        throttle=throttle,
        clients=clients,
        tokens=tokens,
        consents=Consents(
            database=database, ids=ids, clock=clock, sealer=sealer,
            clients=clients, scopes=scopes, settings=settings, audit=audit, events=events,
        ),
        server=Server(
            authentication=authentication, tokens=tokens, scopes=scopes, settings=settings, clock=clock,
            introspection=Introspection(database, scopes, clock, settings), devices=devices,
        ),
        bearer=Bearer(database, scopes, clock, settings),
        local=LocalIdentities(
            database=database, ids=ids, clock=clock, operators=operators, scopes=scopes, settings=settings, audit=audit
        ),
        machines=Machines(
            ids=ids, clock=clock, clients=clients, operators=operators, scopes=scopes, settings=settings, audit=audit
        ),
        document_clients=document_clients,
        devices=devices,
        connections=Connections(database, clock, scopes, audit),
        events=events,
    )  # fmt: skip


def serve(parts: Parts) -> Flask:
    """Give the WSGI application of these parts; raises WrongRevision when the tables are another program's."""
    demo = is_demo(parts.settings.flows)
    require_current(parts.database, demo=demo)
    app, pages = parts.flask, Pages(parts.sessions, parts.clock)
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = STATIC_SECONDS
    register_http(app, parts.settings, parts.chance, pages.error_page)
    if parts.settings.trusted_proxies:
        # Only the reader's address is taken from the proxy: host and scheme are the base URL's (design D10).
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=parts.settings.trusted_proxies, x_proto=0)  # type: ignore[method-assign]
    app.before_request(lambda: parts.outbox.start(parts.door.end_overdue))
    app.register_blueprint(health_routes({"database": lambda: require_current(parts.database, demo=demo)}))
    app.register_blueprint(_mcp(parts))
    app.register_blueprint(_auth(parts))
    for blueprint in _console(parts, pages):
        app.register_blueprint(blueprint)
    return app


def main() -> None:
    """Run the `countersign` command line."""
    command_line(build)()


def _catalogue(
    settings: Settings, loaded: Loaded, *, traces: Traces, sealer: Sealer, documents: Documents
) -> tuple[Registry, Scopes]:
    """Give the closed registry; the manifest describes the registry that holds it, hence the late look."""
    scopes = Scopes(loaded.flows)
    shelf = Shelf(
        registry=lambda: registry, scopes=lambda: scopes, traces=traces, documents=documents, settings=settings
    )
    built_in = [*policy_flows(lambda: registry, lambda: scopes, settings), *search_flows(shelf)]
    built_in += builtin_flows(lambda: registry, traces, sealer)
    if is_too_large_to_list(loaded.flows, settings.listed_flows):
        built_in.append(tool_search_flow(lambda: registry, lambda: scopes))
    registry = Registry([*built_in, *loaded.flows], loaded.faults)
    return registry, scopes


def _mailer(settings: Settings, clock: Clock) -> Mailer:
    if settings.smtp_url:
        return SmtpMailer(settings.smtp_url, settings.mail_from)
    return FileMailer(settings.instance / "outbox", settings.mail_from, clock)


def _mcp(parts: Parts) -> Blueprint:
    return mcp_routes(
        settings=parts.settings,
        bearer=parts.bearer,
        door=parts.door,
        registry=parts.registry,
        scopes=parts.scopes,
        sealer=parts.sealer,
        traces=parts.traces,
        documents=parts.documents,
        prompts=parts.prompts,
        cancellations=Cancellations(parts.database, parts.clock),
        clock=parts.clock,
    )


def _auth(parts: Parts) -> Blueprint:
    return auth_routes(
        database=parts.database,
        ids=parts.ids,
        sealer=parts.sealer,
        settings=parts.settings,
        sessions=parts.sessions,
        operators=parts.operators,
        proofs=parts.proofs,
        throttle=parts.throttle,
        clients=parts.clients,
        consents=parts.consents,
        server=parts.server,
        scopes=parts.scopes,
        audit=parts.audit,
        events=parts.events,
        devices=parts.devices,
    )


def _console(parts: Parts, pages: Pages) -> Iterator[Blueprint]:
    names = ClientNames(parts.clients, parts.connections)
    shared: dict[str, Any] = {"pages": pages, "sessions": parts.sessions}
    yield home_routes(
        **shared,
        confirmations=parts.confirmations,
        traces=parts.traces,
        connections=parts.connections,
        clients=names,
        registry=parts.registry,
        operators=parts.operators,
        scopes=parts.scopes,
        settings=parts.settings,
    )
    yield confirmations_routes(
        **shared,
        proofs=parts.proofs,
        confirmations=parts.confirmations,
        traces=parts.traces,
        clients=names,
        settings=parts.settings,
    )
    yield runs_routes(
        **shared,
        traces=parts.traces,
        outbox=parts.outbox,
        messages=Messages(parts.database, parts.outbox, parts.traces, parts.audit),
        confirmations=parts.confirmations,
        registry=parts.registry,
        operators=parts.operators,
        clients=names,
    )
    yield documents_routes(**shared, documents=parts.documents)
    yield flows_routes(**shared, registry=parts.registry, scopes=parts.scopes, settings=parts.settings)
    yield connections_routes(
        **shared,
        proofs=parts.proofs,
        connections=parts.connections,
        traces=parts.traces,
        scopes=parts.scopes,
        settings=parts.settings,
    )
