"""Wait for a condition, never for a time."""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(what: str, ask: Callable[[], T | None], *, seconds: float = 20.0, every: float = 0.05) -> T:
    """Return the first answer of `ask` that is true; raise TimeoutError naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if answer := ask():
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(every)


def free_port() -> int:
    """Return a TCP port that nobody listens on, on 127.0.0.1, at the time of asking."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
