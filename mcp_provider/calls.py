"""`tools/call`: which flow a tool's call means, what is taken out of its arguments, and what the door made of it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp_types.jsonrpc import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from flows.arguments import InvalidArguments
from flows.envelope import Envelope, Refusal, Status
from flows.operation import Flow
from flows.registry import Registry, UnknownFlow
from flows.watch import UNWATCHED, Watch
from mcp_provider.messages import RpcError
from mcp_provider.results import ToolResult, read_result, refusal_data, write_result
from mcp_provider.wire import Terms
from policy.dispatch import Call, Door
from policy.principal import Principal
from policy.scopes import Scopes
from policy.tool_search import flow_of_tool

INSUFFICIENT_SCOPE = 403  # an own code, outside of what JSON-RPC and MCP keep for themselves (W35)
RESERVED = {"confirmToken": "confirm_token", "confirmation": "confirmation", "requestId": "request_id"}
UNKNOWN_TOOL, MISSING_CAPABILITY = "unknown_tool", "missing_client_capability"
INVOKE, CONFIRM = "action_invoke", "action_confirm"
Args = dict[str, Any]


class ScopeMissing(RpcError):
    """A right that the operator's role could hold and this grant doesn't: the client may ask for it (item R6)."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(INSUFFICIENT_SCOPE, refusal.message, http_status=403, data=refusal_data(refusal))
        self.refusal = refusal


class Malformed(InvalidArguments):
    """What this surface itself takes out of the arguments isn't there or isn't of its type; no door has seen it."""


class Calls:
    """Takes one tool call to the door and back."""

    def __init__(self, registry: Registry, scopes: Scopes, door: Door) -> None:
        self._registry = registry
        self._scopes = scopes
        self._door = door

    def call(
        self, principal: Principal, terms: Terms, name: str, arguments: Args, watch: Watch = UNWATCHED
    ) -> ToolResult:
        """Give the tool's answer; raise RpcError for an unknown tool, ScopeMissing, or a capability that is missing."""
        flow = self._registry.by_tool(name)
        try:
            if flow is not None:
                envelope = self._own_tool(principal, terms, flow, arguments, watch)
            elif name == INVOKE:
                envelope = self._invoke(principal, terms, arguments, watch)
            elif name == CONFIRM:
                envelope = self._confirm(principal, arguments)
            else:
                self._door.note_refused(principal, name, UNKNOWN_TOOL)
                sentence = "Unknown tool. tools/list and manifest_get name those that exist."
                raise RpcError(INVALID_PARAMS, sentence, data={"code": UNKNOWN_TOOL})
        except InvalidArguments as error:
            if isinstance(error, Malformed):
                self._door.note_refused(principal, name, error.code, flow)
            envelope = Envelope(Status.REFUSED, refusal=Refusal(error.code, error.public))
        except UnknownFlow as error:
            raise RpcError(INVALID_PARAMS, error.public, data={"code": error.code}) from None
        stop_at_missing_scope(envelope)
        if flow is not None and flow.only_reads:
            return read_result(envelope)
        # action_confirm runs nothing: the flow's own tool does.
        return write_result(envelope, (envelope.tool or name) if name == CONFIRM else name)

    def _own_tool(self, principal: Principal, terms: Terms, flow: Flow, arguments: Args, watch: Watch) -> Envelope:
        name = flow.tool_name
        reserved: dict[str, Any] = {}
        if not flow.only_reads:
            reserved, arguments = _split(arguments)
        refused = self._capability_refusal(principal, terms, name, flow)
        return refused or self._door.dispatch(principal, Call(flow.id, arguments, tool=name, watch=watch, **reserved))

    def _invoke(self, principal: Principal, terms: Terms, arguments: Args, watch: Watch) -> Envelope:
        reserved, rest = _split(arguments)
        if not rest and "confirm_token" in reserved and "request_id" not in reserved:
            stop = partial(self._capability_refusal, principal, terms, INVOKE)
            token, phrase = reserved["confirm_token"], reserved.get("confirmation")
            return self._door.invoke_held(principal, token, phrase, stop=stop, watch=watch)
        _only(rest, ("flowId", "toolId", "args"), INVOKE)
        call = Call(self._flow_id(rest), _object(rest, "args"), tool=INVOKE, watch=watch, **reserved)
        flow = self._registry.find(call.flow_id)
        refused = self._capability_refusal(principal, terms, INVOKE, flow) if flow else None
        return refused or self._door.dispatch(principal, call)

    def _flow_id(self, arguments: Args) -> str:
        """Give the flow that is named by its id, or by the tool id of `tools_search`."""
        if arguments.get("toolId") is None:
            return _text(arguments, "flowId")
        if arguments.get("flowId") is not None:
            raise Malformed("Name the flow by flowId or by toolId, not by both.")
        return flow_of_tool(self._registry, _text(arguments, "toolId")).id

    def _confirm(self, principal: Principal, arguments: Args) -> Envelope:
        if "confirmationId" in arguments:
            _only(arguments, ("confirmationId",), CONFIRM)
            return self._door.ask_status(principal, _text(arguments, "confirmationId"))
        _only(arguments, ("tool", "args", "reason"), CONFIRM)
        tool = _text(arguments, "tool")
        flow = self._registry.by_tool(tool)
        if flow is None:
            raise Malformed("tool must be the name of a flow's own tool; manifest_get names them.")
        reason = None if arguments.get("reason") is None else _text(arguments, "reason")
        call = Call(flow.id, _object(arguments, "args"), reason=reason, ask_only=True, tool=tool)
        return self._door.dispatch(principal, call)

    def _capability_refusal(self, principal: Principal, terms: Terms, tool: str, flow: Flow) -> Envelope | None:
        missing = flow.client_capabilities - terms.capabilities
        # A missing scope is said first (W53); the door says and records it.
        if not missing or self._scopes.missing(flow, principal.scopes):
            return None
        self._door.note_refused(principal, tool, MISSING_CAPABILITY, flow)
        sentence = f"This tool needs a client that declares {', '.join(sorted(missing))}."
        if terms.modern:
            data = {"requiredCapabilities": {name: dict[str, str]() for name in sorted(missing)}}
            raise RpcError(MISSING_REQUIRED_CLIENT_CAPABILITY, sentence, http_status=400, data=data)
        return Envelope(Status.REFUSED, refusal=Refusal(MISSING_CAPABILITY, sentence))


def stop_at_missing_scope(envelope: Envelope) -> None:
    """Raise ScopeMissing where asking the person for a right helps."""
    refusal = envelope.refusal
    if refusal is not None and refusal.missing_scopes and refusal.grantable:
        raise ScopeMissing(refusal)


def _split(arguments: Args) -> tuple[dict[str, Any], Args]:
    """Take out what is said about the call, not to the flow; null says nothing."""
    reserved: dict[str, Any] = {}
    for name, field in RESERVED.items():
        value = arguments.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not value:
            raise Malformed(f"{name} must be text.")
        reserved[field] = value
    return reserved, {name: value for name, value in arguments.items() if name not in RESERVED}


def _only(arguments: Mapping[str, Any], known: tuple[str, ...], tool: str) -> None:
    if not arguments.keys() <= set(known):
        raise Malformed(f"{tool} takes only {', '.join(known)} here.")


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise Malformed(f"{name} is needed and must be text.")
    return value


def _object(arguments: Mapping[str, Any], name: str) -> Args:
    value = arguments.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{name} must be an object.")
    return value
