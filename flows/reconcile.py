"""What to say of a run around whose call the server stopped: whether the outside acted isn't known (design D5)."""

from collections.abc import Iterable

from flows.effects import Verb
from flows.envelope import Status
from flows.operation import Flow
from flows.steps import CallStep
from flows.trace import RunRecord

RESTORED = "restored"  # the code of a run that was running in the backup which was restored
RESTORED_WORDS = (
    "A backup was restored that was made while this ran. The database is as it was then; whether anything left for the "
    "outside since isn't known."
)
REAPED = "The server stopped around a call to the outside. Whether that took place isn't known; don't repeat it."
DECLINED_THEN_STOPPED = (
    "The call to the outside was declined, and what followed was stopped. What was done before the call has stayed; "
    "the reference finds the reason in the log."
)
AFTERWARDS = (
    "What this run did before the call has stayed. If the call took place, complete by hand what should have followed; "
    "if it didn't, undo what stayed or ask again, which needs a new confirmation."
)


def may_have_acted(calls: Iterable[CallStep]) -> str:
    """Give the one sentence that an agent gets."""
    told = ", ".join(f"{call.target} (key {call.key}: {call.answer})" for call in calls) or "an outside call"
    return f"This ended around {told}. What followed was not done; don't repeat it. traces_get says how to reconcile."


def how_to_reconcile(run: RunRecord, flow: Flow | None) -> str | None:
    """Say what a person does about an unknown run; None for every other. `run` is one with its steps."""
    if run.status != Status.UNKNOWN:
        return None
    if run.code == RESTORED:
        return RESTORED_WORDS
    advice = {effect.target: effect.reconcile for effect in flow.effects if effect.verb is Verb.CALL} if flow else {}
    calls = [step for step in run.steps if step.verb == Verb.CALL]
    told = [f"Look at {step.target}: {step.detail}. {advice.get(step.target, '')}".strip() for step in calls]
    return " ".join([*told, AFTERWARDS])
