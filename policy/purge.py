"""Which confirmations and audit events are over."""

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import and_, exists, false

from core.ids import least_id
from core.purge import Rows
from core.settings import Retention
from flows.models import run
from policy.cancellations import cancellations
from policy.models import audit, confirm_token, confirmation
from policy.stored import OPEN


def rows_over(now: datetime, kept: Retention) -> Iterator[Rows]:
    """Give the rows of decisions that are over at `now`; the decision on a run stays as long as the run."""
    ended = confirmation.c.state.not_in(OPEN)
    # Without its confirmation a run would look as if a person had confirmed it, whoever did.
    has_run = exists().where(run.c.id == confirmation.c.run_id)
    yield Rows(
        name="cs_confirmation",
        key=confirmation.c.id,
        kept=kept.confirmations,
        among=ended,
        over=false()
        if kept.confirmations is None
        else and_(confirmation.c.id < least_id("cf", now - kept.confirmations), ended, ~has_run),
        parts=(confirm_token.c.confirmation_id,),
    )
    yield Rows(
        name="cs_audit",
        key=audit.c.id,
        kept=kept.audit,
        over=false() if kept.audit is None else audit.c.id < least_id("au", now - kept.audit),
    )
    yield cancellations(now)
