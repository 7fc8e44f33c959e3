"""The life of a run: accepted, worked in one transaction, ended; exactly once and honest about it (design D6).

Imported by policy/dispatch.py only.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from core.clock import Clock, to_us
from core.db import Database, is_busy, is_out_of_time, is_serialization_failure
from core.errors import AppError, Conflict, Unavailable
from core.ids import Ids
from core.settings import Settings
from flows.arguments import Arguments, stored
from flows.behind import TraceWriter
from flows.caller import Caller
from flows.effects import Verb
from flows.envelope import Status
from flows.guard import Limits, UndeclaredEffect, UnseenSql, confined, install_guard
from flows.inert import ResultTooLarge, inert
from flows.marks import marks_of
from flows.operation import Flow, FlowError, Params, Source
from flows.outbox import Outbox
from flows.retries import NeverInOrder, Retries, random_pause
from flows.runs import Held, Runs
from flows.trace import RunRecord
from flows.world import TookTooLong, World, closing

log = logging.getLogger(__name__)

POINTS = ("accepted", "begun", "spent", "ran", "recorded", "committed")
LEASE_BEYOND = timedelta(seconds=10)  # as long as SQLite waits for its writer lock (core/db.py)
RUNS_DEADLINES = 2


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


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it; `kept` tells that it is an earlier run's outcome. No run id: it was refused unrecorded."""

    run_id: str | None
    status: Status
    result: dict[str, Any] | None
    code: str | None
    message: str | None
    kept: bool = False


Spend = Callable[[Connection], None]
Recheck = Callable[[World], None]
Record = Callable[[Connection, Ran], None]
RecordReaped = Callable[[Connection, RunRecord], None]


class RequestIdConflict(AppError):
    """The request id already names another wish."""

    code = "request_id_conflict"
    status = 409
    public = "This requestId was used for a call with other arguments. Use a new one for a new wish."


class FactsFailed(FlowError):
    """What a person would decide on could not be read."""

    code = "facts_failed"
    public = "What would be confirmed could not be read. The reference finds the reason in the log."


OUR_FAILURES = (UnseenSql, UndeclaredEffect, TookTooLong, ResultTooLarge)


class _NotSpent(Exception):
    """The spend was refused; carries why."""

    def __init__(self, refusal: AppError) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class _NotRunning(Exception):
    """Somebody ended the run while it worked: nothing of the work may stay."""


