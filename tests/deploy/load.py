"""Clients that call without a pause, each over one kept-alive connection or over a new one each time."""

import http.client
import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.raw_mcp import MODERN, RawMcp


@dataclass(slots=True)
class Counted:
    """What the clients met."""

    answered: int = 0
    longest: float = 0.0
    failures: list[str] = field(default_factory=list)


class Load:
    """So many clients that read one order again and again until told to end; nothing is tried a second time."""

    def __init__(self, mcp_url: str, token: str, *, kept_alive: int, fresh: int, pause: float = 0.0) -> None:
        self._caller = RawMcp(mcp_url, token, version=MODERN)
        self._address = urlsplit(mcp_url)
        self._pause = pause
        self._end = threading.Event()
        self._lock = threading.Lock()
        self.counted = Counted()
        self._threads = [
            threading.Thread(target=self._call_until_the_end, kwargs={"keep": number < kept_alive})
            for number in range(kept_alive + fresh)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _call_until_the_end(self, *, keep: bool) -> None:
        parts = self._address
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        for number in itertools.count(1):
            if self._end.is_set():
                break
            began = time.monotonic()
            try:
                failure = self._call(connection, number)
            except (OSError, http.client.HTTPException) as error:
                failure = repr(error)
                connection.close()
            with self._lock:
                self.counted.longest = max(self.counted.longest, time.monotonic() - began)
                if failure:
                    self.counted.failures.append(failure)
                else:
                    self.counted.answered += 1
            if not keep:
                connection.close()
            self._end.wait(self._pause)
        connection.close()

    def _call(self, connection: http.client.HTTPConnection, number: int) -> str:
        """Call once; return what was wrong, or nothing."""
        params = {"name": "orders_get", "arguments": {"order_id": 1042}, "_meta": self._caller.meta()}
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        connection.request("POST", self._address.path, body, self._caller.headers("tools/call", params))
        answer = connection.getresponse()
        found = json.loads(answer.read())
        is_right = answer.status == 200 and not found.get("result", {"isError": True}).get("isError")
        return "" if is_right else f"{answer.status} {found}"
