"""Who decides, and what shows that it is really that person at that moment (design D4)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from flows.caller import Role


@dataclass(frozen=True, slots=True)
class Approver:
    """The signed-in person in front of the page."""

    operator_id: str
    email: str
    role: Role


class ProofKind(StrEnum):
    """How it was shown."""

    PASSWORD = "password"
    FRESH_SIGN_IN = "fresh_sign_in"  # https and a `__Host-` cookie only


@dataclass(frozen=True, slots=True)
class Proof:
    """Shown by this operator for this one decision; made by auth/proofs.py only."""

    operator_id: str
    kind: ProofKind
    at: datetime
