"""Serves the documentation on loopback, in a process of its own: `python -m mcp_provider.docs_server`.

It reads the pages of this installation and nothing else: no settings, no database, no secrets. The standard library's
server does for one machine's own agents; what it lacks (bounds on time, on threads, on the size of a body) is added
here and in the endpoint.
"""

import argparse
import contextlib
import io
import logging
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from core.documents import Document, Documents
from core.errors import Unavailable
from core.ids import SystemChance
from core.logs import configure_logs
from mcp_provider.docs_endpoint import DocsEndpoint
from mcp_provider.docs_index import DocsIndex
from mcp_provider.docs_tools import DocsTools

HOST, PORTS = "127.0.0.1", range(6536, 6546)
DOCS = Path(__file__).resolve().parents[1] / "docs"
AT_ONCE = 8
SECONDS = 10.0  # from the first byte of a request to its last
PATIENCE = 0.5  # seconds: for a free thread, and between two looks at the parent
LAST_BYTES = 1.0  # seconds in which a sender may end after it was refused, so that it reads why
DEFECT = b'{"jsonrpc":"2.0","error":{"code":-32603,"message":"Something went wrong here.","data":{"code":"internal"}}}'
UNREADABLE = '{"error":"bad_request","error_description":"The request can\'t be read.","status":%(code)d}'

log = logging.getLogger(__name__)


class DocsServer(socketserver.ThreadingMixIn, WSGIServer):
    """Listens on one port of 127.0.0.1; with `parent`, ends when that process isn't its parent any more."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tools: DocsTools, port: int, parent: int | None = None) -> None:
        """Raise OSError when `port` can't be listened on."""
        self._parent = parent
        self._places = threading.Semaphore(AT_ONCE)
        super().__init__((HOST, port), Connection)
        self.set_app(DocsEndpoint(tools, self.server_port, SystemChance()))

    @property
    def url(self) -> str:
        """The address that an MCP client is given."""
        return f"http://{HOST}:{self.server_port}/mcp"

    def server_bind(self) -> None:
        """Listen, without the look-up of names that HTTPServer makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]
        self.setup_environ()

    def service_actions(self) -> None:
        """End the process with its parent, however that ended.

        A pipe would stay open in the workers that the parent forks, and they outlive it; asking the kernel for a
        signal is of one system alone, and of one thread of the parent.
        """
        if self._parent is not None and os.getppid() != self._parent:
            sys.exit()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up when all of them stay taken."""
        if self._places.acquire(timeout=PATIENCE):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make place for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note what went wrong, except that a peer was silent or went away."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("unhandled")


class Connection(WSGIRequestHandler):
    """One request, which has to be there as a whole within SECONDS; HTTP/1.0, so that it is the only one."""

    timeout = SECONDS
    error_message_format = UNREADABLE
    error_content_type = "application/json"

    def setup(self) -> None:
        """Bound the time in which the request is read."""
        super().setup()
        self.rfile = io.BufferedReader(_Until(self.connection, time.monotonic() + SECONDS))

    def handle(self) -> None:
        """Read the head, then let the application answer."""
        self.raw_requestline = self.rfile.readline(1 << 16)
        if not self.parse_request():
            return
        _Answering(self).run(self.server.get_app())  # type: ignore[attr-defined] # typed as any server

    def finish(self) -> None:
        """Send what is left, and take in for a moment what a refused sender still sends.

        A connection that is closed over unread bytes is reset, and the reset overtakes the answer.
        """
        super().finish()
        end = time.monotonic() + LAST_BYTES
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LAST_BYTES)
            while time.monotonic() < end and self.connection.recv(1 << 16):
                pass

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Write no line for each request: what is read here is public."""


class _Until(io.RawIOBase):
    """What comes by a connection until a point in time, which a sender can't put off by single bytes."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection = connection
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Answering(ServerHandler):
    """Runs the application for one request; a defect of ours is answered in JSON and told to the log alone."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.rfile, connection.wfile, sys.stderr, connection.get_environ())  # type: ignore[arg-type]
        self.request_handler = connection
        self.os_environ = {}  # else the process's variables could pass for headers
        self.server_software = ""
        self.error_headers = [("Content-Type", "application/json")]
        self.error_body = DEFECT

    def log_exception(self, exc_info: Any) -> None:
        if not isinstance(exc_info[1], OSError):
            log.error("unhandled", exc_info=exc_info)


def pages() -> Iterable[Document]:
    """Give the pages of this installation's documentation, and then the decisions behind it."""
    yield from Documents(DOCS)
    for one in Documents(DOCS / "decisions"):
        yield Document(f"decisions/{one.name}", f"Decision {one.title}", one.text)


def listen(tools: DocsTools, *, parent: int | None = None, avoid: int | None = None) -> DocsServer:
    """Give a server on the first port of PORTS that is free and isn't `avoid`; raise Unavailable without one."""
    for port in PORTS:
        if port != avoid:
            with contextlib.suppress(OSError):
                return DocsServer(tools, port, parent)
    raise Unavailable(f"ports {PORTS[0]} to {PORTS[-1]} are taken.")


def words(url: str) -> str:
    """Give what a person pastes to connect an agent."""
    return f"""Documentation for your agents, public and read-only:

    {url}
    {{"mcpServers": {{"countersign-docs": {{"url": "{url}"}}}}}}
"""


def main() -> None:
    """Serve until the parent ends, or without `--parent` until Ctrl-C or SIGTERM; say first where, or why not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, help="end with this process, which is the parent")
    parser.add_argument("--avoid", type=int, help="leave this port to others")
    given = parser.parse_args()
    configure_logs()
    try:
        server = listen(DocsTools(DocsIndex(pages())), parent=given.parent, avoid=given.avoid)
    except Unavailable as error:
        if given.parent is None:
            sys.exit(f"countersign: {error.code}: {error.public}")
        _say(f"Docs MCP skipped — {error.public}\n")
        return
    _say(words(server.url))
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever(PATIENCE)


def _say(text: str) -> None:
    """Write in one piece; a parent that has ended meanwhile is noticed where everybody's end is."""
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), text.encode())


if __name__ == "__main__":
    main()
