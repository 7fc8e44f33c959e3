"""What came of a call, in words for a model and data for a program (design D4, D9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from core.clock import iso
from core.logs import reference
from flows.content import Content
from flows.envelope import Envelope, Refusal, Status, Waiting
from mcp_provider.contents import content_item, text_item
from mcp_provider.shapes import STRUCTURED_SINCE

TEACHING = (
    "NOT executed yet. Ask the person to open {url} and approve: {summary}. After that call {tool} again with the same "
    'arguments, confirmToken and confirmation="CONFIRM".'
)
APPROVED = (
    "Approved, NOT executed yet. To run it, call {tool} again with the same arguments, confirmToken and "
    'confirmation="CONFIRM".'
)
SENTENCES = {
    Status.DONE: "Done.",
    Status.RUNNING: "Running, not done yet. Don't call it again; traces_get tells how it ends.",
    Status.FAILED: "Failed. Nothing was changed.",
    Status.REFUSED: "Refused. Nothing was changed.",
    Status.INTERRUPTED: "Interrupted. Nothing was changed.",
    Status.UNKNOWN: "It is not known whether this was done. Don't repeat it; traces_get tells how to find out.",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The parts of a CallToolResult; `structured` is JSON already written."""

    texts: tuple[str, ...]
    structured: bytes | None
    is_error: bool
    contents: tuple[Content, ...] = ()

    def members(self, version: str) -> dict[str, Any]:
        """Give the result's members as a revision knows them; those before 2025-06-18 know no structured content."""
        items = [content_item(content, version) for content in self.contents]
        members: dict[str, Any] = {"content": [*map(text_item, self.texts), *items]}
        if self.structured is not None and version >= STRUCTURED_SINCE:
            members["structuredContent"] = orjson.Fragment(self.structured)
        members["isError"] = self.is_error
        return members


def read_result(envelope: Envelope) -> ToolResult:
    """Give the answer of a read tool: its flow's result itself, or the sentence and the facts of its refusal."""
    if envelope.status is Status.DONE:
        data = orjson.dumps(envelope.result or {})
        return ToolResult((data.decode(),), data, is_error=False, contents=envelope.contents)
    # No structured content: it would have to be a result of the flow. The code goes into a text of its own.
    refusal = envelope.refusal or Refusal(envelope.status, SENTENCES[envelope.status])
    facts = orjson.dumps(_refusal_members(refusal)).decode()
    return ToolResult((_sentence(envelope), facts), None, is_error=True)


def write_result(envelope: Envelope, tool: str) -> ToolResult:
    """Give the answer of a write tool: the outcome object in every case, taught in one text before it."""
    data = orjson.dumps(_outcome_members(envelope))
    text = _teaching(envelope, envelope.waiting, tool) if envelope.waiting else _sentence(envelope)
    return ToolResult((text, data.decode()), data, is_error=envelope.status.is_error, contents=envelope.contents)


def refusal_data(refusal: Refusal) -> dict[str, Any]:
    """Give a refusal as the `data` of a JSON-RPC error."""
    members = {
        "code": refusal.code,
        "message": refusal.message,
        "rule": refusal.rule,
        "missingScopes": list(refusal.missing_scopes) or None,
        "remedy": refusal.remedy,
        "grantUrl": refusal.grant_url,
        "confirmVia": refusal.confirm_via,
        "runId": refusal.run_id,
        "outcome": refusal.outcome,
    }
    return _present(members)


def _teaching(envelope: Envelope, waiting: Waiting, tool: str) -> str:
    form = APPROVED if envelope.status is Status.CONFIRMATION_APPROVED else TEACHING
    return form.format(url=waiting.confirm_url, summary=waiting.summary.rstrip("."), tool=tool)


def _sentence(envelope: Envelope) -> str:
    refusal = envelope.refusal
    words = SENTENCES.get(envelope.status, "") if refusal is None else _refusal_sentence(refusal)
    if envelope.replayed:
        words = f"{words} This is the answer of the earlier call with the same requestId; nothing ran now."
    if envelope.unconfirmed:
        words = f"{words} It was not confirmed by a person."
    return words


def _refusal_sentence(refusal: Refusal) -> str:
    # What a spent token paid for stands first in the message already (policy/refusals.py).
    words = (refusal.message, refusal.remedy, f"grantUrl: {refusal.grant_url}" if refusal.grant_url else None)
    return " ".join(word for word in words if word)


def _outcome_members(envelope: Envelope) -> dict[str, Any]:
    refusal = envelope.refusal
    members: dict[str, Any] = {
        "status": envelope.status,
        # A spent token paid for another run than this call, which made none.
        "runId": envelope.run_id or (refusal.run_id if refusal else None),
        "outcome": refusal.outcome if refusal else None,
        "result": envelope.result,
        **(_waiting_members(envelope.waiting) if envelope.waiting else {}),
        "unconfirmed": envelope.unconfirmed or None,
        "replayed": envelope.replayed or None,
        "refusal": _refusal_members(refusal) if refusal else None,
    }
    return _present(members)


def _waiting_members(waiting: Waiting) -> dict[str, Any]:
    return {
        "confirmationId": waiting.confirmation_id,
        "confirmUrl": waiting.confirm_url,
        "confirmToken": waiting.confirm_token,
        "confirmVia": "action_confirm",
        "expiresAt": iso(waiting.expires_at),
        "summary": waiting.summary,
    }


def _refusal_members(refusal: Refusal) -> dict[str, Any]:
    return _present({**refusal_data(refusal), "reference": reference.get()})


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
