"""The one door: every run starts here and nowhere else, whoever called and by whatever surface."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from core.clock import Clock
from core.db import Database, is_busy
from core.errors import Conflict, Unavailable
from core.ids import Ids
from core.logs import reference
from core.settings import Settings
from flows.admission import Admitted, Ran
from flows.arguments import Arguments, InvalidArguments, parse_arguments
from flows.behind import TraceWriter
from flows.check import LONGEST_TOOL_NAME
from flows.engine import Engine
from flows.envelope import Envelope, Refusal, Status
from flows.operation import Flow, FlowError, Rule
from flows.outbox import Outbox
from flows.registry import Registry, UnknownFlow
from flows.trace import RunRecord
from flows.watch import UNWATCHED, Watch
from flows.world import World
from flows.worlds import facts_in
from flows.writes import RequestIdConflict
from policy import refusals
from policy.audit import Audit
from policy.confirmations import Asked, Confirmations
from policy.decide import decide
from policy.decision import Denied, NeedsConfirmation
from policy.principal import Principal
from policy.refusals import ConfirmationChanged
from policy.scopes import Scopes
from policy.stored import State
from policy.words import SentenceUnfilled, plain, sentence

P = ParamSpec("P")
Stop = Callable[[Flow], Envelope | None]

LONGEST_REQUEST_ID = 128
SPENT_BY_ANOTHER = ("confirmation_spent", "confirmation_expired")
ONLY_READS = Refusal("confirmation_not_needed", "This flow only reads: call it, nobody has to confirm it.")


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked for; `ask_only` is `action_confirm`, which never runs anything. Nothing in it is trusted."""

    flow_id: str
    arguments: Mapping[str, Any]
    confirm_token: str | None = None
    confirmation: str | None = None
    request_id: str | None = None
    reason: str | None = None
    ask_only: bool = False
    tool: str | None = None
    watch: Watch = UNWATCHED

    def __repr__(self) -> str:
        return f"Call({self.flow_id!r})"  # the token and the arguments stay out of logs


@dataclass(frozen=True, slots=True)
class Write:
    """A permitted and validated call that needs a confirmation under `rule`."""

    principal: Principal
    call: Call
    flow: Flow
    arguments: Arguments
    rule: Rule


def _answered_when_busy(act: Callable[P, Envelope]) -> Callable[P, Envelope]:
    """Make a call that the database had no time for, or that met a rival, a refusal: nothing of it ran."""

    @wraps(act)
    def answered(*args: P.args, **kwargs: P.kwargs) -> Envelope:
        try:
            return act(*args, **kwargs)
        except Conflict as error:
            return _refusing(Refusal(error.code, error.public))
        except DBAPIError as error:
            if not is_busy(error):
                raise
            return _refusing(Refusal(Unavailable.code, Unavailable.public))

    return answered


