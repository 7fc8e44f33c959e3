"""Scopes: which exist, what they mean in words, and which of them a role may hold (design §5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from flows.caller import Role
from flows.operation import Flow, Source
from policy.words import effect_words, joined, lowered

READ_FLOWS = "mcp:flows:read"
INVOKE = "mcp:action:invoke"
READ_SCOPES = ("mcp:manifest:read", "mcp:schema:read", "mcp:effects:read", "mcp:traces:read", READ_FLOWS)
CONSOLE_READ = ("console:manifest:read", "console:runs:read", "console:flows:read")
CONSOLE_INVOKE = "console:flows:invoke"
MCP_WILDCARD = "mcp:*"
CONSOLE_WILDCARD = "console:*"
READ_LABELS = {
    "mcp:manifest:read": "See what can be done here",
    "mcp:schema:read": "See what each flow takes and gives",
    "mcp:effects:read": "See what each flow reads and changes",
    "mcp:traces:read": "See past runs",
}


class Kind(StrEnum):
    """Where a scope stands on the consent page."""

    READ = "read"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class ScopeWords:
    """A scope in words for people."""

    scope: str
    kind: Kind
    label: str
    detail: str


class Scopes:
    """Every scope that the flows of a registry and the product itself declare; nothing else is a right."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        self._flows = tuple(flow for flow in flows if flow.source is Source.FLOW)
        self._own: dict[str, tuple[Flow, ...]] = {}
        for flow in self._flows:
            if flow.scope is not None:
                self._own[flow.scope] = (*self._own.get(flow.scope, ()), flow)
        own = tuple(sorted(scope for scope in self._own if scope not in (*READ_SCOPES, INVOKE)))
        self.read_scopes: tuple[str, ...] = READ_SCOPES
        self.consentable: tuple[str, ...] = tuple(
            scope for scope in (*READ_SCOPES, INVOKE, *own) if not scope.startswith("console:") and "*" not in scope
        )
        self.declared: frozenset[str] = frozenset((*self.consentable, *CONSOLE_READ, CONSOLE_INVOKE))
        self._words = {scope: self._worded(scope) for scope in self.consentable}
        self._of_role = {role: self._held_by(role) for role in Role}

    def words(self, scope: str) -> ScopeWords:
        """Say what a consentable scope means; raise KeyError for any other."""
        return self._words[scope]

    def of_role(self, role: Role) -> frozenset[str]:
        """Give every scope that a person of this role may hold."""
        return self._of_role[role]

    def effective(self, granted: Iterable[str], role: Role) -> frozenset[str]:
        """Give what counts of `granted` now: wildcards spelled out, cut to the role; the undeclared is nothing."""
        return self._spelled_out(granted) & self._of_role[role]

    def parse(self, text: str) -> tuple[str, ...]:
        """Give the consentable scopes of a space separated text, each once, in its order; the rest is dropped."""
        return tuple(dict.fromkeys(scope for scope in text.split() if scope in self._words))

    def missing(self, flow: Flow, held: frozenset[str]) -> tuple[str, ...]:
        """Give what has to be granted to call `flow`: of each group without a held scope the one for agents."""
        return tuple(_for_agents(group) for group in flow.needs if not group & held)

    def with_implied(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Add what a flow's own scope is useless without: the right to call flows of its kind."""
        given = tuple(dict.fromkeys(scopes))
        implied = (_for_agents(flow.needs[0]) for scope in given for flow in self._own.get(scope, ()))
        return tuple(dict.fromkeys((*given, *implied)))

    def _spelled_out(self, granted: Iterable[str]) -> frozenset[str]:
        held = set(granted)
        if MCP_WILDCARD in held:
            held.update(self.consentable)
        if CONSOLE_WILDCARD in held:  # a person at the console needs the flows' own scopes as well
            held.update(scope for scope in self.declared if scope.startswith("console:") or scope in self._own)
        return frozenset(held)

    def _held_by(self, role: Role) -> frozenset[str]:
        if role is not Role.VIEWER:
            return self.declared
        return frozenset((*READ_SCOPES, *CONSOLE_READ, *(s for s in self.consentable if self._is_for_viewers(s))))

    def _is_for_viewers(self, scope: str) -> bool:
        return scope.endswith(":read") and all(flow.only_reads for flow in self._own.get(scope, ()))

    def _worded(self, scope: str) -> ScopeWords:
        if scope in READ_LABELS:
            return ScopeWords(scope, Kind.READ, READ_LABELS[scope], "")
        if scope == READ_FLOWS:
            return ScopeWords(scope, Kind.READ, self._look_up_words(), "")
        if scope == INVOKE:
            return ScopeWords(scope, Kind.ACT, "Ask to use what changes something", self._invoke_words())
        return self._own_words(scope, self._own[scope])

    def _look_up_words(self) -> str:
        targets = {effect.target for flow in self._flows if flow.only_reads for effect in flow.effects}
        return f"Look up {joined(sorted(targets))}" if targets else "Use what only reads"

    def _invoke_words(self) -> str:
        titles = [lowered(flow.title) for flow in self._flows if not flow.only_reads and flow.scope is None]
        return joined(titles)

    def _own_words(self, scope: str, flows: tuple[Flow, ...]) -> ScopeWords:
        titles = joined([lowered(flow.title) for flow in flows])
        effects = effect_words([effect for flow in flows for effect in flow.effects])
        if all(flow.only_reads for flow in flows):
            return ScopeWords(scope, Kind.READ, f"Use: {titles}", effects)
        return ScopeWords(scope, Kind.ACT, f"Ask to {titles}", effects)


def _for_agents(group: frozenset[str]) -> str:
    return min(group, key=lambda scope: (scope.startswith("console:"), scope))
