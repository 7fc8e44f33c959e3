"""Which sessions, codes, tokens, connections, clients and tries are over."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import and_, case, exists, false, func

from auth.models import (
    MACHINE,
    REGISTERED,
    auth_code,
    authorization_request,
    client,
    client_event,
    device,
    grant,
    login_event,
    operator,
    session,
    token,
)
from core.clock import to_us
from core.purge import Rows
from core.settings import Retention
from flows.models import run
from policy.models import confirmation

# One that an administrator lets connect devices is in use.
UNUSED = and_(client.c.kind == REGISTERED, ~client.c.device, ~exists().where(grant.c.client_id == client.c.id))
UNREFERRED = and_(
    ~exists().where(token.c.grant_id == grant.c.id),
    ~exists().where(auth_code.c.grant_id == grant.c.id),
    ~exists().where(run.c.grant_id == grant.c.id),
    ~exists().where(confirmation.c.grant_id == grant.c.id),
)


def rows_over(now: datetime, kept: Retention) -> Iterator[Rows]:
    """Give the rows of people's access that are over at `now`; a connection goes when nothing refers to it."""
    yield sessions(now)
    yield tries(now, kept.tries)
    yield authorization_requests(now, kept.requests)
    yield codes(now, kept.requests)
    yield device_codes(now, kept.requests)
    yield _tokens(now, kept.tokens)
    yield _grants(now, kept.connections)
    yield unused_clients(now, kept.unused_clients)
    yield client_events(now, kept.client_events)
    yield _removed_clients(now, kept.connections)


def sessions(now: datetime) -> Rows:
    """Give the browser sessions that have ended."""
    return Rows(name="cs_session", key=session.c.digest, kept=timedelta(0), over=session.c.expires_at < to_us(now))


def tries(now: datetime, kept: timedelta) -> Rows:
    """Give the tries that no pause counts any more."""
    over = login_event.c.at < to_us(now - kept)
    return Rows(name="cs_login_event", key=login_event.c.id, kept=kept, over=over)


def authorization_requests(now: datetime, kept: timedelta) -> Rows:
    """Give the consent pages that nobody can answer any more."""
    over = authorization_request.c.expires_at < to_us(now - kept)
    return Rows(name="cs_authorization_request", key=authorization_request.c.id, kept=kept, over=over)


def codes(now: datetime, kept: timedelta) -> Rows:
    """Give the codes of which even a second use needn't be noticed any more."""
    over = auth_code.c.expires_at < to_us(now - kept)
    return Rows(name="cs_auth_code", key=auth_code.c.digest, kept=kept, over=over)


def device_codes(now: datetime, kept: timedelta) -> Rows:
    """Give the device codes of which even a second use needn't be noticed any more."""
    over = device.c.expires_at < to_us(now - kept)
    return Rows(name="cs_device", key=device.c.digest, kept=kept, over=over)


def unused_clients(now: datetime, kept: timedelta) -> Rows:
    """Give the registered clients without any connection."""
    over = and_(UNUSED, client.c.created_at < to_us(now - kept))
    return Rows(name="cs_client (unused)", key=client.c.id, kept=kept, among=UNUSED, over=over)


def client_events(now: datetime, kept: timedelta) -> Rows:
    """Give the steps of clients that nobody asks about any more."""
    over = client_event.c.at < to_us(now - kept)
    return Rows(name="cs_client_event", key=client_event.c.id, kept=kept, over=over)


def _tokens(now: datetime, kept: timedelta | None) -> Rows:
    # A replaced refresh token stays until its own time is over: presented again, it ends what a thief holds.
    over = false() if kept is None else token.c.expires_at < to_us(now - kept)
    return Rows(name="cs_token", key=token.c.digest, kept=kept, over=over)


def _grants(now: datetime, kept: timedelta | None) -> Rows:
    if kept is None:
        return Rows(name="cs_grant", key=grant.c.id, kept=None, over=false())
    # One without a token can't be used any more, whether or not somebody ended it.
    # A machine asks for its token when it needs one, and keeps its grant until it is taken away.
    is_machines = exists().where(operator.c.id == grant.c.operator_id, operator.c.kind == MACHINE)
    began = case((is_machines, None), else_=grant.c.created_at)
    ended = func.coalesce(grant.c.revoked_at, began) < to_us(now - kept)
    return Rows(name="cs_grant", key=grant.c.id, kept=kept, over=and_(ended, UNREFERRED))


def _removed_clients(now: datetime, kept: timedelta | None) -> Rows:
    removed = client.c.removed_at.is_not(None)
    has_grant = exists().where(grant.c.client_id == client.c.id)
    over = false() if kept is None else and_(client.c.removed_at < to_us(now - kept), ~has_grant)
    return Rows(name="cs_client (removed)", key=client.c.id, kept=kept, among=removed, over=over)
