"""What a restored backup doesn't know of people's access: what was taken away since."""

from collections.abc import Iterator

from sqlalchemy import Delete, Update, delete, update

from auth.models import grant, session


def end_access(now: int) -> Iterator[Update | Delete]:
    """Give the statements that end every session and connection, and with a connection its tokens and codes."""
    yield delete(session)
    yield update(grant).where(grant.c.revoked_at.is_(None)).values(revoked_at=now)
