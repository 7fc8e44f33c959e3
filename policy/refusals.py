"""The refusals of a confirmed write, in words that tell an agent what to do next (design D4, D9)."""

from core.errors import AppError, Conflict, Forbidden
from flows.envelope import Refusal, Status

SENTENCE = "write tool requires fresh human confirmation"
VIA = "action_confirm"
PHRASE = "CONFIRM"
SETTLED = (Status.DONE, Status.RUNNING, Status.UNKNOWN)  # asking for these again could do them twice


class NotYours(Forbidden):
    """Another person's confirmation: nothing of it is told."""

    code = "not_yours"
    public = "This confirmation isn't yours to decide."
    remedy = "Let the person decide for whom the agent asked."


class AlreadyDecided(Conflict):
    """Somebody, perhaps another tab, was faster; `state` tells how it stands."""

    code = "already_decided"
    remedy = "Open the confirmation again: it shows how it stands."

    def __init__(self, state: str) -> None:
        super().__init__(f"This was decided before: it is {state}. Nothing was changed now.")
        self.state = state


class ConfirmationExpired(AppError):
    """Nobody decided, or nobody used the approval, in time."""

    code = "confirmation_expired"
    status = 410
    public = "The time for this confirmation is over."
    remedy = "Let the agent call again without confirmToken, which asks anew."


class ConfirmationSpent(Conflict):
    """The approval has paid for another run."""

    code = "confirmation_spent"
    public = "This confirmation was used by another run."
    remedy = "Look at the run that it paid for before asking again: it may have done what you want."


class ConfirmationChanged(Conflict):
    """The call would do something else by now than the sentence that was approved says."""

    code = "confirmation_changed"
    public = (
        f"{SENTENCE}: what was approved would do something else by now. "
        "Nothing was changed. Call without confirmToken to ask again."
    )
    remedy = "Call again without confirmToken: the person sees what it would do now."


def missing() -> Refusal:
    """The phrase came without a token."""
    return _refusal("missing", "the phrase is there, the confirmToken isn't.")


def wrong_phrase() -> Refusal:
    """The token came without the phrase."""
    return _refusal("phrase", f'send confirmation="{PHRASE}" with the confirmToken, once the person has approved.')


def mismatch() -> Refusal:
    """The token is unknown, another's, or for another call: all alike, so that nothing can be learnt."""
    return _refusal("mismatch", "this is not a confirmation of this call with these arguments.")


def expired() -> Refusal:
    """Too late."""
    return _refusal("expired", "the time for this one is over. Call without confirmToken to ask again.")


def denied(note: str | None) -> Refusal:
    """A person said no."""
    said = f" Their note: {note}" if note else ""
    return _refusal("denied", f"the person said no to this call. Don't ask again now.{said}")


def spent(run_id: str | None, outcome: Status | None) -> Refusal:
    """The token has paid for a run: say which, and how it ended, before anything else."""
    told = f"{run_id}: {outcome or 'outcome not kept'}."
    advice = " Don't ask again." if outcome in SETTLED else ""
    message = f"{told}{advice} This confirmation has run its one call; another {SENTENCE}."
    return Refusal("confirmation_spent", message, confirm_via=VIA, run_id=run_id, outcome=outcome)


def too_many(limit: int) -> Refusal:
    """This connection asks faster than its person decides."""
    message = f"{SENTENCE}: {limit} calls of this connection wait already. Let the person decide those first."
    return Refusal("too_many_confirmations", message, confirm_via=VIA)


def _refusal(code: str, why: str) -> Refusal:
    return Refusal(f"confirmation_{code}", f"{SENTENCE}: {why}", confirm_via=VIA)
