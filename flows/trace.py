"""The record of runs, as the person or agent that asks may see it (design §5)."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import NotFound
from flows.behind import TraceWriter
from flows.caller import Caller
from flows.models import run, step

YOUNG_MS = 1_000
PATIENCE_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 0.02
RECENT_RUNS = 200

RUN_BY_ID = select(run).where(run.c.id == bindparam("id"))
STEPS_OF_RUN = select(step).where(step.c.run_id == bindparam("id")).order_by(step.c.position)
LAST_OF_GRANT = (
    select(run.c.started_at).where(run.c.grant_id == bindparam("grant_id")).order_by(run.c.id.desc()).limit(1)
)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One effect that a run really had."""

    verb: str
    target: str
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run; `arguments` and `result` are JSON, sensitive values as digests. `steps` is empty in a list."""

    id: str
    flow_id: str
    flow_version: int
    kind: str
    status: str
    surface: str
    operator_id: str
    client_id: str
    grant_id: str
    confirmation_id: str | None
    request_id: str | None
    arguments: str
    result: str | None
    code: str | None
    message: str | None
    reference: str | None
    started_at: datetime
    ended_at: datetime | None
    steps: tuple[StepRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a list says of a run."""

    id: str
    flow_id: str
    status: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class EffectSeen:
    """An effect that recent runs of a flow really had."""

    verb: str
    target: str
    runs: int
    last_at: datetime


class Traces:
    """Reads runs; what the viewer's role doesn't show is unknown, not forbidden."""

    def __init__(
        self, database: Database, writer: TraceWriter, clock: Clock, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._pause = pause

    def get(self, run_id: str, viewer: Caller) -> RunRecord:
        """Give one run with its steps; raises NotFound. Waits up to 200 ms for one younger than 1 s (design D7)."""
        found = self._find(run_id, viewer)
        tries = int(PATIENCE_SECONDS / LOOK_AGAIN_SECONDS) if found is None and self._is_young(run_id) else 0
        if tries:
            self._writer.flush(PATIENCE_SECONDS)  # ours, perhaps; else another process is about to write it
            found = self._find(run_id, viewer)
        while found is None and tries:
            self._pause(LOOK_AGAIN_SECONDS)
            found = self._find(run_id, viewer)
            tries -= 1
        if found is None:
            raise NotFound
        return found

    def list(
        self,
        viewer: Caller,
        *,
        limit: int,
        flow_id: str | None = None,
        status: str | None = None,
        before: str | None = None,
    ) -> list[RunRecord]:
        """Give the newest runs that fit, at most `limit`, older than the run `before`; without their steps."""
        self._writer.flush(PATIENCE_SECONDS)
        wanted = select(run).order_by(run.c.id.desc()).limit(limit)
        if not viewer.sees_everybody:
            wanted = wanted.where(run.c.operator_id == viewer.operator_id)
        for column, value in ((run.c.flow_id, flow_id), (run.c.status, status)):
            if value is not None:
                wanted = wanted.where(column == value)
        if before is not None:
            wanted = wanted.where(run.c.id < before)
        with self._database.read() as connection:
            return [record_of(row) for row in connection.execute(wanted)]

    def own(self, viewer: Caller, flow_ids: Iterable[str], *, limit: int) -> Sequence[RunLine]:
        """Give the viewer's own newest runs of these flows, whatever else their role may see."""
        self._writer.flush(PATIENCE_SECONDS)
        wanted = (
            select(run.c.id, run.c.flow_id, run.c.status, run.c.started_at)
            .where(run.c.operator_id == viewer.operator_id, run.c.flow_id.in_(flow_ids))
            .order_by(run.c.id.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return [RunLine(row.id, row.flow_id, row.status, from_us(row.started_at)) for row in rows]

    def last_calls(self, grant_ids: Iterable[str]) -> dict[str, datetime]:
        """Give when each of these grants called last; one that never did is left out. The caller may see them."""
        self._writer.flush(PATIENCE_SECONDS)
        with self._database.read() as connection:
            found = {one: connection.execute(LAST_OF_GRANT, {"grant_id": one}).scalar() for one in grant_ids}
        return {one: from_us(at) for one, at in found.items() if at is not None}

    def effects_seen(self, flow_id: str, viewer: Caller) -> Sequence[EffectSeen]:
        """Give the effects of the flow's last 200 runs that the viewer may see, the most frequent first."""
        recent = select(run.c.id).where(run.c.flow_id == flow_id).order_by(run.c.id.desc()).limit(RECENT_RUNS)
        if not viewer.sees_everybody:
            recent = recent.where(run.c.operator_id == viewer.operator_id)
        times = func.count(step.c.run_id)
        counted = (
            select(step.c.verb, step.c.target, times, func.max(step.c.at))
            .where(step.c.run_id.in_(recent))
            .group_by(step.c.verb, step.c.target)
            .order_by(times.desc(), step.c.verb, step.c.target)
        )
        with self._database.read() as connection:
            rows = connection.execute(counted).all()
        return [EffectSeen(verb, target, number, from_us(last_at)) for verb, target, number, last_at in rows]

    def _find(self, run_id: str, viewer: Caller) -> RunRecord | None:
        with self._database.read() as connection:
            row = connection.execute(RUN_BY_ID, {"id": run_id}).one_or_none()
            if row is None or not (viewer.sees_everybody or row.operator_id == viewer.operator_id):
                return None
            return record_of(row, steps_of(connection, run_id))

    def _is_young(self, run_id: str) -> bool:
        """Tell by the time inside the id (RFC 9562 5.7) whether its row may still be on its way."""
        prefix, _, digits = run_id.partition("_")
        if prefix != "run" or len(digits) != 32:
            return False
        try:
            made_ms = int(digits[:12], 16)
        except ValueError:
            return False
        return abs(to_us(self._clock.now()) // 1_000 - made_ms) < YOUNG_MS


def record_of(row: Any, steps: tuple[StepRecord, ...] = ()) -> RunRecord:
    """Give a row of `cs_run` as a record."""
    return RunRecord(
        id=row.id,
        flow_id=row.flow_id,
        flow_version=row.flow_version,
        kind=row.kind,
        status=row.status,
        surface=row.surface,
        operator_id=row.operator_id,
        client_id=row.client_id,
        grant_id=row.grant_id,
        confirmation_id=row.confirmation_id,
        request_id=row.request_id,
        arguments=row.arguments,
        result=row.result,
        code=row.code,
        message=row.message,
        reference=row.reference,
        started_at=from_us(row.started_at),
        ended_at=None if row.ended_at is None else from_us(row.ended_at),
        steps=steps,
    )


def steps_of(connection: Connection, run_id: str) -> tuple[StepRecord, ...]:
    """Give the steps of a run in order."""
    rows = connection.execute(STEPS_OF_RUN, {"id": run_id})
    return tuple(StepRecord(row.verb, row.target, row.detail, from_us(row.at)) for row in rows)