class Engine:
    """Runs admitted calls, each once."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        traces: TraceWriter,
        outbox: Outbox,
        settings: Settings,
        at: Callable[[str], None] = lambda _point: None,
        pause: Callable[[float], None] = random_pause,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._traces = traces
        self._outbox = outbox
        self._settings = settings
        self._at = at
        self._retries = Retries(clock, pause)
        self._runs = Runs(database, settings.lifetimes.request_key)
        self._limits: dict[tuple[str, bool], tuple[Flow, Limits]] = {}
        install_guard(database.writing)
        install_guard(database.reading)

    # Reads

    def read(self, admitted: Admitted, record_row: Callable[[Ran], Mapping[str, Any]]) -> Ran:
        """Run a read-only flow; the run and its audit row are written behind, together."""
        row = self._row(admitted, "read", self._clock.now())  # first: a flow may change the lists in its params
        with closing(self._reading_world(admitted.flow, admitted.caller)) as world:
            try:
                result = self._result_of(admitted, world, admitted.arguments.params)
                ran = Ran(admitted.run_id, Status.DONE, result, None, None)
            except Exception as error:  # noqa: BLE001 - whatever a flow raises ends its run, and is said
                ran = self._failed(admitted, error)
        row.update(status=ran.status.value, code=ran.code, message=ran.message, ended_at=to_us(self._clock.now()))
        self._traces.put(row, world.steps.rows_of(admitted.run_id), record_row(ran))
        return ran

    def facts(self, flow: Flow, arguments: Arguments, caller: Caller) -> Mapping[str, object]:
        """Read what the flow's `asks` sentence is filled with; raises a FlowError that the flow declares, or ours."""
        if flow.facts is None:
            return {}
        with closing(self._reading_world(flow, caller)) as world:
            return facts_in(world, flow, arguments)

    # Writes

    def write(self, admitted: Admitted, *, spend: Spend, recheck: Recheck, respend: Spend, record: Record) -> Ran:
        """Accept, work and end one confirmed call.

        `spend` pays in the run's transaction and `recheck` looks there, through a world that can only read, whether
        the call still is what was confirmed; when one of them refuses, the run is `refused` and nothing was paid.
        `respend` pays again after the rollback of a flow that failed; `record` writes the audit event with every end.
        """
        try:
            earlier = self._accept(admitted)
        except (RequestIdConflict, Conflict) as refusal:
            return _refused(None, refusal)
        except DBAPIError as error:
            if not is_busy(error):
                raise
            return _refused(None, Unavailable())
        if earlier is not None:
            return earlier
        self._at("accepted")
        ran = self._worked(admitted, spend, recheck, record)
        if ran.status is not Status.DONE:
            return self._end(admitted, ran, respend, record)
        self._outbox.wake()
        return ran

    def replay(self, caller: Caller, flow: Flow, request_id: str, plan: str) -> Ran | None:
        """Give the outcome of the run that holds this request id, or None; raises RequestIdConflict."""
        key = {"operator_id": caller.operator_id, "client_id": caller.client_id}
        key.update(flow_id=flow.id, request_id=request_id)
        with self._database.read() as connection:
            held = self._runs.holder(connection, key, to_us(self._clock.now()))
        return None if held is None else _kept(held, plan)

    def reap(self, record: RecordReaped) -> int:
        """End every run whose lease is over as `interrupted`, free its request key, and give how many there were."""
        now = to_us(self._clock.now())
        count = 0
        for run_id in self._runs.overdue(now):
            with self._database.write() as connection:
                reaped = self._runs.interrupt(connection, run_id, now)
                if reaped is not None:
                    record(connection, reaped)
                    count += 1
        return count

    def _accept(self, admitted: Admitted) -> Ran | None:
        """Commit request key and running run before anything else; give the earlier run that holds the key, if any."""
        started_at = self._clock.now()
        row = self._row(admitted, "write", started_at)
        lease = RUNS_DEADLINES * self._settings.write_deadline + LEASE_BEYOND
        row.update(status=Status.RUNNING.value, lease_until=to_us(started_at + lease))
        with self._database.write() as connection:
            held = self._runs.accept(connection, row, admitted.arguments.digest)
        return None if held is None else _kept(held, admitted.arguments.digest)

    def _worked(self, admitted: Admitted, spend: Spend, recheck: Recheck, record: Record) -> Ran:
        """Work until it is done, failed or refused."""
        try:
            return self._retries.until_done(
                admitted.flow.id, self._settings.write_deadline, lambda: self._work(admitted, spend, recheck, record)
            )
        except _NotSpent as error:
            return _refused(admitted.run_id, error.refusal)
        except NeverInOrder as refusal:
            return _refused(admitted.run_id, refusal)
        except _NotRunning:
            return _refused(admitted.run_id, Conflict())  # the run's row says how it ended
        except Exception as error:  # noqa: BLE001 - whatever a flow raises ends its run, and is said
            return self._failed(admitted, error)

    def _work(self, admitted: Admitted, spend: Spend, recheck: Recheck, record: Record) -> Ran:
        """Do the whole work in one transaction; every error rolls all of it back."""
        with self._database.work() as connection:
            self._at("begun")
            with _refusable():
                spend(connection)
            self._at("spent")
            # SQLite may have waited for its lock: the flow's time starts here.
            deadline = self._clock.now() + self._settings.write_deadline
            with _refusable(), closing(self._working_world(admitted, connection, deadline, only_reads=True)) as looking:
                recheck(looking)
            with closing(self._working_world(admitted, connection, deadline)) as world:
                result = self._result_of(admitted, world, admitted.arguments.given())
                ran = Ran(admitted.run_id, Status.DONE, result, None, None)
            self._at("ran")
            for message in world.messages:
                self._outbox.put(connection, admitted.run_id, message)
            self._runs.add_steps(connection, world.steps.rows_of(admitted.run_id))
            record(connection, ran)
            self._at("recorded")
            if not self._ended(connection, admitted, ran):
                raise _NotRunning
        self._at("committed")
        return ran

    def _end(self, admitted: Admitted, ran: Ran, respend: Spend, record: Record) -> Ran:
        """Write the end of a run without effect, after its rollback; give what the database knows better."""
        try:
            with self._database.write() as connection:
                if not self._ended(connection, admitted, ran):
                    return _as_it_stands(self._runs.get(connection, admitted.run_id))
                if ran.status is Status.REFUSED:
                    self._runs.free_key(connection, admitted.run_id)
                else:
                    _pay_again(connection, respend)
                record(connection, ran)
        except SQLAlchemyError:
            # Whether the work was undone isn't known here: an answer to its COMMIT may be what was lost. The row tells,
            # or the reaper will.
            log.exception("the end of run %s (%s) could not be written", admitted.run_id, ran.code)
            return Ran(admitted.run_id, Status.RUNNING, None, None, None)
        return ran

    def _ended(self, connection: Connection, admitted: Admitted, ran: Ran) -> bool:
        """Write the outcome if the run is still running."""
        keeps_result = ran.result is not None and not marks_of(admitted.flow.result)
        return self._runs.end(
            connection,
            admitted.run_id,
            now=to_us(self._clock.now()),
            status=ran.status.value,
            result=orjson.dumps(ran.result).decode() if keeps_result else None,
            code=ran.code,
            message=ran.message,
        )

    # Parts of both

    def _result_of(self, admitted: Admitted, world: World, params: Params) -> dict[str, Any]:
        with _kept_to(world, admitted.flow):
            result = admitted.flow.function(params, world)
        world.finish()
        if not isinstance(result, admitted.flow.result):
            raise TypeError(f"{admitted.flow.id} gave a {type(result).__name__}")
        return inert(result, self._settings.result_bytes)

    def _failed(self, admitted: Admitted, error: Exception) -> Ran:
        if is_busy(error):
            return _refused(admitted.run_id, Unavailable())
        if is_out_of_time(error):
            error = TookTooLong(detail=admitted.flow.id)
        if isinstance(error, FlowError) and _is_said(error, admitted.flow):
            log.info("run %s of %s failed: %s %s", admitted.run_id, admitted.flow.id, error.code, error.detail)
            return Ran(admitted.run_id, Status.FAILED, None, error.code, error.public)
        log.error("run %s of %s failed", admitted.run_id, admitted.flow.id, exc_info=error)
        return Ran(admitted.run_id, Status.FAILED, None, AppError.code, AppError.public)

    def _reading_world(self, flow: Flow, caller: Caller) -> World:
        return self._world(self._limits_of(flow), caller, self._database.snapshot, None)

    def _working_world(
        self, admitted: Admitted, connection: Connection, deadline: datetime, *, only_reads: bool = False
    ) -> World:
        limits = self._limits_of(admitted.flow, only_reads=only_reads)
        return self._world(limits, admitted.caller, lambda: nullcontext(connection), deadline)

    def _world(
        self,
        limits: Limits,
        caller: Caller,
        connect: Callable[[], AbstractContextManager[Connection]],
        deadline: datetime | None,
    ) -> World:
        return World(limits=limits, caller=caller, clock=self._clock, ids=self._ids, connect=connect, deadline=deadline)

    def _limits_of(self, flow: Flow, *, only_reads: bool = False) -> Limits:
        """Give what the flow may touch, made once; `only_reads`: the same tables, to read."""
        known = self._limits.get((flow.id, only_reads))
        if known is None or known[0] is not flow:
            effects = tuple(replace(effect, verb=Verb.READ) for effect in flow.effects) if only_reads else flow.effects
            known = self._limits[flow.id, only_reads] = (flow, Limits(flow.id, effects))
        return known[1]

    def _row(self, admitted: Admitted, kind: str, started_at: datetime) -> dict[str, Any]:
        caller, flow = admitted.caller, admitted.flow
        return {
            "id": admitted.run_id,
            "flow_id": flow.id,
            "flow_version": flow.version,
            "kind": kind,
            "status": None,
            "surface": caller.surface.value,
            "operator_id": caller.operator_id,
            "client_id": caller.client_id,
            "grant_id": caller.grant_id,
            "confirmation_id": admitted.confirmation_id,
            "request_id": admitted.request_id or admitted.confirmation_id,
            "arguments": stored(flow, admitted.arguments.params),
            "result": None,
            "code": None,
            "message": None,
            "reference": admitted.reference,
            "started_at": to_us(started_at),
            "ended_at": None,
            "lease_until": None,
        }


