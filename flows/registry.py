"""The closed set of flows that this process knows: checked as a whole, then never changed."""

import hashlib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from core.errors import AppError
from flows.effects import Effect, Verb
from flows.marks import Mark, marks_of
from flows.operation import Flow, FlowFault, Rule, Source, asked_fields
from flows.schema import input_schema, output_schema

ID = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")
SCOPE = re.compile(r"[a-z][a-z0-9_-]*:[a-z0-9_:-]+")
LONGEST_TOOL_NAME = 48  # clients prefix it and stop at 64 (clients.md)
LONGEST_TARGET = 80
RESERVED_PARAMS = frozenset({"confirmToken", "confirmation", "requestId"})
TAKEN_TOOLS = frozenset({"action_invoke", "action_confirm"})  # other names of every flow's call, no flows themselves
OUR_TABLES = "cs_"
OUR_SCOPES = ("mcp:", "console:", "offline_access")
DELIVERED = frozenset({"email"})
WITH_TABLES = (Verb.READ, Verb.WRITE, Verb.DELETE)


class UnknownFlow(AppError):
    """No flow has this id."""

    code = "unknown_flow"
    status = 404
    public = "There is no flow by that id. manifest_get lists them all."


class FlowFaults(AppError):
    """Declarations that can't stand; the sentence names all of them at once."""

    code = "flow_faults"


class Registry:
    """Finds flows by id or tool name; raises FlowFaults for declarations that can't stand."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        self._flows = tuple(flows)
        faults = [fault for flow in self._flows for fault in _faults(flow)]
        self._by_id = _unique(self._flows, "id", faults)
        self._by_tool = _unique(self._flows, "tool_name", faults)
        if faults:
            raise FlowFaults("; ".join(faults))
        self.digest = hashlib.sha256(b"\n".join(_declaration(flow) for flow in self._flows)).hexdigest()

    def get(self, flow_id: str) -> Flow:
        """Give the flow; raises UnknownFlow."""
        flow = self._by_id.get(flow_id)
        if flow is None:
            raise UnknownFlow
        return flow

    def find(self, flow_id: str) -> Flow | None:
        """Give the flow, or None when no flow has this id."""
        return self._by_id.get(flow_id)

    def by_tool(self, tool_name: str) -> Flow | None:
        """Give the flow whose MCP tool has this name, or None."""
        return self._by_tool.get(tool_name)

    def __iter__(self) -> Iterator[Flow]:
        """Give the flows in the order in which they were declared."""
        return iter(self._flows)

    def __len__(self) -> int:
        """Count the flows."""
        return len(self._flows)


def load_flows(modules: Sequence[str]) -> list[Flow]:
    """Import the modules and give the flows that they name, in order; raises FlowFaults for one that can't be had."""
    found: dict[int, Flow] = {}
    faults = []
    for name in modules:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            faults.append(f"{name} can't be imported: {error}")
            continue
        flows = [value for value in vars(module).values() if isinstance(value, Flow)]
        if not flows:
            faults.append(f"{name} declares no flow")
        found.update({id(flow): flow for flow in flows})
    if faults:
        raise FlowFaults("; ".join(faults))
    return list(found.values())


def _unique(flows: tuple[Flow, ...], attribute: str, faults: list[str]) -> dict[str, Flow]:
    index: dict[str, Flow] = {}
    for flow in flows:
        name = getattr(flow, attribute)
        if name in index:
            faults.append(f"{flow.id}: the {attribute.replace('_', ' ')} {name} is taken by {index[name].id}")
        index.setdefault(name, flow)
    return index


def _declaration(flow: Flow) -> bytes:
    """Give everything that a client, a page or a policy can see of the flow, as one line of JSON."""
    words = [flow.id, flow.version, flow.title, flow.summary, flow.source, flow.scope, flow.rule, flow.asks]
    more = [flow.unattended, flow.amount, sorted(flow.group or ()), sorted(flow.client_capabilities)]
    effects = [[effect.verb, effect.target, sorted(effect.tables), effect.outside] for effect in flow.effects]
    errors = [[error.code, error.public] for error in flow.errors]
    return orjson.dumps([words, more, effects, errors, input_schema(flow.params), output_schema(flow.result)])


