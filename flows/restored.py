"""What a restored backup doesn't know of runs and messages, and what is therefore said of them."""

from collections.abc import Iterator

from sqlalchemy import Update, update

from flows.envelope import Status
from flows.models import outbox, run
from flows.reconcile import RESTORED, RESTORED_WORDS

HELD = "held back by a restore: it may have left before"


def end_runs(now: int) -> Iterator[Update]:
    """Give the statements that end the runs which were running: what they did after the backup isn't known."""
    values = {"status": Status.UNKNOWN.value, "code": RESTORED, "message": RESTORED_WORDS, "ended_at": now}
    yield update(run).where(run.c.status == Status.RUNNING.value).values(values)


def hold_messages(now: int) -> Iterator[Update]:
    """Give the statements that hold what waited: it may have left after the backup, and a person sends it again."""
    held = {"status": "failed", "problem": HELD, "ended_at": now}
    yield update(outbox).where(outbox.c.status == "waiting").values(held)
