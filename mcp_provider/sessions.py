"""The legacy session id: sealed memory of a handshake that no server keeps (design D1, checklist W12)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from core.seal import BadSeal, Sealer
from policy.principal import Principal

PURPOSE = "mcp-session"
LIFETIME = timedelta(days=30)
MOST_CAPABILITIES, LONGEST_NAME = 16, 40  # the id travels in a header


@dataclass(frozen=True, slots=True)
class Session:
    """What a legacy client said when it introduced itself."""

    version: str
    capabilities: frozenset[str]


class Sessions:
    """Hands out session ids and reads them back; an id proves nothing about who calls."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def hand_out(self, principal: Principal, version: str, declared: Mapping[str, Any]) -> str:
        """Give the id that remembers `version` and the names of the declared capabilities."""
        names = sorted(n for n, value in declared.items() if isinstance(value, dict) and len(n) <= LONGEST_NAME)
        return self._sealer.seal(PURPOSE, [_owner(principal), version, names[:MOST_CAPABILITIES]])

    def find(self, principal: Principal, text: str) -> Session | None:
        """Give what `text` remembers; None for a forged, expired or foreign one, which is as good as none."""
        try:
            owner, version, names = self._sealer.open(PURPOSE, text, within=LIFETIME)
        except BadSeal:
            return None
        return Session(version, frozenset(names)) if owner == _owner(principal) else None


def _owner(principal: Principal) -> list[str]:
    return [principal.caller.operator_id, principal.caller.client_id]
