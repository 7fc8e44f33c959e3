"""One call that the door let through, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection

from core.clock import to_us
from core.errors import AppError
from flows.arguments import Arguments, stored
from flows.caller import Caller
from flows.content import Content
from flows.envelope import Status
from flows.inert import Inert
from flows.operation import Flow
from flows.trace import RunRecord
from flows.watch import UNWATCHED, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """One call that the door let through."""

    run_id: str
    flow: Flow
    arguments: Arguments
    caller: Caller
    reference: str | None
    confirmation_id: str | None = None
    request_id: str | None = None
    watch: Watch = UNWATCHED

    def row(self, kind: str, started_at: datetime) -> dict[str, Any]:
        """Give its row of `cs_run`, without an end."""
        return {
            "id": self.run_id,
            "flow_id": self.flow.id,
            "flow_version": self.flow.version,
            "kind": kind,
            "status": None,
            "surface": self.caller.surface.value,
            "operator_id": self.caller.operator_id,
            "client_id": self.caller.client_id,
            "grant_id": self.caller.grant_id,
            "confirmation_id": self.confirmation_id,
            "request_id": self.request_id or self.confirmation_id,
            "arguments": stored(self.flow, self.arguments.params),
            "result": None,
            "code": None,
            "message": None,
            "reference": self.reference,
            "started_at": to_us(started_at),
            "ended_at": None,
            "lease_until": None,
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it; `kept` tells that it is an earlier run's outcome. No run id: it was refused unrecorded."""

    run_id: str | None
    status: Status
    result: dict[str, Any] | None
    code: str | None
    message: str | None
    kept: bool = False
    contents: tuple[Content, ...] = ()  # of the run itself: no record keeps it


Spend = Callable[[Connection], None]
Record = Callable[[Connection, Ran], None]
RecordRow = Callable[[Ran], Mapping[str, Any]]
RecordReaped = Callable[[Connection, RunRecord], None]


def done(run_id: str, result: Inert) -> Ran:
    """Give the outcome of a run that did its work."""
    return Ran(run_id, Status.DONE, result.data, None, None, contents=result.contents)


def refused(run_id: str | None, refusal: AppError) -> Ran:
    """Give the outcome of a run that changed nothing and may be asked for again."""
    return Ran(run_id, Status.REFUSED, None, refusal.code, refusal.public)


def as_it_stands(run: RunRecord) -> Ran:
    """Give the outcome that the database has."""
    result = None if run.result is None else orjson.loads(run.result)
    return Ran(run.id, Status(run.status), result, run.code, run.message)
