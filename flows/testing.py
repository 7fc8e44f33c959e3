"""For an application's own tests: an agent and its person in front of the Flask application (docs/flows.md, Testing).

They speak HTTP to it like any client: the program registers, the person signs in, consents and confirms on the pages.
"""

import queue
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import orjson
from flask import Flask

from core.mail import Mail
from flows.testing_person import Person

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call. `status` is the one a client sees; a read is `done` or `refused`."""

    agent: "Agent" = field(repr=False)
    tool: str
    arguments: Mapping[str, Any]
    status: str
    result: Mapping[str, Any]
    code: str | None = None
    message: str = ""
    run_id: str | None = None
    summary: str = ""
    confirm_url: str = ""
    confirm_token: str = field(default="", repr=False)

    def expect(self, status: str, *, code: str | None = None) -> "Outcome":
        """Give the outcome itself when it is as expected; fail with the whole of it otherwise."""
        if (self.status, self.code) != (status, code):
            wanted = status if code is None else f"{status} ({code})"
            raise AssertionError(f"expected {wanted}, but: {self}")
        return self

    @property
    def effects(self) -> frozenset[str]:
        """What the run really did, like `{"write:orders", "send:email"}`; of a read: its tool's newest run."""
        run_id = self.run_id or self.agent.newest_run(self.tool)
        steps = self.agent.call("traces_get", runId=run_id).expect("done").result["steps"]
        return frozenset(f"{step['verb']}:{step['target']}" for step in steps)


class Agent:
    """A connected agent, and the person whose rights it has."""

    def __init__(self, person: Person, token: str) -> None:
        self._person = person
        self._token = token
        self._ids = count(1)

    @classmethod
    def connect(cls, app: Flask, *, email: str, password: str, scopes: Iterable[str] | None = None) -> "Agent":
        """Sign the person in and connect an agent with `scopes` beside the read rights; None: with all that is offered.

        Raises AssertionError, with what the page says, when that isn't possible.
        """
        person = Person(app, email, password)
        person.sign_in()
        return cls(person, person.connect(scopes))

    def call(self, tool: str, /, **arguments: Any) -> Outcome:
        """Call a tool; a write that wasn't confirmed comes back as `confirmation_required`."""
        params = {
            "name": tool,
            "arguments": arguments,
            "_meta": {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": {}},
        }
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}
        answer = self._person.send("/mcp", request, headers).get_json()
        asked = {name: value for name, value in arguments.items() if name not in ("confirmToken", "confirmation")}
        return Outcome(agent=self, tool=tool, arguments=asked, **_read(answer))

    def approve(self, asked: Outcome) -> None:
        """Let the person approve what was asked, on its page, with their password."""
        self._person.decide(asked.expect("confirmation_required").confirm_url, "approve")

    def deny(self, asked: Outcome, *, note: str = "") -> None:
        """Let the person deny what was asked, with a note to the agent."""
        self._person.decide(asked.expect("confirmation_required").confirm_url, "deny", note)

    def again(self, asked: Outcome) -> Outcome:
        """Repeat a call with the token that it was given."""
        proof = {"confirmToken": asked.confirm_token, "confirmation": "CONFIRM"}
        return self.call(asked.tool, **asked.arguments, **proof)

    def confirmed(self, tool: str, /, **arguments: Any) -> Outcome:
        """Call a write tool, let the person approve, and call it again."""
        asked = self.call(tool, **arguments).expect("confirmation_required")
        self.approve(asked)
        return self.again(asked)

    def refused(self, code: str, tool: str, /, **arguments: Any) -> Outcome:
        """Call a tool that must answer with this code; fail otherwise."""
        outcome = self.call(tool, **arguments)
        return outcome.expect(outcome.status, code=code)

    def newest_run(self, tool: str) -> str:
        """Give the id of the newest run of a tool that the person may see."""
        runs = self.call("traces_list", limit=200).expect("done").result["runs"]
        found = [run["runId"] for run in runs if run["flowId"].replace(".", "_") == tool]
        if not found:
            raise AssertionError(f"no run of {tool}")
        return str(found[0])


class Mails:
    """A mailer that keeps what leaves: `create_app(mailer=Mails())`."""

    def __init__(self) -> None:
        self._kept: queue.Queue[Mail] = queue.Queue()

    def deliver(self, mail: Mail) -> None:
        """Keep the mail."""
        self._kept.put(mail)

    def next(self, *, within: float = 5.0) -> Mail:
        """Give the next mail that leaves; fail when none does in so many seconds. Mail leaves after the answer."""
        try:
            return self._kept.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"no mail left within {within} s") from None


class StillClock:
    """A clock that stands until a test moves it: `create_app(clock=StillClock())`."""

    def __init__(self, moment: datetime = NOON) -> None:
        self._moment = moment

    def now(self) -> datetime:
        """Give the time that it was set to."""
        return self._moment

    def forward(self, **by: float) -> None:
        """Move it: `forward(minutes=16)`."""
        self._moment += timedelta(**by)


def _read(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Give an outcome's fields from a JSON-RPC answer."""
    if "error" in answer:
        facts = answer["error"].get("data") or {}
        return _refused(facts.get("code", str(answer["error"]["code"])), answer["error"]["message"])
    texts, data = answer["result"]["content"], answer["result"].get("structuredContent")
    if data is None:  # a read's refusal: its facts are the second text
        facts = orjson.loads(texts[-1]["text"])
        return _refused(facts["code"], facts["message"])
    # A write says what happened in a text of its own, before its data.
    return _outcome(data) if len(texts) > 1 else {"status": "done", "result": data}


def _refused(code: str, message: str) -> dict[str, Any]:
    return {"status": "refused", "result": {}, "code": code, "message": message}


def _outcome(data: Mapping[str, Any]) -> dict[str, Any]:
    refusal = data.get("refusal") or {}
    return {
        "status": data["status"],
        "result": data.get("result") or {},
        "code": refusal.get("code"),
        "message": refusal.get("message", ""),
        "run_id": data.get("runId"),
        "summary": data.get("summary", ""),
        "confirm_url": data.get("confirmUrl", ""),
        "confirm_token": data.get("confirmToken", ""),
    }
