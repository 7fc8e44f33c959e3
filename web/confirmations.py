"""The pages on which a person decides about one call, and sees what came of it."""

from dataclasses import dataclass, replace

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from auth.proofs import Proofs
from auth.sessions import Sessions, see_other
from core.clock import iso
from core.errors import AppError, NotFound, ProofFailed, TooMany
from core.http import json_answer
from core.settings import Settings
from flows.envelope import Status
from flows.trace import RunRecord, Traces
from policy.confirmations import Confirmations
from policy.refusals import AlreadyDecided, ConfirmationExpired, NotYours
from policy.stored import State
from policy.view import ConfirmationView
from policy.words import NOTE_LIMIT
from web import words
from web.clients import ClientNames
from web.rendering import Pages

STATES = {
    State.PENDING: words.Said("Waits for you", "act"),
    State.APPROVED: words.Said("Approved", "act"),
    State.DENIED: words.Said("Denied", "gone"),
    State.EXPIRED: words.Said("Expired", "quiet"),
    State.SPENT: words.Said("Approved and used", "quiet"),
}
DECISIONS = {"approve": True, "deny": False}
SAME = {True: (State.APPROVED, State.SPENT), False: (State.DENIED,)}
CANT_SHOW = "The application has changed since this was asked, so it can’t be shown in full and can’t be approved."


