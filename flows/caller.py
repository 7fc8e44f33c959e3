"""What a flow may know of who called it."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """A person's place in the house; bounds every scope (design §5)."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


class Surface(StrEnum):
    """The door by which a call came."""

    MCP = "mcp"
    CONSOLE = "console"
    CLI = "cli"
    SCHEDULE = "schedule"
    BRIDGE = "bridge"


@dataclass(frozen=True, slots=True)
class Caller:
    """Ids and words, never a token; `scopes` are the effective ones of this call."""

    operator_id: str
    email: str
    role: Role
    client_id: str
    grant_id: str
    surface: Surface
    scopes: frozenset[str]
    is_machine: bool = False  # a program that acts for nobody: no person can confirm what it asks

    @property
    def sees_everybody(self) -> bool:
        """Whether this role may see other people's runs."""
        return self.role in (Role.REVIEWER, Role.ADMIN)
