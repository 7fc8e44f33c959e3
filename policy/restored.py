"""What a restored backup doesn't know of confirmations: whether they were spent since."""

from collections.abc import Iterator

from sqlalchemy import Update, update

from policy.models import confirmation
from policy.stored import ENDED, OPEN, State


def end_confirmations() -> Iterator[Update]:
    """Give the statements that end every open confirmation, so that none is spent a second time."""
    yield update(confirmation).where(confirmation.c.state.in_(OPEN)).values(state=State.EXPIRED, **ENDED)
