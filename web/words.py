"""The words of the console: how states, effects and durations read."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from flows.arguments import visible
from flows.effects import Effect, Verb
from policy.words import TARGETS, VERBS, effect_words

__all__ = ["effect_words", "visible"]  # templates find these here as well
LONG_CHARACTERS, LONG_LINES = 400, 8
DID = {
    Verb.READ: "Read",
    Verb.WRITE: "Changed",
    Verb.DELETE: "Deleted",
    Verb.SEND: "Queued",
    Verb.CALL: "Called",
    Verb.PROPOSE: "Proposed",
}
SURFACES = {"mcp": "agent", "console": "console", "cli": "command line", "schedule": "schedule", "bridge": "bridge"}


@dataclass(frozen=True, slots=True)
class Said:
    """A state in words, and the tone of its badge, which only repeats them."""

    words: str
    tone: str = ""
    more: str = ""


STATUSES = {
    "done": Said("Done", "new"),
    "running": Said("Running", "act"),
    "failed": Said("Failed", "gone", "It was tried and failed. Nothing of it was kept."),
    "refused": Said("Refused", "gone", "It was not run."),
    "interrupted": Said("Interrupted", "act", "The server stopped in the middle. Nothing was changed."),
    "unknown": Said("Unknown", "act", "It is not known whether the outside call took place. Look there first."),
}
MESSAGES = {
    "waiting": Said("Will be sent", "act"),
    "sent": Said("Sent", "new"),
    "failed": Said("Not sent", "gone"),
}


def status(value: str) -> Said:
    """Give the words of a run's status."""
    return STATUSES.get(value, Said(value, "quiet"))


def message_status(value: str) -> Said:
    """Give the words of an outgoing message's status."""
    return MESSAGES.get(value, Said(value, "quiet"))


def effect(declared: Effect) -> str:
    """Give what a flow may do: "Changes orders"."""
    return sentence(f"{VERBS[declared.verb]} {TARGETS.get(declared.target, declared.target)}")


def step(verb: str, target: str) -> str:
    """Give what a run did: "Changed orders"."""
    return f"{DID[Verb(verb)]} {TARGETS.get(target, target)}"


def sentence(phrase: str) -> str:
    """Give `phrase` with a capital first letter."""
    return phrase[:1].upper() + phrase[1:]


def left(until: datetime, now: datetime) -> str:
    """Say how much time is left: "12 min left", rounded down so that nobody is promised too much."""
    seconds = int((until - now).total_seconds())
    if seconds <= 0:
        return "time is over"
    if seconds < 60:
        return "less than 1 min left"
    return f"{seconds // 60} min left"


def ago(at: datetime, now: datetime) -> str:
    """Say how long ago `at` was, in its largest whole unit."""
    passed = now - at
    if passed < timedelta(minutes=1):
        return "just now"
    for unit, size in (("day", timedelta(days=1)), ("h", timedelta(hours=1)), ("min", timedelta(minutes=1))):
        if count := passed // size:
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''} ago"
    return "just now"


def lasted(started: datetime, ended: datetime | None) -> str:
    """Say how long a run took; empty while it runs."""
    if ended is None:
        return ""
    milliseconds = (ended - started) / timedelta(milliseconds=1)
    return f"{milliseconds:.0f}\u00a0ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f}\u00a0s"


def is_long(text: str) -> bool:
    """Whether a value needs a block of its own that scrolls."""
    return len(text) > LONG_CHARACTERS or text.count("\n") >= LONG_LINES