class Door:
    """Takes a call from a verified principal to its outcome."""

    def __init__(
        self,
        *,
        registry: Registry,
        scopes: Scopes,
        engine: Engine,
        confirmations: Confirmations,
        audit: Audit,
        database: Database,
        settings: Settings,
        ids: Ids,
    ) -> None:
        self._registry = registry
        self._scopes = scopes
        self._engine = engine
        self._confirmations = confirmations
        self._audit = audit
        self._database = database
        self._settings = settings
        self._ids = ids

    @_answered_when_busy
    def dispatch(self, principal: Principal, call: Call) -> Envelope:
        """Decide on a call and run it, or answer what it waits for; raise UnknownFlow or InvalidArguments."""
        flow = self._registry.find(call.flow_id)
        if flow is None:
            self._note(principal, call, None, code=UnknownFlow.code)
            raise UnknownFlow
        decision = decide(principal, flow, self._scopes, self._settings)
        if isinstance(decision, Denied):
            return self._refused(principal, call, flow, decision.refusal)
        arguments = self._parsed(principal, call, flow)  # after the decision: nobody probes what they may not call
        if isinstance(decision, NeedsConfirmation):
            return self._write(Write(principal, call, flow, arguments, decision.rule))
        if call.ask_only:
            return self._refused(principal, call, flow, ONLY_READS)
        return self._read(principal, call, flow, arguments)

    @_answered_when_busy
    def invoke_held(
        self, principal: Principal, token: str, phrase: str | None, *, stop: Stop, watch: Watch = UNWATCHED
    ) -> Envelope:
        """Run exactly the call that a token was given for, so that long arguments are written once.

        `stop` may refuse the flow that this turns out to be, since the surface couldn't judge it before.
        """
        call = Call("", {}, token, phrase, tool="action_invoke", watch=watch)
        held = self._confirmations.call_of(principal, token, phrase)
        if isinstance(held, Refusal):
            return self._refused(principal, call, None, held)
        flow = self._registry.find(held.flow_id)
        stopped = stop(flow) if flow else None
        return stopped or self.dispatch(principal, replace(call, flow_id=held.flow_id, arguments=held.arguments))

    @_answered_when_busy
    def ask_status(self, principal: Principal, confirmation_id: str) -> Envelope:
        """Tell how a confirmation of this principal stands; under rule CLIENT this makes its token live."""
        call = Call("", {}, ask_only=True, tool="action_confirm")
        flow_id = self._confirmations.flow_of(principal, confirmation_id)
        flow = None if isinstance(flow_id, Refusal) else self._registry.find(flow_id)
        if flow is None:
            refusal = flow_id if isinstance(flow_id, Refusal) else refusals.expired()
            return self._refused(principal, call, None, refusal)
        decision = decide(principal, flow, self._scopes, self._settings)
        if not isinstance(decision, NeedsConfirmation):
            refusal = decision.refusal if isinstance(decision, Denied) else ONLY_READS
            return self._refused(principal, call, flow, refusal)
        asked = self._confirmations.status(principal, confirmation_id, decision.rule)
        if isinstance(asked, Refusal):
            return self._ended(principal, call, flow, asked)
        return self._waits(principal, call, flow, asked, if_pending=Status.CONFIRMATION_PENDING)

    def note_refused(self, principal: Principal, tool: str, code: str, flow: Flow | None = None) -> None:
        """Record what a surface refused before it was a call; raise Unavailable when there is no time to."""
        call = Call("", {}, tool=plain(tool, LONGEST_TOOL_NAME))  # an unknown tool is whatever the caller wrote
        try:
            self._note(principal, call, flow, code=code)
        except DBAPIError as error:
            if not is_busy(error):
                raise
            raise Unavailable from None

    def end_overdue(self) -> int:
        """End what nobody ended: runs whose worker is gone, confirmations whose time is over; say how many."""
        return self._engine.reap(self._record_reaped) + self._confirmations.end_overdue()

    def _read(self, principal: Principal, call: Call, flow: Flow, arguments: Arguments) -> Envelope:
        caller, run_id = principal.caller, self._ids.new("run")
        admitted = Admitted(
            run_id=run_id,
            flow=flow,
            arguments=arguments,
            caller=caller,
            reference=reference.get(),
            watch=call.watch,
        )

        def record(ran: Ran) -> dict[str, Any]:
            detail = {"tool": call.tool}
            event = f"call.{ran.status}"
            return self._audit.row(event, caller=caller, flow_id=flow.id, run_id=run_id, code=ran.code, detail=detail)

        return _outcome(self._engine.read(admitted, record))

    def _write(self, write: Write) -> Envelope:
        """Take a write to its run, which only an approved confirmation opens, or answer what it waits for."""
        principal, call, flow = write.principal, write.call, write.flow
        if call.ask_only:
            return self._ask(write)
        kept = self._replayed(write)  # before the confirmation: a repeated wish needs no token (design D6)
        if kept is not None:
            return kept
        if call.confirm_token is None and call.confirmation is None:
            return self._ask(write)
        asked = self._present(write)
        if isinstance(asked, Refusal):
            return self._refused(principal, call, flow, asked)
        if asked.state is not State.APPROVED:
            return self._waits(principal, call, flow, asked, if_pending=Status.CONFIRMATION_PENDING)
        return self._run(write, asked)

    def _replayed(self, write: Write) -> Envelope | None:
        if write.call.request_id is None:
            return None
        caller, plan = write.principal.caller, write.arguments.digest
        try:
            ran = self._engine.replay(caller, write.flow, write.call.request_id, plan)
        except RequestIdConflict as error:
            return self._refused(write.principal, write.call, write.flow, Refusal(error.code, error.public))
        return None if ran is None else self._kept(write, ran)

    def _ask(self, write: Write) -> Envelope:
        principal, call, flow = write.principal, write.call, write.flow
        try:
            facts = self._engine.facts(flow, write.arguments, principal.caller)
            summary = sentence(flow, write.arguments.params, facts)
        except (FlowError, SentenceUnfilled) as error:  # nobody is bothered with what couldn't be done
            return self._refused(principal, call, flow, Refusal(error.code, error.public))
        asked = self._confirmations.ask(
            principal,
            flow,
            write.arguments,
            summary=summary,
            reason=call.reason,
            rule=write.rule,
            go_live=call.ask_only,
        )
        if isinstance(asked, Refusal):
            return self._refused(principal, call, flow, asked)
        return self._waits(principal, call, flow, asked, if_pending=Status.CONFIRMATION_REQUIRED)

    def _present(self, write: Write) -> Asked | Refusal:
        token, phrase = write.call.confirm_token, write.call.confirmation
        return self._confirmations.present(
            write.principal, write.flow, write.arguments, token=token, phrase=phrase, rule=write.rule
        )

    def _run(self, write: Write, asked: Asked) -> Envelope:
        run_id, confirmation_id = self._ids.new("run"), asked.waiting.confirmation_id
        admitted = Admitted(
            run_id=run_id,
            flow=write.flow,
            arguments=write.arguments,
            caller=write.principal.caller,
            reference=reference.get(),
            confirmation_id=confirmation_id,
            request_id=write.call.request_id,  # by default the confirmation's id is the key
            watch=write.call.watch,
        )
        ran = self._engine.write(
            admitted,
            spend=lambda connection: self._confirmations.spend(connection, asked, run_id),
            recheck=lambda world: _recheck(write, asked, world),
            respend=lambda connection: self._confirmations.respend(connection, asked, run_id),
            record=lambda connection, ran: self._record(connection, write, asked, ran),
        )
        if ran.kept:
            return self._kept(write, ran)
        if ran.run_id is None:  # refused before there was a run that could be recorded
            return self._refused(write.principal, write.call, write.flow, _refusal(ran))
        if ran.status is Status.REFUSED and ran.code in SPENT_BY_ANOTHER:
            # It lost a race for its confirmation: answered as if it had come after the one that won.
            stands = self._present(write)
            return _refusing(stands if isinstance(stands, Refusal) else _refusal(ran))
        if _is_outdated(ran):
            return _refusing(replace(_refusal(ran), confirm_via=refusals.VIA, run_id=ran.run_id))
        return replace(_outcome(ran), unconfirmed=asked.unconfirmed)

    def _record(self, connection: Connection, write: Write, asked: Asked, ran: Ran) -> None:
        if _is_outdated(ran):
            self._confirmations.withdraw(connection, asked)
        row = self._audit.row(
            f"call.{ran.status}",
            caller=write.principal.caller,
            flow_id=write.flow.id,
            run_id=ran.run_id,
            confirmation_id=asked.waiting.confirmation_id,
            code=ran.code,
            detail={"tool": write.call.tool, "unconfirmed": asked.unconfirmed},
        )
        self._audit.write(connection, row)

    def _record_reaped(self, connection: Connection, reaped: RunRecord) -> None:
        row = self._audit.row(
            f"call.{reaped.status}",
            surface=reaped.surface,
            operator_id=reaped.operator_id,
            client_id=reaped.client_id,
            grant_id=reaped.grant_id,
            flow_id=reaped.flow_id,
            run_id=reaped.id,
            confirmation_id=reaped.confirmation_id,
            code=reaped.code,
        )
        self._audit.write(connection, row)

    def _kept(self, write: Write, ran: Ran) -> Envelope:
        """Answer with a run that took place before this call: by its requestId, else as what its token paid for."""
        call = write.call
        if call.request_id is None and ran.status is not Status.RUNNING:
            return self._refused(write.principal, call, write.flow, refusals.spent(ran.run_id, ran.status))
        self._note(write.principal, call, write.flow, event="call.replayed", run_id=ran.run_id, code=ran.status.value)
        unconfirmed = ran.run_id is not None and self._confirmations.was_unconfirmed(ran.run_id)
        return replace(_outcome(ran), replayed=call.request_id is not None, unconfirmed=unconfirmed)

    def _parsed(self, principal: Principal, call: Call, flow: Flow) -> Arguments:
        try:
            _check_request_id(call.request_id)
            return parse_arguments(flow, call.arguments)
        except InvalidArguments as error:
            self._note(principal, call, flow, code=error.code)
            raise

    def _waits(self, principal: Principal, call: Call, flow: Flow, asked: Asked, *, if_pending: Status) -> Envelope:
        status = Status.CONFIRMATION_APPROVED if asked.state is State.APPROVED else if_pending
        confirmation_id = asked.waiting.confirmation_id
        self._note(principal, call, flow, event="call.waiting", code=status.value, confirmation_id=confirmation_id)
        return Envelope(status, waiting=asked.waiting, unconfirmed=asked.unconfirmed, tool=flow.tool_name)

    def _ended(self, principal: Principal, call: Call, flow: Flow, refusal: Refusal) -> Envelope:
        """Answer the question how an ended confirmation stands: by the outcome of its run, if it had one."""
        run_id, outcome = refusal.run_id, refusal.outcome
        if run_id is None or outcome is None or outcome.is_error:
            return self._refused(principal, call, flow, refusal)
        self._note(principal, call, flow, event="call.told", run_id=run_id, code=outcome.value)
        return Envelope(outcome, run_id=run_id, unconfirmed=self._confirmations.was_unconfirmed(run_id))

    def _refused(self, principal: Principal, call: Call, flow: Flow | None, refusal: Refusal) -> Envelope:
        self._note(principal, call, flow, code=refusal.code)
        return _refusing(refusal)

    def _note(
        self, principal: Principal, call: Call, flow: Flow | None, *, event: str = "call.refused", **fields: Any
    ) -> None:
        """Write the audit event of a call that runs nothing."""
        flow_id = flow.id if flow else None  # an unknown one is whatever the caller wrote
        row = self._audit.row(event, caller=principal.caller, flow_id=flow_id, detail={"tool": call.tool}, **fields)
        with self._database.write() as connection:
            self._audit.write(connection, row)


