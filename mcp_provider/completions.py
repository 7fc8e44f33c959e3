"""`completion/complete`: what may stand for an argument; like a list it shows what the grant may see."""

from typing import Any

from flows.arguments import InvalidArguments
from flows.operation import Source, asked_fields
from flows.prompt import Attached
from flows.registry import Registry
from flows.trace import Traces
from mcp_provider.prompts import Prompts, invalid
from mcp_provider.resources import TEMPLATES, Resources, Template
from policy.addresses import Kind
from policy.principal import Principal

MOST_VALUES = 100  # the protocol's own limit (checklist T15)
RECENT_RUNS = 1000


class Completions:
    """Completes the arguments of prompts and the variables of resource templates."""

    def __init__(self, registry: Registry, traces: Traces, resources: Resources, prompts: Prompts) -> None:
        self._registry = registry
        self._traces = traces
        self._resources = resources
        self._prompts = prompts

    def complete(self, principal: Principal, ref: dict[str, Any], argument: dict[str, Any]) -> dict[str, Any]:
        """Give the values that begin as `argument` does; raise RpcError for what has no such argument."""
        is_prompt = ref["type"] == "ref/prompt"
        find = self._of_prompt if is_prompt else self._of_template
        template = find(ref["name" if is_prompt else "uri"], argument["name"])
        values = [] if template is None else self._values(principal, template.kind)
        found = [value for value in values if value.startswith(argument["value"])]
        shown = found[:MOST_VALUES]
        return {"completion": {"values": shown, "total": len(found), "hasMore": len(found) > len(shown)}}

    def _of_prompt(self, name: str, argument: str) -> Template | None:
        """Give the template whose variable the argument fills in; None for an argument of free text."""
        prompt = self._prompts.find(name)
        if prompt is None or argument not in {one.name for one in prompt.arguments}:
            raise invalid(InvalidArguments.code, "There is no such prompt, or it has no such argument.")
        attached = {message.uri for message in prompt.messages if isinstance(message, Attached)}
        return next((one for one in TEMPLATES if one.variable == argument and one.uri in attached), None)

    def _of_template(self, uri: str, variable: str) -> Template | None:
        """Give the template; None for one of an application, whose values only its flow knows."""
        if any(flow.resource == uri and variable in asked_fields(uri) for flow in self._registry):
            return None
        found = next((one for one in TEMPLATES if one.uri == uri and one.variable == variable), None)
        if found is None:
            raise invalid(InvalidArguments.code, "There is no such resource template, or it has no such variable.")
        return found

    def _values(self, principal: Principal, kind: Kind) -> list[str]:
        if kind is not Kind.RUN:
            return self._resources.names(principal, kind)
        if not self._resources.may_read(principal, kind):
            return []
        # One's own, also for who sees everybody's; and not those of looking at runs.
        flows = [flow.id for flow in self._registry if flow.source is not Source.BUILTIN]
        return [run.id for run in self._traces.own(principal.caller, flows, limit=RECENT_RUNS)]
