"""What a run really did, effect by effect: how often and on how many rows, never values."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from core.clock import Clock, to_us
from flows.effects import Verb


@dataclass(slots=True)
class Step:
    """One effect that a run really had: how often, on how many rows; never values."""

    verb: Verb
    target: str
    at: int  # microseconds, its first use
    times: int = 0
    rows: int = 0
    counts_rows: bool = True

    @property
    def detail(self) -> str:
        """Say how much it was, in words."""
        if self.verb is Verb.SEND:
            return _count(self.times, "message")
        statements = _count(self.times, "statement")
        if self.verb is Verb.READ or not self.counts_rows:
            return statements
        return f"{_count(self.rows, 'row')} in {statements}"


Changes = dict[tuple[Verb, str], Step]


class Answer(StrEnum):
    """What is known of a call to the outside."""

    OPEN = "not known whether it took place"
    GIVEN = "answered"
    DECLINED = "declined"


@dataclass(slots=True)
class CallStep:
    """One call to the outside, or a read there; its key is what a person looks for."""

    verb: Verb
    target: str
    key: str
    at: int  # microseconds
    answer: Answer = Answer.OPEN

    @property
    def detail(self) -> str:
        """Say how it stands, in words."""
        return f"key {self.key}, {self.answer}"


@dataclass(slots=True)
class Steps:
    """The steps of one run, one an effect and one a call, in order of first use."""

    _clock: Clock
    _steps: dict[tuple[Verb, str], Step] = field(default_factory=dict)
    calls: list[CallStep] = field(default_factory=list)

    def add(self, verb: Verb, target: str) -> None:
        """Count one use of an effect."""
        step = self._steps.get((verb, target))
        if step is None:
            step = self._steps[verb, target] = Step(verb, target, to_us(self._clock.now()))
        step.times += 1

    def add_call(self, verb: Verb, target: str, run_id: str) -> CallStep:
        """Note a call that is about to be made; nothing takes it back."""
        made = CallStep(verb, target, f"{run_id}-{len(self.calls) + 1}", to_us(self._clock.now()))
        self.calls.append(made)
        return made

    def add_rows(self, verb: Verb, target: str, rows: int | None) -> None:
        """Count the rows of that use; None when the database didn't say."""
        step = self._steps[verb, target]
        step.counts_rows = step.counts_rows and rows is not None
        step.rows += rows or 0

    def changes(self) -> Changes:
        """Give a copy of all but the reads, which nothing takes back."""
        return {key: replace(step) for key, step in self._steps.items() if step.verb is not Verb.READ}

    def restore(self, changes: Changes) -> None:
        """Let the changes be these again."""
        reads = {key: step for key, step in self._steps.items() if step.verb is Verb.READ}
        self._steps = reads | {key: replace(step) for key, step in changes.items()}

    def __iter__(self) -> Iterator[Step | CallStep]:
        """Give the steps in order."""
        found: list[Step | CallStep] = [*self._steps.values(), *self.calls]
        return iter(found if not self.calls else sorted(found, key=lambda step: step.at))

    def rows_of(self, run_id: str) -> list[dict[str, Any]]:
        """Give them as rows of `cs_step`."""
        return [
            {
                "run_id": run_id,
                "position": position,
                "verb": step.verb.value,
                "target": step.target,
                "detail": step.detail,
                "at": step.at,
            }
            for position, step in enumerate(self, start=1)
        ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
