"""The product's own read-only flows about flows and runs; declared like any other, with no special case where they run.

Their arguments and results are camelCase on the wire, snake_case here.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import orjson
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from core.clock import iso
from core.errors import NotFound
from core.seal import BadSeal, Sealer
from flows.caller import Caller
from flows.effects import reads
from flows.models import run, step
from flows.operation import Flow, FlowError, Params, Result, Source, flow
from flows.reconcile import how_to_reconcile
from flows.registry import Registry
from flows.schema import input_schema, output_schema
from flows.trace import RunRecord, Traces
from flows.world import World

SCHEMA_GROUP = frozenset({"mcp:schema:read", "console:manifest:read"})
EFFECTS_GROUP = frozenset({"mcp:effects:read", "console:manifest:read"})
TRACES_GROUP = frozenset({"mcp:traces:read", "console:runs:read"})
CURSOR_LIFETIME = timedelta(days=1)
LONGEST_ARGUMENTS = 20_000  # characters shown of a run's arguments or result; the run's page shows all
RUNS = reads("runs", run, step)


class OwnParams(Params):
    """Arguments of one of our own flows."""

    model_config = ConfigDict(alias_generator=to_camel)


class OwnResult(Result):
    """Result of one of our own flows."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class NoSuchFlow(FlowError):
    """No flow has this id."""

    code = "unknown_flow"
    public = "There is no flow by that id. manifest_get lists them all."
    remedy = "Take an id from manifest_get."


class NoSuchRun(FlowError):
    """No run that this person may see has this id."""

    code = "unknown_run"
    public = "There is no run by that id."
    remedy = "Take an id from traces_list; runs are forgotten when their retention is over."


class CursorInvalid(FlowError):
    """A cursor that we didn't make, or made for somebody or something else."""

    code = "invalid_cursor"
    public = "The cursor is not valid for this list. Start again without one."
    remedy = "Ask for the first page again, without a cursor."


FlowId = Annotated[str, Field(min_length=1, max_length=80, description="as manifest_get lists it, e.g. orders.list")]


class RunStatus(StrEnum):
    """How a recorded run stands."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class OfFlow(OwnParams):
    """Names a flow."""

    flow_id: FlowId


class FlowProblem(OwnResult):
    """A failure that a flow declares."""

    code: str
    message: str


class FlowSchema(OwnResult):
    """What a flow takes and gives."""

    flow_id: str
    version: int
    input: dict[str, Any]
    output: dict[str, Any]
    errors: tuple[FlowProblem, ...]


class DeclaredEffect(OwnResult):
    """What a flow may do."""

    verb: str
    target: str


class SeenEffect(DeclaredEffect):
    """What recent runs of it did."""

    runs: int
    last_at: str


class FlowEffects(OwnResult):
    """What a flow may do, and what it did."""

    flow_id: str
    declared: tuple[DeclaredEffect, ...]
    seen: tuple[SeenEffect, ...]


class ListTraces(OwnParams):
    """Which runs to list."""

    limit: Annotated[int, Field(ge=1, le=200)] = 20
    flow_id: FlowId | None = None
    status: RunStatus | None = None
    cursor: Annotated[str | None, Field(max_length=1000, description="nextCursor of the page before")] = None


class TraceLine(OwnResult):
    """One run in a list."""

    run_id: str
    flow_id: str
    status: str
    surface: str
    client_id: str
    started_at: str
    ended_at: str | None
    code: str | None


class TraceList(OwnResult):
    """Runs, newest first."""

    runs: tuple[TraceLine, ...]
    next_cursor: str | None


class GetTrace(OwnParams):
    """Names a run."""

    run_id: Annotated[str, Field(min_length=1, max_length=40)]


class TraceStep(OwnResult):
    """One effect that a run really had."""

    verb: str
    target: str
    detail: str
    at: str


class Trace(TraceLine):
    """One run; sensitive arguments as digests, secret ones masked. `reconcile` says what to do about an unknown one."""

    message: str | None
    reconcile: str | None
    request_id: str | None
    confirmation_id: str | None
    reference: str | None
    arguments: dict[str, Any] | None
    result: dict[str, Any] | None
    steps: tuple[TraceStep, ...]


def builtin_flows(registry: Callable[[], Registry], traces: Traces, sealer: Sealer) -> list[Flow]:
    """Give the flows that explain flows and runs; `registry` is asked when they run, since they are part of it."""

    def named(flow_id: str) -> Flow:
        found = registry().find(flow_id)
        if found is None:
            raise NoSuchFlow
        return found

    @flow(id="schema.get", title="Get a flow's schema", effects=[], errors=(NoSuchFlow,))
    def schema_get(params: OfFlow, _world: World) -> FlowSchema:
        """Get the exact arguments, result and declared errors of one flow. Use it before calling a flow that isn't
        listed as a tool. It doesn't run anything and says nothing about who may call it (manifest_get does)."""
        of = named(params.flow_id)
        errors = tuple(FlowProblem(code=error.code, message=error.public) for error in of.errors)
        return FlowSchema(
            flow_id=of.id,
            version=of.version,
            input=input_schema(of.params),
            output=output_schema(of.result),
            errors=errors,
        )

    @flow(id="effects.get", title="Get a flow's effects", effects=[RUNS], errors=(NoSuchFlow,))
    def effects_get(params: OfFlow, world: World) -> FlowEffects:
        """See what one flow may read, write, delete or send, and which of these its recent runs really did. It shows
        kinds of effects, never values; one run in detail is traces_get."""
        of = named(params.flow_id)
        seen = traces.effects_seen(of.id, world.caller)
        return FlowEffects(
            flow_id=of.id,
            declared=tuple(DeclaredEffect(verb=effect.verb.value, target=effect.target) for effect in of.effects),
            seen=tuple(
                SeenEffect(verb=one.verb, target=one.target, runs=one.runs, last_at=iso(one.last_at)) for one in seen
            ),
        )

    @flow(id="traces.list", title="List runs", effects=[RUNS], errors=(CursorInvalid,))
    def traces_list(params: ListTraces, world: World) -> TraceList:
        """List recent runs that you may see, newest first, with their outcome. Use it to find out what was done; it
        can't repeat or undo anything."""
        before = _opened(sealer, params, world.caller)
        status = params.status.value if params.status else None
        found = traces.list(world.caller, limit=params.limit + 1, flow_id=params.flow_id, status=status, before=before)
        shown = found[: params.limit]
        cursor = _sealed(sealer, params, world.caller, shown[-1].id) if len(found) > params.limit else None
        return TraceList(runs=tuple(TraceLine(**_line(one)) for one in shown), next_cursor=cursor)

    @flow(id="traces.get", title="Get a run", effects=[RUNS], errors=(NoSuchRun,))
    def traces_get(params: GetTrace, world: World) -> Trace:
        """Get one run by its runId: how it ended, why, every effect that it really had, and what to do where that isn't
        known. Use it when an answer was lost, before asking for anything a second time."""
        try:
            found = traces.get(params.run_id, world.caller)
        except NotFound:
            raise NoSuchRun from None
        return _trace(found, how_to_reconcile(found, registry().find(found.flow_id)))

    return [
        _ours(schema_get, SCHEMA_GROUP),
        _ours(effects_get, EFFECTS_GROUP),
        _ours(traces_list, TRACES_GROUP),
        _ours(traces_get, TRACES_GROUP),
    ]


