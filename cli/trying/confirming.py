"""A call that a person has to confirm: say what and where, wait for the answer, call again with the token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.client import Client
from mcp_types import CallToolResult, Tool

from cli.trying.arguments import properties
from cli.trying.refusals import NotConfirmed
from cli.trying.session import call
from cli.trying.sign_in import Say
from cli.trying.text import line

ASKED = frozenset({"confirmation_required", "confirmation_pending"})
APPROVED = "confirmation_approved"
FOR_GOOD = frozenset({"confirmation_denied", "confirmation_expired"})
STATUS_TOOL, PHRASE = "action_confirm", "CONFIRM"
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.5, 5.0, 1.3
SECONDS_TO_CONFIRM = 3600.0


@dataclass(frozen=True, slots=True)
class Question:
    """A confirmation, as the server tells its agent of it."""

    status: str
    confirmation_id: str
    token: str
    url: str
    summary: str


def question_in(result: CallToolResult) -> Question | None:
    """Give the confirmation that a call waits for; None for any other answer."""
    data = result.structured_content
    if result.is_error or not isinstance(data, dict) or data.get("status") not in ASKED | {APPROVED}:
        return None
    fields = [data.get(name) for name in ("status", "confirmationId", "confirmToken", "confirmUrl", "summary")]
    texts = [field for field in fields if isinstance(field, str)]
    return Question(*texts) if len(texts) == len(fields) else None


def can_confirm(tool: Tool, tools: Sequence[Tool]) -> bool:
    """Tell whether calls of `tool` are confirmed as Countersign does it; any other server's are left alone."""
    status = next((one for one in tools if one.name == STATUS_TOOL), None)
    asks = status is not None and "confirmationId" in properties(status.input_schema)
    return asks and {"confirmToken", "confirmation"} <= properties(tool.input_schema).keys()


async def call_confirmed(client: Client, tool: str, arguments: dict[str, Any], say: Say) -> CallToolResult:
    """Call, wait for the person where one has to confirm, and call again; raise NotConfirmed."""
    result = await call(client, tool, arguments)
    asked = question_in(result)
    if asked is None:
        return result
    answered = await _answer(client, asked, say)
    if isinstance(answered, CallToolResult):
        return answered
    say("Approved." if asked.status != APPROVED else f"Approved already: {line(asked.summary, 400)}")
    proof = {"confirmToken": answered, "confirmation": PHRASE}
    return await call(client, tool, arguments | proof)


async def _answer(client: Client, asked: Question, say: Say) -> str | CallToolResult:
    """Give the token that is good now, or the server's last word when it's neither a yes nor a no of a person."""
    if asked.status == APPROVED:
        return asked.token
    say("A person has to confirm this; nothing is done yet:")
    say(f"\n    {line(asked.summary, 400)}\n    {line(asked.url, 400)}\n")
    say("Waiting for the approval. Ctrl-C stops waiting.")
    decided = False
    try:
        with anyio.fail_after(SECONDS_TO_CONFIRM):
            last = await _poll(client, asked)
        decided = True
    except TimeoutError:
        raise NotConfirmed("Nobody decided within an hour. Nothing was done.") from None
    finally:
        if not decided:
            say(f"Nothing is done yet. Approve at {line(asked.url, 400)} and give the same command again: it goes on.")
    question = question_in(last)
    if question is not None:
        return question.token
    if (refused := _refused(last)) is not None:
        raise NotConfirmed(refused)
    return last


async def _poll(client: Client, asked: Question) -> CallToolResult:
    pause = FIRST_PAUSE
    while True:
        await anyio.sleep(pause)
        pause = min(LONGEST_PAUSE, pause * GROWTH)
        last = await call(client, STATUS_TOOL, {"confirmationId": asked.confirmation_id})
        question = question_in(last)
        if question is None or question.status not in ASKED:
            return last


def _refused(result: CallToolResult) -> str | None:
    """Give the sentence of a person's no or of a time that ran out; None for any other answer."""
    data = result.structured_content or {}
    refusal = data.get("refusal")
    if not isinstance(refusal, dict) or refusal.get("code") not in FOR_GOOD:
        return None
    return line(f"{refusal['code']}: {refusal.get('message', '')}", 600)


def exit_code_of(result: CallToolResult) -> int:
    """Give the exit status that tells a script how the call ended."""
    if _refused(result) is not None or question_in(result) is not None:
        return NotConfirmed.exit_code
    return 1 if result.is_error else 0
