"""A program on another port of the same host, as local agents open one for their redirects: keeps what it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listener:
    """Serves one page at every path and remembers every Cookie header."""

    def __init__(self) -> None:
        self.page = "<!doctype html><title>Connected</title><p>You can close this window."
        self.cookies: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """The address that a browser is sent to: the name of the console's host, another port."""
        return f"http://localhost:{self.server.server_port}/callback"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            """Answers everything alike."""

            def do_GET(self) -> None:
                if cookie := self.headers.get("Cookie"):
                    listener.cookies.append(cookie)
                body = listener.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def listening() -> Iterator[Listener]:
    """Run a listener on a free port while open."""
    listener = Listener()
    thread = threading.Thread(target=listener.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.server.shutdown()
        listener.server.server_close()
        thread.join()
