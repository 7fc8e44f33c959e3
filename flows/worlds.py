"""Flows at work in their worlds: what each may touch, what it gives, and how its failure is told."""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from core.clock import Clock
from core.db import Database, is_busy, is_out_of_time, is_serialization_failure
from core.errors import AppError, Unavailable
from core.ids import Ids
from flows.admission import Admitted, Ran, refused
from flows.arguments import Arguments
from flows.caller import Caller
from flows.confine import OutsideReach, confined
from flows.effects import Verb
from flows.envelope import Status
from flows.guard import Limits, UndeclaredEffect, UnseenSql
from flows.inert import Inert, ResultTooLarge, inert
from flows.operation import Flow, FlowError, Params, Source
from flows.watch import UNWATCHED, Watch
from flows.world import Cancelled, Parts, TookTooLong, World, closing

log = logging.getLogger(__name__)


class FactsFailed(FlowError):
    """What a person would decide on could not be read."""

    code = "facts_failed"
    public = "What would be confirmed could not be read. The reference finds the reason in the log."
    remedy = "Find the reason in the log by the reference; the flow's `facts` failed."


OUR_FAILURES = (UnseenSql, UndeclaredEffect, OutsideReach, TookTooLong, Cancelled, ResultTooLarge)


@dataclass(frozen=True, slots=True)
class Read:
    """A read run around its calls: there is nothing to commit."""

    run_id: str
    declared_errors: tuple[type[FlowError], ...]
    verb: Verb = Verb.READ

    def leave(self, _world: World) -> None:
        """Stay as it is: what was read was of one moment, and will be."""

    def come_back(self) -> None:
        """Go on."""


class Worlds:
    """Makes the worlds of flows, and lets flows work in them."""

    def __init__(
        self, *, database: Database, ids: Ids, clock: Clock, result_bytes: int, read_deadline: timedelta
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._result_bytes = result_bytes
        self._read_deadline = read_deadline
        self._limits: dict[tuple[str, bool], tuple[Flow, Limits]] = {}

    def reading(
        self, flow: Flow, caller: Caller, parts: Parts | None = None, watch: Watch = UNWATCHED
    ) -> AbstractContextManager[World]:
        """Give a world that can only read, all of one moment."""
        until = self._clock.now() + self._read_deadline
        limits = self._limits_of(flow)
        return closing(self._world(limits, caller, self._database.snapshot, until=until, parts=parts, watch=watch))

    def looking(
        self, flow: Flow, caller: Caller, connection: Connection, deadline: datetime
    ) -> AbstractContextManager[World]:
        """Give a world that reads inside the run's transaction what the flow may touch."""
        limits = self._limits_of(flow, only_reads=True)
        return closing(self._world(limits, caller, lambda: nullcontext(connection), deadline=deadline))

    def working(
        self, admitted: Admitted, connection: Connection, deadline: datetime, parts: Parts
    ) -> AbstractContextManager[World]:
        """Give the world in which a write works."""
        given = {"deadline": deadline, "parts": parts, "watch": admitted.watch}
        limits = self._limits_of(admitted.flow)
        return closing(self._world(limits, admitted.caller, lambda: nullcontext(connection), **given))

    def result_of(self, flow: Flow, world: World, params: Params) -> Inert:
        """Let the flow do its work and give its result as plain data; raises whatever stops it."""
        with _kept_to(world, flow):
            result = flow.function(params, world)
        world.finish()
        if not isinstance(result, flow.result):
            raise TypeError(f"{flow.id} gave a {type(result).__name__}")
        return inert(result, self._result_bytes)

    def _world(
        self,
        limits: Limits,
        caller: Caller,
        connect: Callable[[], AbstractContextManager[Connection]],
        **given: Any,
    ) -> World:
        return World(limits=limits, caller=caller, clock=self._clock, ids=self._ids, connect=connect, **given)

    def _limits_of(self, flow: Flow, *, only_reads: bool = False) -> Limits:
        """Give what the flow may touch, made once; `only_reads`: the same tables, to read."""
        known = self._limits.get((flow.id, only_reads))
        if known is None or known[0] is not flow:
            effects = tuple(replace(effect, verb=Verb.READ) for effect in flow.effects) if only_reads else flow.effects
            known = self._limits[flow.id, only_reads] = (flow, Limits(flow.id, effects))
        return known[1]


def facts_in(world: World, flow: Flow, arguments: Arguments) -> Mapping[str, object]:
    """Read what the flow's `asks` sentence is filled with.

    Raises a FlowError that the flow declares, or ours, or what another try could mend.
    """
    if flow.facts is None:
        return {}
    try:
        with _kept_to(world, flow):
            facts = flow.facts(arguments.given(), world)
        world.finish()
    except Exception as error:
        if (isinstance(error, FlowError) and _is_said(error, flow)) or is_serialization_failure(error):
            raise
        log.exception("the facts of %s could not be read", flow.id)
        raise FactsFailed(detail=type(error).__name__) from None
    return facts


def failed(admitted: Admitted, error: Exception) -> Ran:
    """Give the outcome of a run that `error` ended and that was undone; what isn't for the agent goes to the log."""
    if is_busy(error):
        return refused(admitted.run_id, Unavailable())
    if is_out_of_time(error):
        is_wanted = not admitted.flow.only_reads or not admitted.watch.is_gone()
        error = TookTooLong(detail=admitted.flow.id) if is_wanted else Cancelled(detail=admitted.flow.id)
    if isinstance(error, FlowError) and _is_said(error, admitted.flow):
        log.info("run %s of %s failed: %s %s", admitted.run_id, admitted.flow.id, error.code, error.detail)
        return Ran(admitted.run_id, Status.FAILED, None, error.code, error.public)
    log.error("run %s of %s failed", admitted.run_id, admitted.flow.id, exc_info=error)
    return Ran(admitted.run_id, Status.FAILED, None, AppError.code, AppError.public)


def _kept_to(world: World, flow: Flow) -> AbstractContextManager[None]:
    """Keep a flow to its world's session; our own flows about runs read them by what made them."""
    return nullcontext() if flow.source is Source.BUILTIN else confined(world)


def _is_said(error: FlowError, flow: Flow) -> bool:
    """Tell whether an error's words are for the agent: the flow declared them, or they are ours."""
    return isinstance(error, (*flow.errors, *OUR_FAILURES))