def facts_in(world: World, flow: Flow, arguments: Arguments) -> Mapping[str, object]:
    """Read what the flow's `asks` sentence is filled with; raises as `Engine.facts`, or what another try could mend."""
    if flow.facts is None:
        return {}
    try:
        with _kept_to(world, flow):
            return flow.facts(arguments.given(), world)
    except Exception as error:
        if (isinstance(error, FlowError) and _is_said(error, flow)) or is_serialization_failure(error):
            raise
        log.exception("the facts of %s could not be read", flow.id)
        raise FactsFailed(detail=type(error).__name__) from None


def _kept_to(world: World, flow: Flow) -> AbstractContextManager[None]:
    """Keep a flow to its world's session; our own flows about runs read them by what made them."""
    return nullcontext() if flow.source is Source.BUILTIN else confined(world)


def _is_said(error: FlowError, flow: Flow) -> bool:
    """Tell whether an error's words are for the agent: the flow declared them, or they are ours."""
    return isinstance(error, (*flow.errors, *OUR_FAILURES))


def _refused(run_id: str | None, refusal: AppError) -> Ran:
    return Ran(run_id, Status.REFUSED, None, refusal.code, refusal.public)


def _kept(held: Held, plan: str) -> Ran:
    """Give the earlier outcome of the same wish; raises RequestIdConflict for another one."""
    if held.plan != plan:
        raise RequestIdConflict
    return replace(_as_it_stands(held.run), kept=True)


def _as_it_stands(run: RunRecord) -> Ran:
    result = None if run.result is None else orjson.loads(run.result)
    return Ran(run.id, Status(run.status), result, run.code, run.message)


@contextmanager
def _refusable() -> Iterator[None]:
    """Let what is done before the flow refuse the run."""
    try:
        yield
    except AppError as refusal:
        raise _NotSpent(refusal) from None


def _pay_again(connection: Connection, respend: Spend) -> None:
    """Leave the confirmation of a failed flow spent; one that ended meanwhile can't be spent any more anyway."""
    try:
        respend(connection)
    except AppError as refusal:
        log.info("the confirmation of a failed run had ended: %s", refusal.code)
