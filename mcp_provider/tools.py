"""`tools/list`: a tool is a flow in MCP's words; which of them a grant sees, page by page (design §6)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from flows.effects import Verb
from flows.operation import Flow, Source
from flows.registry import Registry
from flows.schema import input_schema, output_schema, write_outcome_schema
from mcp_provider.calls import RESERVED
from mcp_provider.pages import Pager
from mcp_provider.shapes import tool_in_revision
from policy.builtin import ACTION_TOOLS, ActionTool
from policy.principal import Principal
from policy.scopes import Scopes
from policy.tool_search import is_too_large_to_list

FIRST_TOOL = "manifest.get"  # always listed, and the first: it names what could be granted
REACHES_OUT = frozenset({Verb.SEND, Verb.CALL})
CHANGES = frozenset({Verb.WRITE, Verb.DELETE, Verb.SEND, Verb.CALL})
INVOKE_TOOL, CONFIRM_TOOL = ACTION_TOOLS
RESERVED_SCHEMAS = {name: INVOKE_TOOL.input_schema["properties"][name] for name in RESERVED}


@dataclass(frozen=True, slots=True)
class Listed:
    """A written declaration, and the flow whose scopes decide whether it is shown; None: always."""

    flow: Flow | None
    written: bytes


class Tools:
    """Declares the tools of a registry, once a revision."""

    def __init__(self, registry: Registry, scopes: Scopes, pager: Pager, icon: str | None, most_listed: int) -> None:
        """`icon` is the address of the icon that each tool shows: whole it would stand in the list for every tool.

        Of an application with more than `most_listed` flows none is listed: `tools_search` finds them.
        """
        self._registry = registry
        self._scopes = scopes
        self._pager = pager
        self._icons = {"icons": [{"src": icon}]} if icon else {}
        self._is_large = is_too_large_to_list(registry, most_listed)
        self._written: dict[str, tuple[Listed, ...]] = {}

    def page(self, principal: Principal, version: str, cursor: str | None) -> dict[str, Any]:
        """Give the members of one page; raise RpcError for a cursor that isn't ours, of this operator and list."""
        shown = [orjson.Fragment(one.written) for one in self._of(version) if self._is_shown(one, principal)]
        return self._pager.page(principal, "tools", shown, cursor)

    def _is_shown(self, listed: Listed, principal: Principal) -> bool:
        return listed.flow is None or not self._scopes.missing(listed.flow, principal.scopes)

    def _of(self, version: str) -> tuple[Listed, ...]:
        if version not in self._written:
            self._written[version] = tuple(self._declared(version))
        return self._written[version]

    def _declared(self, version: str) -> Iterator[Listed]:
        flows = sorted(self._registry, key=lambda flow: flow.id != FIRST_TOOL)
        for flow in flows:
            if self._is_large and flow.source is Source.FLOW:
                continue
            shown_by = None if flow.id == FIRST_TOOL else flow
            needed = list(self._scopes.missing(flow, frozenset()))
            yield Listed(shown_by, self._as_written(declare(flow), needed, version))
        for tool in ACTION_TOOLS:
            declared = declare_action(tool)
            if self._is_large and tool is INVOKE_TOOL:
                declared["inputSchema"] = with_tool_id(tool.input_schema)
            yield Listed(None, self._as_written(declared, [], version))  # its scopes are the flow's

    def _as_written(self, tool: Mapping[str, Any], scopes: list[str], version: str) -> bytes:
        schemes = [{"type": "oauth2", "scopes": scopes}]
        whole = {**tool, **self._icons, "securitySchemes": schemes, "_meta": {"securitySchemes": schemes}}
        return orjson.dumps(tool_in_revision(whole, version))


def declare(flow: Flow) -> dict[str, Any]:
    """Give the declaration of a flow's tool in the newest revision."""
    reads = flow.only_reads
    return {
        "name": flow.tool_name,
        "title": flow.title,
        "description": flow.summary,
        "inputSchema": input_schema(flow.params, extra={} if reads else RESERVED_SCHEMAS),
        "outputSchema": output_schema(flow.result) if reads else write_outcome_schema(flow.result),
        "annotations": annotations(flow),
    }


def declare_action(tool: ActionTool) -> dict[str, Any]:
    """Give the declaration of a tool that is another name of a flow's call; what it may reach, no one can know."""
    hints = {"readOnlyHint": False, "destructiveHint": tool.destructive}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": {**hints, "idempotentHint": False, "openWorldHint": tool.destructive},
    }


def with_tool_id(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the schema of action_invoke where tools are found by a search."""
    tool_id = {"type": "string", "description": "From tools_search, instead of flowId."}
    return {**schema, "properties": {"toolId": tool_id, **schema["properties"]}}


def annotations(flow: Flow) -> dict[str, bool]:
    """Give all four hints; whatever may change something counts as destructive, since updates overwrite."""
    verbs = {effect.verb for effect in flow.effects}
    return {
        "readOnlyHint": flow.only_reads,
        "destructiveHint": bool(verbs & CHANGES),
        "idempotentHint": flow.only_reads,
        "openWorldHint": bool(verbs & REACHES_OUT) or any(effect.outside for effect in flow.effects),
    }
