"""What a check before the start finds: what stops it and what only warns, each with what helps."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that stops the start, or only warns, with the command or the change that helps."""

    sentence: str
    helps: str
    stops: bool = True


def warning(sentence: str, helps: str) -> Finding:
    """Give a finding that stops nothing."""
    return Finding(sentence, helps, stops=False)


def faults(findings: Sequence[Finding]) -> list[Finding]:
    """Give those that stop the start."""
    return [one for one in findings if one.stops]


def words(findings: Sequence[Finding]) -> str:
    """Give two lines for each finding, faults first."""
    ordered = sorted(findings, key=lambda one: not one.stops)
    return "\n".join(f"{_kind(one):8} {one.sentence}\n         → {one.helps}" for one in ordered)


def counted(findings: Sequence[Finding]) -> str:
    """Give how many there are: `2 faults, 1 warning`."""
    stopping = len(faults(findings))
    return f"{_number(stopping, 'fault')}, {_number(len(findings) - stopping, 'warning')}"


def _kind(one: Finding) -> str:
    return "fault" if one.stops else "warning"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
