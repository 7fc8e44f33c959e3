"""A write: accepted, worked in one transaction or, around calls to the outside, in parts, and ended (design D5, D6)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import orjson
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from core.clock import Clock, to_us
from core.db import Database, Work, is_busy, is_serialization_failure
from core.errors import AppError, Conflict, Unavailable
from core.settings import Settings
from flows.admission import Admitted, Ran, Record, RecordReaped, Spend, as_it_stands, done, refused
from flows.caller import Caller
from flows.effects import Verb
from flows.envelope import Status
from flows.marks import marks_of
from flows.operation import Flow
from flows.outbox import Outbox
from flows.reconcile import DECLINED_THEN_STOPPED, may_have_acted
from flows.retries import NeverInOrder, Retries
from flows.runs import Held, Runs
from flows.steps import Answer, Steps
from flows.world import World
from flows.worlds import Worlds, failed

log = logging.getLogger(__name__)

POINTS = ("accepted", "begun", "spent", "ran", "recorded", "committed")
POINTS_OF_A_CALL = ("leaving", "calling", "called")  # between `spent` and `ran`
LEASE_BEYOND = timedelta(seconds=10)  # as long as SQLite waits for its writer lock (core/db.py)
RUNS_DEADLINES = 2

Recheck = Callable[[World], None]


class RequestIdConflict(AppError):
    """The request id already names another wish."""

    code = "request_id_conflict"
    status = 409
    public = "This requestId was used for a call with other arguments. Use a new one for a new wish."
    remedy = "Use a new requestId for a new wish, and the old one only to repeat the same call."


class _NotSpent(Exception):
    """The spend was refused; carries why."""

    def __init__(self, refusal: AppError) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class _NotRunning(Exception):
    """Somebody ended the run while it worked: nothing of the work may stay."""


class _Parts:
    """The work of one run, which commits before each call to the outside."""

    verb = Verb.CALL

    def __init__(
        self,
        admitted: Admitted,
        work: Work,
        *,
        runs: Runs,
        outbox: Outbox,
        clock: Clock,
        settings: Settings,
        at: Callable[[str], None],
    ) -> None:
        self.run_id = admitted.run_id
        self.declared_errors = admitted.flow.errors
        self.has_left = False
        self.is_lost = False  # the answer to its last commit: only the database knows what stays
        self._work = work
        self._runs = runs
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._at = at

    def deadline(self) -> datetime:
        """Give until when this part must be done."""
        return self._clock.now() + self._settings.write_deadline

    def keep(self, world: World) -> None:
        """Write the messages and steps of the run so far."""
        for message in world.messages:
            self._outbox.put(self._work.connection, self.run_id, message)
        if self.has_left:
            self._runs.drop_steps(self._work.connection, self.run_id)
        self._runs.add_steps(self._work.connection, world.steps.rows_of(self.run_id))

    def leave(self, world: World) -> None:
        """Commit what the run did so far with the step that is about to call; raises _NotRunning when it was ended."""
        self.keep(world)
        lease = self._settings.call_deadline + RUNS_DEADLINES * self._settings.write_deadline + LEASE_BEYOND
        if not self._runs.extend(self._work.connection, self.run_id, to_us(self._clock.now() + lease)):
            raise _NotRunning
        self._at("leaving")
        try:
            self._work.commit()
        except DBAPIError as error:
            self.is_lost = not (is_serialization_failure(error) or isinstance(error, IntegrityError))
            self.has_left = self.has_left or self.is_lost
            raise
        self.has_left = True
        self._at("calling")

    def come_back(self) -> datetime:
        """Begin the next part; give until when it must be done."""
        self._at("called")
        self._work.begin()
        return self.deadline()


class Writes:
    """Runs confirmed calls, each once."""

    def __init__(
        self,
        *,
        database: Database,
        worlds: Worlds,
        outbox: Outbox,
        clock: Clock,
        settings: Settings,
        at: Callable[[str], None],
        pause: Callable[[float], None],
    ) -> None:
        self._database = database
        self._worlds = worlds
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._at = at
        self._retries = Retries(clock, pause)
        self._runs = Runs(database, settings.lifetimes.request_key)

    def write(self, admitted: Admitted, *, spend: Spend, recheck: Recheck, respend: Spend, record: Record) -> Ran:
        """Accept, work and end one confirmed call; see Engine.write."""
        try:
            earlier = self._accept(admitted)
        except (RequestIdConflict, Conflict) as refusal:
            return refused(None, refusal)
        except DBAPIError as error:
            if not is_busy(error):
                raise
            return refused(None, Unavailable())
        if earlier is not None:
            return earlier
        self._at("accepted")
        ran, stays = self._worked(admitted, spend, recheck, record)
        if ran.status is not Status.DONE:
            return self._end(admitted, ran, stays, respend, record)
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
        """End every run whose lease is over, and give how many there were."""
        now = to_us(self._clock.now())
        count = 0
        for run_id in self._runs.overdue(now):
            with self._database.write() as connection:
                reaped = self._runs.reap(connection, run_id, now)
                if reaped is not None:
                    record(connection, reaped)
                    count += 1
        return count

    def _accept(self, admitted: Admitted) -> Ran | None:
        """Commit request key and running run before anything else; give the earlier run that holds the key, if any."""
        started_at = self._clock.now()
        row = admitted.row("write", started_at)
        lease = RUNS_DEADLINES * self._settings.write_deadline + LEASE_BEYOND
        row.update(status=Status.RUNNING.value, lease_until=to_us(started_at + lease))
        with self._database.write() as connection:
            held = self._runs.accept(connection, row, admitted.arguments.digest)
        return None if held is None else _kept(held, admitted.arguments.digest)

    def _worked(self, admitted: Admitted, spend: Spend, recheck: Recheck, record: Record) -> tuple[Ran, Steps | None]:
        """Work until it is done, failed or refused; give the outcome and the steps that stay though it isn't done."""
        try:
            turn = None if admitted.flow.calls_outside else admitted.flow.id
            return self._retries.until_done(
                turn, self._settings.write_deadline, lambda: self._work(admitted, spend, recheck, record)
            )
        except _NotSpent as error:
            return refused(admitted.run_id, error.refusal), None
        except NeverInOrder as refusal:
            return refused(admitted.run_id, refusal), None
        except _NotRunning:
            return refused(admitted.run_id, Conflict()), None  # the run's row says how it ended
        except Exception as error:  # noqa: BLE001 - whatever a flow raises ends its run, and is said
            return failed(admitted, error), None

    def _work(self, admitted: Admitted, spend: Spend, recheck: Recheck, record: Record) -> tuple[Ran, Steps | None]:
        """Do the whole work; an error rolls all of it back, or what came after the last call to the outside."""
        parts: _Parts | None = None
        world: World | None = None
        try:
            with self._database.work() as work:
                parts = self._parts(admitted, work)
                self._open(admitted, work, parts, spend, recheck)
                with self._worlds.working(admitted, work.connection, parts.deadline(), parts) as world:
                    result = self._worlds.result_of(admitted.flow, world, admitted.arguments.given())
                ran = done(admitted.run_id, result)
                self._at("ran")
                parts.keep(world)
                record(work.connection, ran)
                self._at("recorded")
                if not self._ended(work.connection, admitted, ran):
                    raise _NotRunning
        except Exception as error:
            if parts is None or world is None or not parts.has_left:
                raise
            stays = world.what_stays()
            return _after_a_call(admitted, stays, error), None if parts.is_lost else stays
        self._at("committed")
        return ran, None

    def _parts(self, admitted: Admitted, work: Work) -> _Parts:
        return _Parts(
            admitted,
            work,
            runs=self._runs,
            outbox=self._outbox,
            clock=self._clock,
            settings=self._settings,
            at=self._at,
        )

    def _open(self, admitted: Admitted, work: Work, parts: _Parts, spend: Spend, recheck: Recheck) -> None:
        """Pay, and look whether the call still is what was confirmed."""
        self._at("begun")
        with _refusable():
            spend(work.connection)
        self._at("spent")
        # SQLite may have waited for its lock: the flow's time starts here.
        looking = self._worlds.looking(admitted.flow, admitted.caller, work.connection, parts.deadline())
        with _refusable(), looking as world:
            recheck(world)

    def _end(self, admitted: Admitted, ran: Ran, stays: Steps | None, respend: Spend, record: Record) -> Ran:
        """Write the end of a run that isn't done, after its rollback; give what the database knows better."""
        try:
            with self._database.write() as connection:
                if not self._ended(connection, admitted, ran):
                    return as_it_stands(self._runs.get(connection, admitted.run_id))
                if ran.status is Status.REFUSED:
                    self._runs.free_key(connection, admitted.run_id)
                else:
                    _pay_again(connection, respend)
                if stays is not None:
                    self._runs.drop_steps(connection, admitted.run_id)
                    self._runs.add_steps(connection, stays.rows_of(admitted.run_id))
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


def _after_a_call(admitted: Admitted, stays: Steps, error: Exception) -> Ran:
    """Give the outcome of a run that ended after it had left: failed only where the outside said that it did nothing.

    Never refused: its confirmation is spent, and its request id must not run again.
    """
    if stays.calls and all(call.answer is Answer.DECLINED for call in stays.calls):
        ran = replace(failed(admitted, error), status=Status.FAILED)
        return ran if isinstance(error, admitted.flow.errors) else replace(ran, message=DECLINED_THEN_STOPPED)
    log.error("run %s of %s ended around a call", admitted.run_id, admitted.flow.id, exc_info=error)
    return Ran(admitted.run_id, Status.UNKNOWN, None, Status.UNKNOWN.value, may_have_acted(stays.calls))


def _kept(held: Held, plan: str) -> Ran:
    """Give the earlier outcome of the same wish; raises RequestIdConflict for another one."""
    if held.plan != plan:
        raise RequestIdConflict
    return replace(as_it_stands(held.run), kept=True)


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
