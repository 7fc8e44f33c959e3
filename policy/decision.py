"""The answer of the door to one call."""

from dataclasses import dataclass

from flows.envelope import Refusal
from flows.operation import Rule


@dataclass(frozen=True, slots=True)
class Allowed:
    """A read-only flow may run."""


@dataclass(frozen=True, slots=True)
class NeedsConfirmation:
    """May run with a spent confirmation under this rule."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class Denied:
    """May not run."""

    refusal: Refusal


Decision = Allowed | NeedsConfirmation | Denied
