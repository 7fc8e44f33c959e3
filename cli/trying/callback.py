"""The address on this machine that the browser is sent back to (RFC 8252 7.3): open for one answer to one request."""

import asyncio
import concurrent.futures
import hmac
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"  # RFC 8252 8.3: not `localhost`, which may name another interface
PATH = "/callback"
MOST_FIELDS = 20
SECONDS_FOR_A_REQUEST = 10
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;margin:15vh auto;max-width:32rem;padding:0 1.5rem}}</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
RECEIVED = "You can close this tab.", "The answer is back in your terminal."
NOT_AWAITED = "Nothing waits for this.", "No sign-in of this terminal belongs to this address. Nothing was changed."
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Callback:
    """Listens from the start, so that nobody else can take the port; hears nothing before `expect`."""

    def __init__(self, port: int = 0) -> None:
        self._server = _Server(port)
        self._thread: threading.Thread | None = None

    @property
    def uri(self) -> str:
        """The redirect address to register."""
        return f"http://{HOST}:{self._server.server_port}{PATH}"

    def expect(self, state: str) -> None:
        """Wait from now on for the answer to the request with this state; every other one is turned away."""
        self._server.state = state
        self._server.answer = concurrent.futures.Future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
            self._thread.start()

    async def answer(self, seconds: float) -> dict[str, str]:
        """Give the fields that came back with the right state, the first time; raise TimeoutError."""
        return await asyncio.wait_for(asyncio.wrap_future(self._server.answer), seconds)

    def close(self) -> None:
        """Stop listening."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a connection that somebody keeps open doesn't keep us
    allow_reuse_address = False  # a port that somebody else listens on is not ours

    def __init__(self, port: int) -> None:
        self.state = ""
        self.answer: concurrent.futures.Future[dict[str, str]] = concurrent.futures.Future()
        self._lock = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking the name service who we are."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def take(self, query: str) -> bool:
        """Keep the answer when it is the awaited one; tell whether it was."""
        fields = _fields(query)
        with self._lock:
            awaited = bool(self.state) and hmac.compare_digest(fields.get("state", "").encode(), self.state.encode())
            if not awaited or self.answer.done():
                return False
            self.answer.set_result(fields)
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nobody's business: no traceback in the terminal."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "countersign", ""
    timeout = SECONDS_FOR_A_REQUEST

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path != PATH:
            self._show(HTTPStatus.NOT_FOUND, *NOT_AWAITED)
        elif self.server.take(parts.query):
            self._show(HTTPStatus.OK, *RECEIVED)
        else:
            self._show(HTTPStatus.BAD_REQUEST, *NOT_AWAITED)

    def log_message(self, *_: Any) -> None:
        """Say nothing: a code is in the address."""

    def _show(self, status: HTTPStatus, title: str, text: str) -> None:
        body = PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _fields(query: str) -> dict[str, str]:
    """Read a query; one with a name twice, or that can't be read, has no fields (RFC 6749 3.1)."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    return dict(pairs) if len(dict(pairs)) == len(pairs) else {}
