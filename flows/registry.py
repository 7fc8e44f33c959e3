"""The closed set of flows that this process knows: checked as a whole, then never changed."""

import hashlib
from collections.abc import Iterable, Iterator

import orjson

from core.errors import AppError
from flows.check import fault, faults_of
from flows.faults import Fault, FaultRule, FlowFaults
from flows.operation import Flow
from flows.schema import input_schema, output_schema


class UnknownFlow(AppError):
    """No flow has this id."""

    code = "unknown_flow"
    status = 404
    public = "There is no flow by that id. manifest_get lists them all."
    remedy = "Take an id from manifest_get."


class Registry:
    """Finds flows by id or tool name; raises FlowFaults, with those `found` before, for what can't stand."""

    def __init__(self, flows: Iterable[Flow], found: Iterable[Fault] = ()) -> None:
        self._flows = tuple(flows)
        faults = [*found, *(one for flow in self._flows for one in faults_of(flow))]
        self._by_id = _unique(self._flows, "id", FaultRule.ID_TAKEN, faults)
        self._by_tool = _unique(self._flows, "tool_name", FaultRule.TOOL_NAME_TAKEN, faults)
        readable = tuple(flow for flow in self._flows if flow.resource is not None)
        _unique(readable, "resource", FaultRule.RESOURCE_TAKEN, faults)
        if faults:
            raise FlowFaults(faults)
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


def _unique(flows: tuple[Flow, ...], attribute: str, rule: FaultRule, faults: list[Fault]) -> dict[str, Flow]:
    index: dict[str, Flow] = {}
    for flow in flows:
        name = getattr(flow, attribute)
        taken = index.setdefault(name, flow)
        # Of two flows with one id the tool name is the same anyway.
        if taken is not flow and (rule is FaultRule.ID_TAKEN or taken.id != flow.id):
            faults.append(fault(flow, rule, f"the {attribute.replace('_', ' ')} {name} is taken by {taken.id}"))
    return index


def _declaration(flow: Flow) -> bytes:
    """Give everything that a client, a page or a policy can see of the flow, as one line of JSON."""
    words = [flow.id, flow.version, flow.title, flow.summary, flow.source, flow.scope, flow.rule, flow.asks]
    more = [flow.unattended, flow.amount, flow.resource, sorted(flow.group or ()), sorted(flow.client_capabilities)]
    effects = [[effect.verb, effect.target, sorted(effect.tables), effect.outside] for effect in flow.effects]
    errors = [[error.code, error.public] for error in flow.errors]
    return orjson.dumps([words, more, effects, errors, input_schema(flow.params), output_schema(flow.result)])
