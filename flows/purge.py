"""Which runs, request ids and messages are over, in the order in which they go."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import and_, exists, false

from core.clock import to_us
from core.ids import least_id
from core.purge import Rows
from core.settings import Retention
from flows.envelope import Status
from flows.models import outbox, request_key, run, slot, step

# An unknown run waits for a person, and what that one finds out depends on its record.
ENDED = run.c.status.not_in((Status.RUNNING.value, Status.UNKNOWN.value))
UNNEEDED = and_(
    ~exists().where(request_key.c.run_id == run.c.id),
    ~exists().where(outbox.c.run_id == run.c.id, outbox.c.status == "waiting"),
)


def rows_over(now: datetime, kept: Retention, key_life: timedelta) -> Iterator[Rows]:
    """Give the rows of runs that are over at `now`; a run stays while its request id holds or a message waits."""
    yield Rows(
        name="cs_request_key",
        key=request_key.c.run_id,
        kept=key_life,
        over=request_key.c.created_at < to_us(now - key_life),
    )
    yield _messages("sent", kept.sent_messages, now)
    yield _messages("failed", kept.failed_messages, now)
    yield _runs("write", kept.writes, now)
    yield _runs("read", kept.reads, now)
    # Of workers that were killed.
    yield Rows(name="cs_slot", key=slot.c.run_id, kept=timedelta(0), over=slot.c.until < to_us(now))


def _messages(status: str, kept: timedelta | None, now: datetime) -> Rows:
    among = outbox.c.status == status
    over = false() if kept is None else and_(among, outbox.c.ended_at < to_us(now - kept))
    return Rows(name=f"cs_outbox ({status})", key=outbox.c.id, kept=kept, among=among, over=over)


def _runs(kind: str, kept: timedelta | None, now: datetime) -> Rows:
    among = run.c.kind == kind
    over = false() if kept is None else and_(among, run.c.id < least_id("run", now - kept), ENDED, UNNEEDED)
    return Rows(name=f"cs_run ({kind}s)", key=run.c.id, kept=kept, among=among, over=over, parts=(step.c.run_id,))
