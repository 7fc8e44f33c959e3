"""Confirmed writes: one human decision for exactly one call, spent once (design D4)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import Conflict, Forbidden, NotFound, ProofFailed
from core.ids import Ids
from core.settings import Settings
from flows.arguments import Arguments, held_arguments
from flows.caller import Caller, Role
from flows.envelope import Refusal, Waiting
from flows.operation import Flow, Rule
from flows.registry import Registry
from policy import refusals, stored
from policy.approval import Approver, Proof, ProofKind
from policy.audit import Audit
from policy.principal import Principal
from policy.refusals import PHRASE, AlreadyDecided, ConfirmationExpired, ConfirmationSpent, NotYours
from policy.stored import OPEN, State, Stored
from policy.view import ConfirmationView, RanBefore, view_of
from policy.words import NOTE_LIMIT, REASON_LIMIT, kept

MOST_OPEN = 10
DENIED_FOR = timedelta(minutes=10)
RAN_BEFORE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Asked:
    """An open question: what its agent may know, how it stands, and what a run of it is checked against."""

    waiting: Waiting
    state: State  # pending | approved
    flow_version: int
    digest: str
    unconfirmed: bool  # rule `client` decided, no person did


@dataclass(frozen=True, slots=True)
class HeldCall:
    """The call that a token was given for."""

    flow_id: str
    arguments: dict[str, Any]


class Confirmations:
    """Opens, shows, decides and spends confirmations; a bearer token can ask and spend, only a person decides."""

    def __init__(
        self, *, database: Database, ids: Ids, clock: Clock, settings: Settings, audit: Audit, registry: Registry
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._settings = settings
        self._audit = audit
        self._registry = registry

    # What an agent asks

    def ask(
        self,
        principal: Principal,
        flow: Flow,
        arguments: Arguments,
        *,
        summary: str,
        reason: str | None,
        rule: Rule,
        go_live: bool = False,
    ) -> Asked | Refusal:
        """Open the one confirmation of this call, or join it, and mint a token for it.

        `go_live` is `action_confirm`: under rule CLIENT the client's own question counts, and the token lives at once.
        """
        caller = principal.caller
        with self._database.write() as connection:
            stored.one_at_a_time(connection, caller.grant_id)
            found = self._join(connection, caller, flow, arguments.digest, rule=rule, summary=summary)
            if found is None:
                found = self._open(connection, caller, flow, arguments, summary=summary, reason=reason, rule=rule)
            if isinstance(found, Refusal):
                return found
            if reason and stored.add_reason(connection, found.id, kept(reason, REASON_LIMIT)):
                self._record(connection, "explained", found, caller=caller)
            return self._asked(connection, caller, found, go_live=go_live)

    def present(
        self,
        principal: Principal,
        flow: Flow,
        arguments: Arguments,
        *,
        token: str | None,
        phrase: str | None,
        rule: Rule,
    ) -> Asked | Refusal:
        """Say how the confirmation of a presented token stands; only `approved` may go on to be spent."""
        if token is None:
            return refusals.missing()
        if phrase != PHRASE:
            return refusals.wrong_phrase()
        with self._database.read() as connection:
            found = stored.find_by_token(connection, principal.caller, token)
            if found is None or not found.covers(flow, arguments.digest, rule):
                return refusals.mismatch()
            ended = self._ended(connection, found)
        return self._refused(found, ended) if ended else self._open_as(found, token)

    def call_of(self, principal: Principal, token: str, phrase: str | None) -> HeldCall | Refusal:
        """Give the call that a token was given for while it can still run, so that arguments are written once."""
        if phrase != PHRASE:
            return refusals.wrong_phrase()
        with self._database.read() as connection:
            found = stored.find_by_token(connection, principal.caller, token)
            if found is None:
                return refusals.mismatch()
            ended = self._ended(connection, found)
        if ended or found.arguments is None:
            return self._refused(found, ended or refusals.expired())
        return HeldCall(found.flow_id, held_arguments(found.arguments))

    def flow_of(self, principal: Principal, confirmation_id: str) -> str | Refusal:
        """Give the flow id of this principal's own confirmation; any other is unknown."""
        with self._database.read() as connection:
            found = stored.find_of(connection, principal.caller, confirmation_id)
        return found.flow_id if found else refusals.mismatch()

    def status(self, principal: Principal, confirmation_id: str, rule: Rule) -> Asked | Refusal:
        """Say how this principal's own confirmation stands and mint a token; under rule CLIENT make it live."""
        caller = principal.caller
        with self._database.write() as connection:
            stored.one_at_a_time(connection, caller.grant_id)
            found = stored.find_of(connection, caller, confirmation_id)
            if found is None:
                return refusals.mismatch()
            ended = self._ended(connection, found)
            if ended is None and found.rule == rule:
                return self._asked(connection, caller, found, go_live=True)
        return self._refused(found, ended or refusals.expired())

    def was_unconfirmed(self, run_id: str) -> bool:
        """Tell whether no person confirmed what this run did (rule `client`)."""
        with self._database.read() as connection:
            found = stored.find_of_run(connection, run_id)
        return found is not None and found.unconfirmed

    # What a run does

    def spend(self, connection: Connection, asked: Asked, run_id: str) -> None:
        """Spend it in the run's own transaction; raise ConfirmationSpent or ConfirmationExpired and spend nothing."""
        now = self._now()
        conditions = stored.spendable(asked.flow_version, asked.digest, now)
        confirmation_id = asked.waiting.confirmation_id
        if not stored.mark_spent(connection, confirmation_id, run_id, now, conditions):
            found = stored.find(connection, confirmation_id)
            raise ConfirmationSpent if found and found.used_at is not None else ConfirmationExpired

    def respend(self, connection: Connection, asked: Asked, run_id: str) -> None:
        """Spend it again beside the failure of its run, whose rollback took the first spend with it.

        Its time may be over by now: the run began in time. Nothing is changed when another run has spent it.
        """
        stored.mark_spent(connection, asked.waiting.confirmation_id, run_id, self._now())

    def withdraw(self, connection: Connection, asked: Asked) -> None:
        """End an approval that no longer fits what the call would do, so that the next call asks anew."""
        stored.withdraw(connection, asked.waiting.confirmation_id, State.APPROVED)

    # What a person does

    def decide(
        self, confirmation_id: str, approver: Approver, *, approve: bool, note: str | None, proof: Proof | None
    ) -> None:
        """Approve or deny, once.

        Raises NotFound, NotYours, Forbidden, ProofFailed, AlreadyDecided or ConfirmationExpired; then nothing changed.
        Approving needs a proof of this person; a denial can only take away and needs none.
        """
        found = self._get_of(approver, confirmation_id)
        if approver.role is Role.VIEWER:
            raise Forbidden("Your role sees, it doesn't decide.")
        if approve or proof is not None:
            self._check_proof(approver, proof)
        with self._database.write() as connection:
            now = self._now()
            until = self._approved_until() if approve else None
            by, said = approver.operator_id, kept(note, NOTE_LIMIT)
            stale = self._state(found) is State.EXPIRED
            if stale or not stored.mark_decided(connection, found, now, approved_until=until, decided_by=by, note=said):
                raise self._why_not(stored.find(connection, confirmation_id) or found)
            shown_by = proof.kind.value if proof else "none needed"
            self._record(connection, "approved" if approve else "denied", found, proof=shown_by)

    def view(self, confirmation_id: str, approver: Approver) -> ConfirmationView:
        """Show one confirmation to the person who decides on it; raise NotFound or NotYours."""
        found = self._get_of(approver, confirmation_id)
        since = to_us(self._clock.now() - RAN_BEFORE)
        with self._database.read() as connection:
            ran = stored.find_ran_before(connection, found, since) if found.state == State.PENDING else None
        ran_before = RanBefore(ran[0], from_us(ran[1])) if ran else None
        return view_of(found, self._state(found), self._flow(found), ran_before)

    def waiting(self, approver: Approver) -> list[ConfirmationView]:
        """Show what waits for this person's decision, oldest first."""
        with self._database.read() as connection:
            found = stored.waiting_for(connection, approver.operator_id, self._now())
        views = [view_of(one, self._state(one), self._flow(one), None) for one in found]
        return [view for view in views if view.state is State.PENDING]

    def end_overdue(self) -> int:
        """Move every confirmation whose time is over to expired and erase its arguments; say how many."""
        with self._database.write() as connection:
            return stored.end_overdue(connection, self._now())

    # Parts of these

    def _join(
        self, connection: Connection, caller: Caller, flow: Flow, digest: str, *, rule: Rule, summary: str
    ) -> Stored | Refusal | None:
        stored.end_overdue_of(connection, caller.grant_id, self._now())
        key = stored.open_key(caller, flow, digest, rule)
        found = stored.find_open(connection, key)
        if found is not None and found.state == State.PENDING and found.summary != summary:
            stored.withdraw(connection, found.id, State.PENDING)  # nobody approves what isn't so any more
            found = stored.find_open(connection, key)  # one that was approved at this very moment
        if found is not None:
            return found
        since = to_us(self._clock.now() - DENIED_FOR)
        denial = stored.find_denied(connection, caller, flow, digest, since)
        if denial is not None:
            return refusals.denied(denial.note)
        if stored.count_open(connection, caller.grant_id) >= MOST_OPEN:
            return refusals.too_many(MOST_OPEN)
        return None

    def _open(
        self,
        connection: Connection,
        caller: Caller,
        flow: Flow,
        arguments: Arguments,
        *,
        summary: str,
        reason: str | None,
        rule: Rule,
    ) -> Stored:
        now = self._clock.now()
        key = stored.open_key(caller, flow, arguments.digest, rule)
        row = {
            "id": self._ids.new("cf"),
            "open_key": key,
            "state": State.PENDING,
            "rule": rule,
            "operator_id": caller.operator_id,
            "client_id": caller.client_id,
            "grant_id": caller.grant_id,
            "flow_id": flow.id,
            "flow_version": flow.version,
            "digest": arguments.digest,
            "arguments": arguments.canonical.decode(),
            "summary": summary,
            "reason": kept(reason, REASON_LIMIT),
            "created_at": to_us(now),
            "expires_at": to_us(now + self._settings.lifetimes.confirmation_undecided),
        }
        stored.insert_unless_open(connection, row)
        found = stored.find_open(connection, key)
        if found is None:
            raise Conflict
        if found.id == row["id"]:
            self._record(connection, "opened", found, caller=caller)
        return found

    def _asked(self, connection: Connection, caller: Caller, found: Stored, *, go_live: bool) -> Asked:
        if go_live and found.rule == Rule.CLIENT and found.state == State.PENDING:
            found = self._make_live(connection, caller, found)
        token = self._ids.token("cs_ct")
        stored.keep_token(connection, found.id, token, self._now())
        return self._open_as(found, token)

    def _make_live(self, connection: Connection, caller: Caller, found: Stored) -> Stored:
        now, until = self._now(), self._approved_until()
        if stored.mark_decided(connection, found, now, approved_until=until, decided_by=None, note=None):
            self._record(connection, "approved", found, caller=caller, unconfirmed=True)
        decided = stored.find(connection, found.id)
        if decided is None or decided.state != State.APPROVED:
            raise Conflict  # its person said no at this very moment
        return decided

    def _open_as(self, found: Stored, token: str) -> Asked:
        url = f"{self._settings.base_url}/confirmations/{found.id}"
        waiting = Waiting(found.id, url, token, from_us(found.expires_at), found.summary)
        return Asked(waiting, State(found.state), found.flow_version, found.digest, found.unconfirmed)

    def _ended(self, connection: Connection, found: Stored) -> Refusal | None:
        state = self._state(found)
        if state is State.DENIED:
            return refusals.denied(found.note)
        if state is State.SPENT:
            return refusals.spent(found.run_id, stored.outcome_of(connection, found.run_id))
        return refusals.expired() if state is State.EXPIRED else None

    def _refused(self, found: Stored, refusal: Refusal) -> Refusal:
        """Give the refusal, having written down that the time is over, so that no arguments are kept."""
        if found.state in OPEN:
            with self._database.write() as connection:
                stored.mark_expired(connection, found.id, self._now())
        return refusal

    def _get_of(self, approver: Approver, confirmation_id: str) -> Stored:
        with self._database.read() as connection:
            found = stored.find(connection, confirmation_id)
        if found is None:
            raise NotFound
        if found.operator_id != approver.operator_id:
            raise NotYours
        return found

    def _check_proof(self, approver: Approver, proof: Proof | None) -> None:
        if proof is None or proof.operator_id != approver.operator_id:
            raise ProofFailed
        age = self._clock.now() - proof.at
        if not timedelta(0) <= age <= self._settings.lifetimes.fresh_sign_in:
            raise ProofFailed
        if proof.kind is ProofKind.FRESH_SIGN_IN and not self._settings.cookie_alone_decides:
            raise ProofFailed

    def _why_not(self, found: Stored) -> AlreadyDecided | ConfirmationExpired:
        state = self._state(found)
        return ConfirmationExpired() if state is State.EXPIRED else AlreadyDecided(state)

    def _state(self, found: Stored) -> State:
        """Give the state that counts now; a call of a flow that has changed since can't run, so its time is over."""
        state = found.state_at(self._now())
        return State.EXPIRED if state in OPEN and self._flow(found) is None else state

    def _flow(self, found: Stored) -> Flow | None:
        flow = self._registry.find(found.flow_id)
        return flow if flow is not None and flow.version == found.flow_version else None

    def _approved_until(self) -> int:
        return to_us(self._clock.now() + self._settings.lifetimes.confirmation_approved)

    def _now(self) -> int:
        return to_us(self._clock.now())

    def _record(
        self, connection: Connection, what: str, found: Stored, *, caller: Caller | None = None, **detail: object
    ) -> None:
        """Write the audit event; without a caller it is the doing of the operator at the console."""
        row = self._audit.row(f"confirmation.{what}", caller=caller, detail=detail, **_columns(found))
        self._audit.write(connection, row)


def _columns(found: Stored) -> dict[str, str]:
    return {
        "operator_id": found.operator_id,
        "client_id": found.client_id,
        "grant_id": found.grant_id,
        "flow_id": found.flow_id,
        "confirmation_id": found.id,
    }
