"""The life of a run: exactly once and honest about it (design D6). Writes in flows/writes.py.

Imported by policy/dispatch.py only.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

from core.clock import Clock, to_us
from core.db import Database
from core.ids import Ids
from core.settings import Settings
from flows.admission import Admitted, Ran, Record, RecordReaped, RecordRow, Spend, done
from flows.arguments import Arguments
from flows.behind import TraceWriter
from flows.caller import Caller
from flows.guard import install_guard
from flows.operation import Flow
from flows.outbox import Outbox
from flows.retries import random_pause
from flows.slots import Slots
from flows.worlds import Read, Worlds, facts_in, failed
from flows.writes import Recheck, Writes

GIVEN_UP = timedelta(seconds=10)  # beyond the longest run: then the worker of a slot is gone


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
        self._clock = clock
        self._traces = traces
        self._slots = Slots(database, clock)
        self._longest = max(settings.read_deadline, settings.call_deadline + 2 * settings.write_deadline) + GIVEN_UP
        self._worlds = Worlds(
            database=database,
            ids=ids,
            clock=clock,
            result_bytes=settings.result_bytes,
            read_deadline=settings.read_deadline,
        )
        self._writes = Writes(
            database=database,
            worlds=self._worlds,
            outbox=outbox,
            clock=clock,
            settings=settings,
            at=at,
            pause=pause,
        )
        install_guard(database.writing)
        install_guard(database.reading)

    def read(self, admitted: Admitted, record_row: RecordRow) -> Ran:
        """Run a read-only flow; the run and its audit row are written behind, together.

        Raises AllTaken, and what `admitted.watch.began` raises; then there was no run.
        """
        with self._slots.held(admitted, self._longest):
            admitted.watch.began()
            return self._read(admitted, record_row)

    def _read(self, admitted: Admitted, record_row: RecordRow) -> Ran:
        row = admitted.row("read", self._clock.now())  # first: a flow may change the lists in its params
        parts = Read(admitted.run_id, admitted.flow.errors)
        with self._worlds.reading(admitted.flow, admitted.caller, parts, admitted.watch) as world:
            try:
                result = self._worlds.result_of(admitted.flow, world, admitted.arguments.params)
                ran = done(admitted.run_id, result)
            except Exception as error:  # noqa: BLE001 - whatever a flow raises ends its run, and is said
                ran = failed(admitted, error)
        row.update(status=ran.status.value, code=ran.code, message=ran.message, ended_at=to_us(self._clock.now()))
        self._traces.put(row, world.steps.rows_of(admitted.run_id), record_row(ran))
        return ran

    def facts(self, flow: Flow, arguments: Arguments, caller: Caller) -> Mapping[str, object]:
        """Read what the flow's `asks` sentence is filled with; raises a FlowError that the flow declares, or ours."""
        if flow.facts is None:
            return {}
        with self._worlds.reading(flow, caller) as world:
            return facts_in(world, flow, arguments)

    def write(self, admitted: Admitted, *, spend: Spend, recheck: Recheck, respend: Spend, record: Record) -> Ran:
        """Accept, work and end one confirmed call.

        `spend` pays in the run's transaction and `recheck` looks there, through a world that can only read, whether
        the call still is what was confirmed; when one of them refuses, the run is `refused` and nothing was paid.
        `respend` pays again after the rollback of a flow that failed; `record` writes the audit event with every end.
        Raises AllTaken, and what `admitted.watch.began` raises; then there was no run.
        """
        with self._slots.held(admitted, self._longest):
            admitted.watch.began()
            return self._writes.write(admitted, spend=spend, recheck=recheck, respend=respend, record=record)

    def replay(self, caller: Caller, flow: Flow, request_id: str, plan: str) -> Ran | None:
        """Give the outcome of the run that holds this request id, or None; raises RequestIdConflict."""
        return self._writes.replay(caller, flow, request_id, plan)

    def reap(self, record: RecordReaped) -> int:
        """End every run whose lease is over, and give how many there were; `record` writes its audit event.

        `interrupted` where nothing was changed: its request key is free again. `unknown` where it had left for a call.
        """
        return self._writes.reap(record)
