"""The pages of runs: what was called, and what it really did."""

import re
from typing import Any

import orjson
from flask import Blueprint, Response, request, url_for
from flask.typing import ResponseReturnValue

from auth.operators import Operators
from auth.sessions import Sessions, see_other
from core.errors import BadRequest, InvalidCursor, NotFound
from flows.outbox import Outbox
from flows.reconcile import how_to_reconcile
from flows.registry import Registry
from flows.trace import RunRecord, Traces
from policy.confirmations import Confirmations
from policy.messages import Messages, may_send_again
from web import words
from web.clients import ClientNames
from web.rendering import Pages

PAGE = 20
RUN_ID = re.compile(r"run_[0-9a-f]{32}")
MESSAGE_ID = re.compile(r"msg_[0-9a-f]{32}")


def runs_routes(
    *,
    pages: Pages,
    sessions: Sessions,
    traces: Traces,
    outbox: Outbox,
    messages: Messages,
    confirmations: Confirmations,
    registry: Registry,
    operators: Operators,
    clients: ClientNames,
) -> Blueprint:
    """Serve `/runs` and `/runs/<id>`: the reader's own, everybody's for those whose role sees them."""
    bp = Blueprint("runs", __name__, url_prefix="/runs")

    @bp.get("")
    @sessions.required
    def index() -> Response:
        caller = sessions.principal(sessions.get()).caller
        flow_id, status, before = (request.args.get(name) or None for name in ("flow", "status", "before"))
        _require_readable(flow_id, status, before)
        found = traces.list(caller, limit=PAGE + 1, flow_id=flow_id, status=status, before=before)
        shown = found[:PAGE]
        return pages.page(
            "console/runs.html",
            nav="runs",
            runs=shown,
            older=shown[-1].id if len(found) > PAGE else None,
            before=before,
            chosen_flow=flow_id,
            chosen_status=status,
            sees_everybody=caller.sees_everybody,
            flows={flow.id: flow for flow in registry},
            names=clients.names(run.client_id for run in shown),
            people=people_of(shown, operators) if caller.sees_everybody else {},
        )

    @bp.get("/<run_id>")
    @sessions.required
    def show(run_id: str) -> Response:
        caller = sessions.principal(sessions.get()).caller
        if not RUN_ID.fullmatch(run_id):
            raise NotFound
        run = traces.get(run_id, caller)
        flow = registry.find(run.flow_id)
        arguments = orjson.loads(run.arguments)
        return pages.page(
            "console/run.html",
            nav="runs",
            run=run,
            title=flow.title if flow else run.flow_id,
            client_name=clients.names([run.client_id]).get(run.client_id, run.client_id),
            person=None if run.operator_id == caller.operator_id else people_of([run], operators)[run.operator_id],
            own=run.operator_id == caller.operator_id,
            arguments=readable(arguments),
            digests=_has_digest(arguments),
            reconcile=how_to_reconcile(run, flow),
            unconfirmed=confirmations.was_unconfirmed(run.id),
            result=readable(orjson.loads(run.result)) if run.result else [],
            messages=outbox.of_run(run.id),
            may_send_again=may_send_again(caller, run.operator_id),
        )

    @bp.post("/<run_id>/messages/<message_id>")
    @sessions.required
    @sessions.csrf_checked
    def send_again(run_id: str, message_id: str) -> ResponseReturnValue:
        if not RUN_ID.fullmatch(run_id) or not MESSAGE_ID.fullmatch(message_id):
            raise NotFound
        messages.send_again(sessions.principal(sessions.get()).caller, run_id, message_id)
        return see_other(url_for("runs.show", run_id=run_id))

    return bp


def readable(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Give recorded values as (label, text), a digest in words."""
    return [(name.replace("_", " "), _text(value)) for name, value in data.items()]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _has_digest({"": value}):
        return f"kept as SHA-256 {value['sha256']}"
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 if isinstance(value, dict | list) else 0).decode()


def _has_digest(data: dict[str, Any]) -> bool:
    return any(isinstance(value, dict) and list(value) == ["sha256"] for value in data.values())


def _require_readable(flow_id: str | None, status: str | None, before: str | None) -> None:
    if flow_id is not None and not flow_id.isprintable():
        raise BadRequest("There is no such flow to narrow the list to.")
    if status is not None and status not in words.STATUSES:
        raise BadRequest("There is no such outcome to narrow the list to.")
    if before is not None and not RUN_ID.fullmatch(before):
        raise InvalidCursor


def people_of(runs: list[RunRecord], operators: Operators) -> dict[str, str]:
    """Give the e-mail address of each run's person, for those who see everybody's."""
    return {operator_id: operators.get(operator_id).email for operator_id in {run.operator_id for run in runs}}