def _recheck(write: Write, asked: Asked, world: World) -> None:
    """Raise ConfirmationChanged unless the call would still do what the approved sentence says (design D4)."""
    try:
        summary = sentence(write.flow, write.arguments.params, facts_in(world, write.flow, write.arguments))
    except (FlowError, SentenceUnfilled) as error:
        raise ConfirmationChanged(detail=error.code) from None
    if summary != asked.waiting.summary:
        raise ConfirmationChanged


def _is_outdated(ran: Ran) -> bool:
    return ran.status is Status.REFUSED and ran.code == ConfirmationChanged.code


def _outcome(ran: Ran) -> Envelope:
    refusal = _refusal(ran) if ran.code else None
    return Envelope(ran.status, run_id=ran.run_id, result=ran.result, refusal=refusal, contents=ran.contents)


def _refusing(refusal: Refusal) -> Envelope:
    return Envelope(Status.REFUSED, run_id=refusal.run_id, refusal=refusal)


def _refusal(ran: Ran) -> Refusal:
    return Refusal(ran.code or ran.status.value, ran.message or "")


def _check_request_id(request_id: str | None) -> None:
    if request_id is None:
        return
    if not 1 <= len(request_id) <= LONGEST_REQUEST_ID or not request_id.isprintable():
        raise InvalidArguments(f"requestId must have 1 to {LONGEST_REQUEST_ID} printable characters.")


def open_door(
    *,
    registry: Registry,
    scopes: Scopes,
    confirmations: Confirmations,
    audit: Audit,
    database: Database,
    settings: Settings,
    ids: Ids,
    clock: Clock,
    writer: TraceWriter,
    outbox: Outbox,
    at: Callable[[str], None],
) -> Door:
    """Give the door with the one engine behind it; `at` is told each named point of a write run."""
    return Door(
        registry=registry,
        scopes=scopes,
        engine=Engine(database=database, ids=ids, clock=clock, traces=writer, outbox=outbox, settings=settings, at=at),
        confirmations=confirmations,
        audit=audit,
        database=database,
        settings=settings,
        ids=ids,
    )