def _faults(flow: Flow) -> list[str]:
    faults = [fault for check in CHECKS for fault in check(flow)]
    # Marks are looked for in sound models only: a recursive one has no end.
    return [f"{flow.id}: {fault}" for fault in faults or _check_asks(flow)]


def _check_name(flow: Flow) -> Iterator[str]:
    if not ID.fullmatch(flow.id):
        yield "an id has words of a-z and 0-9, joined by dots or underscores"
    if len(flow.tool_name) > LONGEST_TOOL_NAME:
        yield f"its tool name is longer than {LONGEST_TOOL_NAME} characters"
    if flow.tool_name in TAKEN_TOOLS:
        yield f"the tool name {flow.tool_name} is taken"
    if not flow.title.strip() or not flow.summary.strip():
        yield "it needs a title, and a docstring that says what it is for"
    if flow.version < 1:
        yield "a version starts at 1"


def _check_params(flow: Flow) -> Iterator[str]:
    for name, field in flow.params.model_fields.items():
        for reserved in RESERVED_PARAMS.intersection({name, field.alias, field.serialization_alias}):
            yield f"the parameter {reserved} is reserved"
        if field.alias != field.serialization_alias:
            yield f"the parameter {name} must be read and written under one name"
    if flow.amount is not None and flow.amount not in flow.params.model_fields:
        yield f"amount names {flow.amount}, which is no parameter"


def _check_schemas(flow: Flow) -> Iterator[str]:
    models: tuple[tuple[Callable[[Any], object], type], ...] = (
        (input_schema, flow.params),
        (output_schema, flow.result),
    )
    for make, model in models:
        try:
            make(model)
        except FlowFault as fault:
            yield fault.public


def _check_effects(flow: Flow) -> Iterator[str]:
    for effect in flow.effects:
        if effect.verb in WITH_TABLES and not effect.tables and not effect.outside:
            yield f"{effect} names no table"
        if effect.verb is Verb.SEND and effect.target not in DELIVERED:
            yield f"nothing delivers what is sent to {effect.target}"
        if not effect.target or len(effect.target) > LONGEST_TARGET:
            yield f"{effect}: a target has 1 to {LONGEST_TARGET} characters"
        if flow.source is Source.FLOW and any(_is_ours(table) for table in effect.tables):
            yield f"{effect}: the tables {OUR_TABLES}… are not the application's"
    if len(set(_pairs(flow.effects))) != len(flow.effects):
        yield "an effect is declared twice"


def _pairs(effects: Iterable[Effect]) -> list[tuple[Verb, str]]:
    return [(effect.verb, effect.target) for effect in effects]


def _is_ours(table: str) -> bool:
    return table.rpartition(".")[2].startswith(OUR_TABLES)


def _check_scope(flow: Flow) -> Iterator[str]:
    if flow.scope is None:
        return
    if not SCOPE.fullmatch(flow.scope):
        yield f"the scope {flow.scope} must be like orders:refund"
    if flow.source is Source.FLOW and flow.scope.startswith(OUR_SCOPES):
        yield f"the scope {flow.scope} is not the application's"


def _check_confirmation(flow: Flow) -> Iterator[str]:
    if flow.source is Source.FLOW and not flow.only_reads and flow.rule is None:
        yield "what isn't read-only needs a confirmation rule"
    if flow.rule is not None and not (flow.asks or "").strip():
        yield "what a person confirms needs `asks`, the sentence that they decide on"
    if flow.rule is Rule.CLIENT and (flow.deletes or flow.amount or not flow.unattended):
        yield "rule client is only for unattended flows without a delete or an amount"


def _check_asks(flow: Flow) -> Iterator[str]:
    try:
        names = asked_fields(flow.asks or "")
    except ValueError as error:
        yield f"asks: {error}"
        return
    fields, marks = flow.params.model_fields, marks_of(flow.params)
    for name in names:
        if name not in fields:
            if flow.facts is None:
                yield f"asks: {name} is no parameter, and there are no facts to read it from"
        elif mark := marks.get(fields[name].serialization_alias or name):
            held = mark if isinstance(mark, Mark) else "partly sensitive or secret"
            yield f"asks: {name} is {held}, and the sentence is kept when the arguments are erased"


CHECKS: tuple[Callable[[Flow], Iterator[str]], ...] = (
    _check_name,
    _check_params,
    _check_schemas,
    _check_effects,
    _check_scope,
    _check_confirmation,
)
