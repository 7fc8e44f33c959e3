"""Whether the client of a call still waits for it: each era has its own way to say that it doesn't (design D1)."""

import socket
import time
from collections.abc import Callable
from typing import Any

from flows.confine import unconfined

LOOK_SECONDS = 1.0  # how often it is looked; a call that ends before is never asked about

IsGone = Callable[[], bool]


class Waiting:
    """Watches a call whose client gets nothing but its answer."""

    def __init__(self, is_gone: IsGone) -> None:
        self._is_gone = is_gone
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._was_gone = False

    def began(self) -> None:
        """Let it begin."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell nobody: the answer is one JSON object."""

    def is_gone(self) -> bool:
        """Look, at most once a second, whether the client still waits."""
        now = time.monotonic()
        if not self._was_gone and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            with unconfined():  # asked in the flow's thread, which may not do what we do here
                self._was_gone = self._is_gone()
        return self._was_gone


def is_closed(connection: socket.socket | Any | None) -> bool:
    """Tell whether the other side has closed its connection; False where the server doesn't hand it over."""
    if connection is None:
        return False
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
    except BlockingIOError:  # open, and silent
        return False
    except OSError:
        return True
