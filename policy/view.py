"""A confirmation as the person who decides sees it."""

from dataclasses import dataclass
from datetime import datetime

from core.clock import from_us
from flows.arguments import InvalidArguments, held_arguments, parse_arguments, shown
from flows.operation import Flow, Rule
from policy.stored import State, Stored


@dataclass(frozen=True, slots=True)
class RanBefore:
    """The same call ran not long ago."""

    run_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationView:
    """What the person who decides sees; `arguments` are (label, text), None when they are erased."""

    id: str
    state: State
    rule: Rule
    flow: Flow | None
    flow_id: str
    flow_version: int
    client_id: str
    grant_id: str
    digest: str
    summary: str
    reason: str | None
    arguments: list[tuple[str, str]] | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    approved_at: datetime | None
    used_at: datetime | None
    note: str | None
    run_id: str | None
    unconfirmed: bool
    ran_before: RanBefore | None


def view_of(stored: Stored, state: State, flow: Flow | None, ran_before: RanBefore | None) -> ConfirmationView:
    """Give the view of a stored confirmation; `flow` is its declaration, None when that is gone or has changed.

    Arguments that the declaration no longer takes are gone, and so is the time of a call that can't run any more.
    """
    try:
        arguments = _shown(stored, flow)
    except InvalidArguments:
        state, arguments = State.EXPIRED, None
    return ConfirmationView(
        id=stored.id,
        state=state,
        rule=Rule(stored.rule),
        flow=flow,
        flow_id=stored.flow_id,
        flow_version=stored.flow_version,
        client_id=stored.client_id,
        grant_id=stored.grant_id,
        digest=stored.digest,
        summary=stored.summary,
        reason=stored.reason,
        arguments=arguments,
        created_at=from_us(stored.created_at),
        expires_at=from_us(stored.expires_at),
        decided_at=_moment(stored.decided_at),
        approved_at=_moment(stored.approved_at),
        used_at=_moment(stored.used_at),
        note=stored.note,
        run_id=stored.run_id,
        unconfirmed=stored.unconfirmed,
        ran_before=ran_before,
    )


def _shown(stored: Stored, flow: Flow | None) -> list[tuple[str, str]] | None:
    if stored.arguments is None or flow is None:
        return None
    return shown(flow, parse_arguments(flow, held_arguments(stored.arguments)).params)


def _moment(at: int | None) -> datetime | None:
    return None if at is None else from_us(at)
