"""The inert result of a call: data only, size-capped, no live handles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from flows.content import Content


class Status(StrEnum):
    """How a call stands. The first five and `running` are no errors; the last four are (design D4)."""

    DONE = "done"
    CONFIRMATION_REQUIRED = "confirmation_required"
    CONFIRMATION_PENDING = "confirmation_pending"
    CONFIRMATION_APPROVED = "confirmation_approved"
    RUNNING = "running"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"

    @property
    def is_error(self) -> bool:
        """Whether a tool result in this status carries isError."""
        return self in (Status.FAILED, Status.REFUSED, Status.INTERRUPTED, Status.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: a stable code, one sentence, and what helps (design D9).

    `grantable` tells that the operator's role could hold every missing scope, so that asking for them helps.
    """

    code: str
    message: str
    rule: str | None = None
    missing_scopes: tuple[str, ...] = ()
    grantable: bool = False
    remedy: str | None = None
    grant_url: str | None = None
    confirm_via: str | None = None
    run_id: str | None = None  # what a spent token paid for
    outcome: Status | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The confirmation that a call waits for, as its agent may know it."""

    confirmation_id: str
    confirm_url: str
    confirm_token: str
    expires_at: datetime
    summary: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """What comes of one call."""

    status: Status
    run_id: str | None = None
    result: Mapping[str, Any] | None = None
    refusal: Refusal | None = None
    waiting: Waiting | None = None
    unconfirmed: bool = False  # rule `client`: "not confirmed by a person"
    replayed: bool = field(default=False)
    tool: str | None = None  # whose next call runs what waits
    contents: tuple[Content, ...] = ()  # beside the result
