"""The home page: what waits for the reader, what ran, who is connected, and how to connect."""

from flask import Blueprint, Response

from auth.grants import Connections
from auth.operators import Operators
from auth.sessions import Sessions
from core.connecting import connect_lines
from core.settings import Settings
from flows.registry import Registry
from flows.trace import Traces
from policy.confirmations import Confirmations
from policy.scopes import Scopes
from web.clients import ClientNames
from web.connections import by_client
from web.rendering import Pages
from web.runs import people_of

RECENT = 8


def home_routes(
    *,
    pages: Pages,
    sessions: Sessions,
    confirmations: Confirmations,
    traces: Traces,
    connections: Connections,
    clients: ClientNames,
    registry: Registry,
    operators: Operators,
    scopes: Scopes,
    settings: Settings,
) -> Blueprint:
    """Serve `/`."""
    bp = Blueprint("home", __name__)

    @bp.get("/")
    @sessions.required
    def show() -> Response:
        reader = sessions.get()
        caller = sessions.principal(reader).caller
        waiting = confirmations.waiting(sessions.approver(reader))
        living = connections.list(reader.operator_id)
        runs = traces.list(caller, limit=RECENT)
        return pages.page(
            "console/home.html",
            nav="home",
            waiting=waiting,
            runs=runs,
            connected=by_client(living, traces.last_calls([one.grant_id for one in living]), scopes),
            flows={flow.id: flow for flow in registry},
            names=clients.names([*(one.client_id for one in waiting), *(run.client_id for run in runs)]),
            people=people_of(runs, operators) if caller.sees_everybody else {},
            lines=connect_lines(settings.resource),
        )

    return bp