def _ours(declared: Flow, group: frozenset[str]) -> Flow:
    return replace(declared, source=Source.BUILTIN, group=group)


def _line(found: RunRecord) -> dict[str, Any]:
    return {
        "run_id": found.id,
        "flow_id": found.flow_id,
        "status": found.status,
        "surface": found.surface,
        "client_id": found.client_id,
        "started_at": iso(found.started_at),
        "ended_at": None if found.ended_at is None else iso(found.ended_at),
        "code": found.code,
    }


def _trace(found: RunRecord, reconcile: str | None) -> Trace:
    steps = [TraceStep(verb=one.verb, target=one.target, detail=one.detail, at=iso(one.at)) for one in found.steps]
    return Trace(
        **_line(found),
        message=found.message,
        reconcile=reconcile,
        request_id=found.request_id,
        confirmation_id=found.confirmation_id,
        reference=found.reference,
        arguments=_data(found.arguments),
        result=_data(found.result),
        steps=tuple(steps),
    )


def _data(text: str | None) -> dict[str, Any] | None:
    if text is None or len(text) > LONGEST_ARGUMENTS:
        return None
    data: dict[str, Any] = orjson.loads(text)
    return data


def _sealed(sealer: Sealer, params: ListTraces, caller: Caller, last_id: str) -> str:
    return sealer.seal("cursor", [*_list_of(params, caller), last_id])


def _opened(sealer: Sealer, params: ListTraces, caller: Caller) -> str | None:
    """Give the id after which the page starts; a cursor works only for its operator and for the same filters."""
    if params.cursor is None:
        return None
    try:
        sealed = sealer.open("cursor", params.cursor, within=CURSOR_LIFETIME)
    except BadSeal:
        raise CursorInvalid from None
    if not isinstance(sealed, list) or sealed[:-1] != _list_of(params, caller):
        raise CursorInvalid
    return str(sealed[-1])


def _list_of(params: ListTraces, caller: Caller) -> list[str | None]:
    return ["traces.list", caller.operator_id, params.flow_id, params.status.value if params.status else None]
