"""What the product itself offers on top of the flows: the manifest, and two general tools that name a flow."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from core.settings import Settings
from flows.builtin import OwnParams, OwnResult
from flows.caller import Caller, Surface
from flows.operation import Flow, Rule, Source, flow
from flows.registry import Registry
from flows.schema import write_outcome_schema
from flows.world import World
from policy.decide import grant_url
from policy.rules import confirmation_rule
from policy.scopes import Scopes

MANIFEST_GROUP = frozenset({"mcp:manifest:read", "console:manifest:read"})
TEXT = {"type": "string"}
ARGUMENTS = {"type": "object", "description": "The arguments of the flow, as schema_get shows them."}


class ManifestParams(OwnParams):
    """What is looked for."""

    query: Annotated[str, Field(max_length=200, description="Words that id, title or summary contain.")] | None = None


class FlowEntry(OwnResult):
    """One flow, and whether this connection may call it."""

    flow_id: str
    tool: str
    title: str
    summary: str
    effects: list[str]
    scope: str
    version: int
    granted: bool
    rule: str | None = None
    unconfirmed: bool | None = None
    grant_url: str | None = None


class Manifest(OwnResult):
    """Every flow that the operator's role could be given."""

    flows: list[FlowEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTool:
    """A tool that is another name of a flow's call, not a flow with runs of its own."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    destructive: bool


def policy_flows(registry: Callable[[], Registry], scopes: Callable[[], Scopes], settings: Settings) -> list[Flow]:
    """Give the built-in flows of this layer; registry and scopes are asked for when one runs, since they hold it."""

    @flow(id="manifest.get", title="List what can be done here", effects=())
    def manifest_get(params: ManifestParams, world: World) -> Manifest:
        """Lists every flow this operator could be allowed to call: effects, scope, rule, whether granted; and where
        the person can grant it. Start here. Not for arguments: schema_get shows those.
        """
        held_by_role = scopes().of_role(world.caller.role)
        could = [one for one in registry() if not scopes().missing(one, held_by_role)]
        found = [one for one in could if _matches(one, params.query)]
        return Manifest(flows=[_entry(one, world.caller, scopes(), settings) for one in found])

    return [replace(manifest_get, source=Source.BUILTIN, group=MANIFEST_GROUP)]


def _matches(candidate: Flow, query: str | None) -> bool:
    text = f"{candidate.id} {candidate.title} {candidate.summary}".casefold()
    return all(word in text for word in (query or "").casefold().split())


def _entry(declared: Flow, caller: Caller, scopes: Scopes, settings: Settings) -> FlowEntry:
    missing = scopes.missing(declared, caller.scopes)
    rule = None if declared.only_reads else confirmation_rule(declared, caller.client_id, settings)
    asks_a_person = caller.surface is not Surface.CONSOLE
    return FlowEntry(
        flow_id=declared.id,
        tool=declared.tool_name,
        title=declared.title,
        summary=" ".join(declared.summary.split()),
        effects=[str(effect) for effect in declared.effects],
        scope=" ".join(scopes.missing(declared, frozenset())),
        version=declared.version,
        granted=not missing,
        rule=rule.value if rule else None,
        unconfirmed=True if rule is Rule.CLIENT else None,
        grant_url=grant_url(settings, caller.grant_id, missing) if missing and asks_a_person else None,
    )


ACTION_TOOLS = (
    ActionTool(
        name="action_invoke",
        title="Call a flow by its id",
        description=(
            "Calls any flow of manifest_get, also one that your tool list doesn't show yet. With confirmToken and "
            "confirmation alone it runs exactly the call that was confirmed. A flow that changes something doesn't run "
            "at the first call: it answers confirmation_required. Not for flows whose own tool you see: call that."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "flowId": {**TEXT, "description": "As manifest_get names it, e.g. orders.list."},
                "args": ARGUMENTS,
                "confirmToken": {**TEXT, "description": "From the answer of an earlier call; inert until approved."},
                "confirmation": {**TEXT, "description": "The word CONFIRM, beside confirmToken."},
                "requestId": {
                    **TEXT,
                    "maxLength": 128,
                    "description": "Your own stable name for this one wish: repeated, it is not done twice.",
                },
            },
            "additionalProperties": False,
        },
        output_schema=write_outcome_schema(None),
        destructive=True,
    ),
    ActionTool(
        name="action_confirm",
        title="Ask a person to confirm a call",
        description=(
            "Asks the person to confirm one call of a tool that changes something, before you call it, with your "
            "reason; or, with confirmationId alone, tells how a confirmation stands. It never approves and runs "
            "nothing: when the person has approved, call the tool with confirmToken. Not for tools that only read."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "tool": {**TEXT, "description": "The name of the tool, e.g. orders_refund."},
                "args": ARGUMENTS,
                "reason": {**TEXT, "description": "Why, in your own words; shown to the person as yours."},
                "confirmationId": {**TEXT, "description": "Alone: how does this confirmation stand?"},
            },
            "additionalProperties": False,
        },
        output_schema=write_outcome_schema(None),
        destructive=False,
    ),
)