@dataclass(frozen=True, slots=True)
class Answer:
    """What the form brought, and what is wrong with it."""

    note: str = ""
    note_fault: str | None = None
    password_fault: str | None = None
    fault: str | None = None

    @property
    def faults(self) -> list[tuple[str | None, str]]:
        """Every fault with the field that it is about."""
        found = [("note", self.note_fault), ("password", self.password_fault), (None, self.fault)]
        return [(field, sentence) for field, sentence in found if sentence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Shows confirmations to the signed-in person and takes their decisions: a form of this session, and a proof."""

    pages: Pages
    sessions: Sessions
    proofs: Proofs
    confirmations: Confirmations
    traces: Traces
    clients: ClientNames
    settings: Settings

    def show(self, confirmation_id: str) -> ResponseReturnValue:
        """Show one confirmation; looking at it has no effect."""
        return self._page(self._seen(confirmation_id), Answer())

    def status(self, confirmation_id: str) -> ResponseReturnValue:
        """Say as JSON how it stands, for the page that waits for the outcome."""
        view = self._seen(confirmation_id)
        stands = _stands(view, self._run(view))
        return json_answer({"stands": stands, "expiresAt": iso(view.expires_at), "runId": view.run_id})

    def decide(self, confirmation_id: str) -> ResponseReturnValue:
        """Take the decision of the form; whatever is wrong with it decides nothing and keeps the note."""
        view = self._seen(confirmation_id)
        answer, chosen = _answer(), request.form.getlist("decision")
        if len(chosen) != 1 or chosen[0] not in DECISIONS:
            return self._page(view, replace(answer, fault="Press Approve or Deny."), status=400)
        approve = DECISIONS[chosen[0]]
        if view.state is not State.PENDING:
            return self._came_late(view, answer, approve=approve)
        if approve and not _shown_whole(view):
            return self._page(view, replace(answer, fault=CANT_SHOW), status=409)
        if answer.faults:
            return self._page(view, answer, status=400)
        return self._decided(view, answer, approve=approve)

    def not_yours(self, _error: AppError) -> Response:
        """Answer for another's confirmation and for none alike, so that nobody learns which exist."""
        if request.path.endswith("/status"):
            return json_answer({"error": NotYours.code}, status=NotYours.status)
        return self.pages.page("console/not_yours.html", nav="", status=NotYours.status)

    def _decided(self, view: ConfirmationView, answer: Answer, *, approve: bool) -> ResponseReturnValue:
        reader = self.sessions.get()
        approver = self.sessions.approver(reader)
        try:
            proof = self.proofs.check(reader, request.form.get("password")) if approve else None
            self.confirmations.decide(view.id, approver, approve=approve, note=answer.note or None, proof=proof)
        except (ProofFailed, TooMany) as error:
            faulty = replace(answer, password_fault=error.public)
            return self.pages.refused(error, self._page(view, faulty, status=error.status))
        except (AlreadyDecided, ConfirmationExpired):
            return self._came_late(self._seen(view.id), answer, approve=approve)
        return see_other(f"/confirmations/{view.id}")

    def _came_late(self, view: ConfirmationView, answer: Answer, *, approve: bool) -> ResponseReturnValue:
        # A double click finds what its first half decided; that is no fault.
        if view.state in SAME[approve]:
            return see_other(f"/confirmations/{view.id}")
        return self._page(view, replace(answer, fault=_too_late(view)), status=409)

    def _seen(self, confirmation_id: str) -> ConfirmationView:
        return self.confirmations.view(confirmation_id, self.sessions.approver(self.sessions.get()))

    def _run(self, view: ConfirmationView) -> RunRecord | None:
        if view.run_id is None:
            return None
        try:
            return self.traces.get(view.run_id, self.sessions.principal(self.sessions.get()).caller)
        except NotFound:
            return None

    def _page(self, view: ConfirmationView, answer: Answer, *, status: int = 200) -> Response:
        reader, run = self.sessions.get(), self._run(view)
        return self.pages.page(
            "console/confirmation.html",
            nav="",
            status=status,
            view=view,
            said=words.status(run.status) if run is not None else STATES[view.state],
            stands=_stands(view, run),
            watched=_changes_by_itself(view, run),
            run=run,
            client=self.clients.of_grant(reader.operator_id, view.client_id, view.grant_id),
            answer=answer,
            cant_show=None if _shown_whole(view) else CANT_SHOW,
            note_limit=NOTE_LIMIT,
            needs_password=self.proofs.needs_password(reader),
            minutes_to_run=int(self.settings.lifetimes.confirmation_approved.total_seconds() // 60),
        )


def confirmations_routes(
    *,
    pages: Pages,
    sessions: Sessions,
    proofs: Proofs,
    confirmations: Confirmations,
    traces: Traces,
    clients: ClientNames,
    settings: Settings,
) -> Blueprint:
    """Serve `/confirmations/<id>` and its `status`."""
    decisions = Decisions(
        pages=pages,
        sessions=sessions,
        proofs=proofs,
        confirmations=confirmations,
        traces=traces,
        clients=clients,
        settings=settings,
    )
    bp = Blueprint("confirmations", __name__, url_prefix="/confirmations")
    bp.get("/<confirmation_id>", endpoint="show")(sessions.required(decisions.show))
    bp.get("/<confirmation_id>/status", endpoint="status")(sessions.required(decisions.status))
    decide = sessions.required(sessions.csrf_checked(decisions.decide))
    bp.post("/<confirmation_id>", endpoint="decide")(decide)
    bp.errorhandler(NotYours)(decisions.not_yours)
    bp.errorhandler(NotFound)(decisions.not_yours)
    return bp


def _answer() -> Answer:
    note = request.form.get("note", "").replace("\r\n", "\n").strip()
    too_long = f"The note is longer than {NOTE_LIMIT} characters." if len(note) > NOTE_LIMIT else None
    return Answer(note=note, note_fault=too_long)


def _shown_whole(view: ConfirmationView) -> bool:
    # Nobody approves what the page can't show: the flow may have changed since the agent asked.
    return view.flow is not None and view.arguments is not None


def _too_late(view: ConfirmationView) -> str:
    if view.state is State.EXPIRED:
        return "The time to decide was over. Nothing happened."
    return f"This was decided before: {STATES[view.state].words.lower()}. Your click changed nothing."


def _stands(view: ConfirmationView, run: RunRecord | None) -> str:
    return f"{view.state}:{run.status}" if run is not None else str(view.state)


def _changes_by_itself(view: ConfirmationView, run: RunRecord | None) -> bool:
    return view.state in (State.PENDING, State.APPROVED) or (run is not None and run.status == Status.RUNNING)
