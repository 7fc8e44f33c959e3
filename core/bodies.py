"""Request bodies: read whole before the application runs, within a size and a time, or not at all.

Werkzeug cuts a chunked body at its limit without a word and takes a short one for a whole one when the server says
that its input ends by itself; and a body that trickles in would hold a thread for as long as its sender likes.
"""

import os
import socket
import threading
import time
from collections.abc import Iterable
from io import BytesIO
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

BODY_SECONDS = 15.0  # from the end of the head to the end of the body
LOOK_SECONDS = 1.0


class WholeBodies:
    """Hands the application its body as a whole; what is too large or too short is refused where it is read (413, 400).

    The length that the application sees is the true one, or, for what is too large, one over the limit.
    """

    def __init__(self, app: WSGIApplication, limit: int, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._deadlines = _Deadlines(seconds)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Read the body, if there is one, then let the application answer."""
        is_chunked = environ.pop("HTTP_TRANSFER_ENCODING", None) is not None
        declared = environ.get("CONTENT_LENGTH") or "0"
        environ.pop("wsgi.input_terminated", None)  # from here on the length decides
        if is_chunked or 0 < _number(declared) <= self._limit:
            body = self._read(environ)
            environ["wsgi.input"] = BytesIO(body)
            environ["CONTENT_LENGTH"] = str(len(body)) if is_chunked else declared
        return self._app(environ, start)

    def _read(self, environ: WSGIEnvironment) -> bytes:
        connection: socket.socket | None = environ.get("gunicorn.socket")
        if connection is not None:
            self._deadlines.watch(connection)
        try:
            body: bytes = environ["wsgi.input"].read(self._limit + 1)
        finally:
            if connection is not None:
                self._deadlines.leave(connection)
        return body


class _Deadlines:
    """Shuts connections whose time is over; one thread a process, started by the first body."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._watched: dict[socket.socket, float] = {}  # each step on it is a single one of the interpreter's
        self._process = 0

    def watch(self, connection: socket.socket) -> None:
        if self._process != os.getpid():
            self._start()
        self._watched[connection] = time.monotonic() + self._seconds

    def leave(self, connection: socket.socket) -> None:
        self._watched.pop(connection, None)

    def _start(self) -> None:
        with self._lock:
            if self._process != os.getpid():  # a forked child has no thread of its parent's
                self._watched = {}
                self._process = os.getpid()
                threading.Thread(target=self._look, name="body-deadlines", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            for connection, end in list(self._watched.items()):
                if end <= now and self._watched.pop(connection, None) == end:
                    _shut(connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is gone already


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
