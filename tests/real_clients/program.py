"""A client's program: what it prints, the link that it shows, and a conversation of one JSON message a line."""

import json
import re
import subprocess
from itertools import count
from types import TracebackType
from typing import Any, Self

from tests.real_clients.place import Place
from tests.support.process import guarded, stop
from tests.support.waiting import wait_until

SECONDS = 30
MESSAGES = count(1)


class ClientBroke(AssertionError):
    """A client's program ended early or answered with an error; the message has what it printed."""


class Program:
    """One running program; leaving its `with` closes its stdin and, when that doesn't end it, ends it."""

    def __init__(self, command: list[str], place: Place, **more: str) -> None:
        self._place, number = place, next(MESSAGES)
        self._answered: set[str] = set()  # links that the person has answered
        self._out, self._errors = place.home / f"{number}.stdout", place.home / f"{number}.stderr"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                guarded(command),
                cwd=place.home,
                env=place.environment() | more,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._hang_up()
        try:
            self._process.wait(2 if kind is None else 0)
        except subprocess.TimeoutExpired:
            stop(self._process, seconds=5)

    def sign_in(self) -> None:
        """Let the person answer the link that the program shows."""
        link = self._wait("its link", lambda: next(iter(self._links()), None))
        self._answered.add(link)
        self._place.consent(link)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its result; raise ClientBroke when it is an error."""
        number = next(MESSAGES)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self._wait(f"the answer to {method}", lambda: self._answer(number))
        if "result" not in answer:
            raise ClientBroke(f"{method}: {answer.get('error')}")
        return dict(answer["result"])

    def tell(self, method: str) -> None:
        """Send one notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def finish(self) -> str:
        """Wait for the program's own end and return its stdout; raise ClientBroke when it ended badly."""
        self._hang_up()
        if self._process.wait(SECONDS):
            raise self._broke("its end")
        return self._out.read_text()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _wait(self, what: str, ask: Any) -> Any:
        def found_or_ended() -> Any:
            ended = self._process.poll() is not None
            if (found := ask()) is None and ended:
                raise self._broke(what)
            return found

        try:
            return wait_until(what, found_or_ended, seconds=SECONDS, every=0.02)
        except TimeoutError as error:
            raise ClientBroke(f"{error}: {self._printed()[-400:]}") from None

    def _broke(self, before: str) -> ClientBroke:
        said = self._errors.read_text() or self._out.read_text()
        return ClientBroke(f"ended with {self._process.returncode} before {before}: {said[-400:]}")

    def _links(self) -> set[str]:
        found = re.findall(r"http://\S+/oauth/authorize\?[^\s\"]+(?=\s)", self._printed())
        return set(found) - self._answered

    def _answer(self, number: int) -> dict[str, Any] | None:
        for line in self._out.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return dict(message)
        if self._links():
            raise ClientBroke("asks the person to sign in again")
        return None

    def _printed(self) -> str:
        return f"{self._errors.read_text()}\n{self._out.read_text()}"
