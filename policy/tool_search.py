"""`tools_search`: how an agent finds its tool in a catalogue that is too large to be listed."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from flows.builtin import OwnParams, OwnResult
from flows.operation import Flow, Source, flow
from flows.registry import Registry, UnknownFlow
from flows.schema import input_schema
from flows.world import World
from policy.builtin import MANIFEST_GROUP
from policy.scopes import Scopes
from policy.search import ranked

MOST, USUAL = 50, 10
SEPARATOR = ":"


class ToolSource(StrEnum):
    """Where a tool comes from; other MCP servers and nodes are words for what comes later."""

    FLOW = "flow"
    MCP = "mcp"
    NODE = "node"
    BUILTIN = "builtin"


class ToolsSearchParams(OwnParams):
    """What the tool is to do."""

    query: Annotated[str, Field(max_length=200, description="What it should do, in a few words.")] | None = None
    sources: Annotated[list[ToolSource], Field(max_length=4)] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST)] = USUAL


class FoundTool(OwnResult):
    """One tool, with all that is needed to call it by action_invoke."""

    tool_id: str
    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    granted: bool


class FoundTools(OwnResult):
    """The tools that fit, the best first."""

    tools: list[FoundTool]


def tool_search_flow(registry: Callable[[], Registry], scopes: Callable[[], Scopes]) -> Flow:
    """Give the built-in flow; what a person's role could never hold isn't found."""

    @flow(id="tools.search", title="Search for a tool", effects=())
    def tools_search(params: ToolsSearchParams, world: World) -> FoundTools:
        """Find the tools for a job by words: there are more than tools/list shows. Call what was found with
        action_invoke, its toolId and args. Not for the application's data, nor a promise that a call is allowed.
        """
        held = scopes().of_role(world.caller.role)
        wanted = set(params.sources or ToolSource)
        could = [one for one in registry() if source_of(one) in wanted and not scopes().missing(one, held)]
        texts = [(one.title, f"{one.id} {one.summary}") for one in could]
        places = ranked(params.query, texts) if params.query else range(len(could))
        return FoundTools(tools=[_found(could[n], world, scopes()) for n in list(places)[: params.limit]])

    return replace(tools_search, source=Source.BUILTIN, group=MANIFEST_GROUP)


def source_of(declared: Flow) -> ToolSource:
    """Give where a flow's tool comes from."""
    return ToolSource.BUILTIN if declared.source is Source.BUILTIN else ToolSource.FLOW


def tool_id(declared: Flow) -> str:
    """Give the name by which `action_invoke` knows a tool; its form is nobody's business."""
    return f"{source_of(declared)}{SEPARATOR}{declared.id}"


def flow_of_tool(registry: Registry, given: str) -> Flow:
    """Give the flow of a tool id that was handed out, whoever has it now; raise UnknownFlow."""
    declared = registry.find(given.partition(SEPARATOR)[2])
    if declared is None or tool_id(declared) != given:
        raise UnknownFlow
    return declared


def is_too_large_to_list(registry: Iterable[Flow], most: int) -> bool:
    """Tell whether the application has more flows than are listed as tools of their own."""
    return sum(one.source is Source.FLOW for one in registry) > most


def _found(declared: Flow, world: World, scopes: Scopes) -> FoundTool:
    return FoundTool(
        tool_id=tool_id(declared),
        name=declared.tool_name,
        title=declared.title,
        description=" ".join(declared.summary.split()),
        input_schema=input_schema(declared.params),
        granted=not scopes.missing(declared, world.caller.scopes),
    )
