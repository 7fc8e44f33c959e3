"""An event stream by hand: what comes in which order, and a connection that is cut when the test says."""

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit


class OpenStream:
    """One POST whose answer is read event by event."""

    def __init__(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.request("POST", parts.path, body, dict(headers))
        self.answer = self._connection.getresponse()
        self.status = self.answer.status
        self.headers = {name.lower(): value for name, value in self.answer.getheaders()}

    def __enter__(self) -> "OpenStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON-RPC messages until the stream ends; comments are left out."""
        for event in self._events():
            lines = [line for line in event.splitlines() if not line.startswith(":")]
            if lines:
                assert lines[0] == "event: message", event
                assert len(lines) == 2, event
                yield json.loads(lines[1].removeprefix("data: "))

    def cut(self) -> None:
        """Close the connection, whatever still comes."""
        self.answer.close()
        self._connection.close()

    def _events(self) -> Iterator[str]:
        event = ""
        while line := self.answer.readline().decode():
            if line == "\n":
                yield event
                event = ""
            else:
                event += line
