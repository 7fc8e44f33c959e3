"""An MCP server by hand, of the legacy era, that says whatever a test wants: every header and every byte."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Say = Callable[["HostileHandler", Any], bool]
TOOL = {"name": "tool", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}


class HostileMcp:
    """Answers properly where no test says otherwise, and remembers what it was asked."""

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.tools: list[dict[str, Any]] = [TOOL]
        self.result: Any = {"content": [{"type": "text", "text": "fine"}]}
        self.say: Say = lambda _handler, _message: False  # True: it has answered this request itself
        self.asked: list[tuple[str, str, Any]] = []  # method, path, message
        self.calls: list[dict[str, Any]] = []

    @property
    def origin(self) -> str:
        """Where it listens."""
        return f"http://localhost:{self.server.server_port}"

    @property
    def url(self) -> str:
        """Its MCP address."""
        return f"{self.origin}/mcp"

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Give the proper result of a request."""
        if message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "hostile", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        if message["method"] == "tools/list":
            return {"tools": self.tools}
        self.calls.append(message["params"])
        return dict(self.result(message["params"]) if callable(self.result) else self.result)


class HostileHandler(BaseHTTPRequestHandler):
    """One request."""

    def json(self, value: Any, status: int = 200, **headers: str) -> bool:
        """Answer with JSON; give True, for use as the last word of a `say`."""
        return self.bytes(json.dumps(value).encode(), status, **{"Content-Type": "application/json", **headers})

    def bytes(self, body: bytes, status: int = 200, **headers: str) -> bool:
        """Answer with these bytes and headers, `_` for `-` in their names."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _handler(hostile: HostileMcp) -> type[HostileHandler]:
    class Handler(HostileHandler):
        """Reads a message, lets the test answer, or answers properly."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            message = json.loads(body) if body.startswith(b"{") else body.decode()
            hostile.asked.append(("POST", self.path, message))
            if hostile.say(self, message):
                return
            if not isinstance(message, dict) or "id" not in message:
                self.bytes(b"", 202)
            elif message["method"] == "server/discover":
                error = {"code": -32601, "message": "legacy"}
                self.json({"jsonrpc": "2.0", "id": message["id"], "error": error}, 404)
            else:
                self.json({"jsonrpc": "2.0", "id": message["id"], "result": hostile.answer(message)})

        def do_GET(self) -> None:
            hostile.asked.append(("GET", self.path, None))
            if not hostile.say(self, None):
                self.bytes(b"", 405 if self.path == "/mcp" else 404)

    return Handler


@contextmanager
def hostile_mcp() -> Iterator[HostileMcp]:
    """Serve while open."""
    hostile = HostileMcp()
    thread = threading.Thread(target=hostile.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hostile
    finally:
        hostile.server.shutdown()
        hostile.server.server_close()
        thread.join()
