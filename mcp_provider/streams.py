"""Answers as event streams: what a run tells while it works, then its result (design D1, checklist W36, W37).

The run works in a thread of its own; the request's thread waits for its events and writes them. Both hold one of the
worker's few places, so that calls which take long leave threads for people's pages.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any

import orjson

from core.errors import Unavailable
from mcp_provider.watching import LOOK_SECONDS, IsGone, Waiting
from policy.words import plain

PLACES = 4  # a quarter of a worker's threads (design D1)
KEEPALIVE_SECONDS = 15.0  # proxies give up a silent connection after 30 to 60
MOST_WAITING = 256  # events that a client may be behind; what comes then is left out, since the next says more
LONGEST_MESSAGE = 200
COMMENT = b":\n\n"
Token = int | str


class NoPlace(Unavailable):
    """Every place of this worker for calls that take long is taken."""

    code = "too_many_streams"
    public = "Too many calls are waiting for their answers. Try again in a moment."
    remedy = "Try again after the seconds of Retry-After, or without a progressToken."


def event(message: bytes) -> bytes:
    """Give one JSON-RPC message as one event."""
    return b"event: message\ndata: %b\n\n" % message


def progress_token(params: dict[str, Any]) -> Token | None:
    """Give the token by which a request asks for progress."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, int | str) and not isinstance(token, bool) else None


class Streams:
    """The places of this worker."""

    def __init__(self, places: int = PLACES) -> None:
        self._free = threading.BoundedSemaphore(places)

    def take(self) -> None:
        """Take a place; raise NoPlace when there is none."""
        if not self._free.acquire(blocking=False):
            raise NoPlace

    def give_back(self) -> None:
        """Free a place."""
        self._free.release()


class EventStream(Waiting):
    """One call that works in its own thread, and the events that its client gets.

    `answer` gives the written message at the end; with `ends_when_closed` a client that closes the stream doesn't want
    the answer any more (2026-07-28), else it only stops listening.
    """

    def __init__(
        self,
        streams: Streams,
        *,
        is_gone: IsGone,
        is_closed: IsGone,
        token: Token | None,
        ends_when_closed: bool,
    ) -> None:
        super().__init__(is_gone)
        self._streams = streams
        self._is_closed = is_closed
        self._token = token
        self._ends_when_closed = ends_when_closed
        self._events: SimpleQueue[bytes | None] = SimpleQueue()  # None: that was all
        self._decided = threading.Event()  # it works, or has ended before it could
        self._has_begun = False
        self._closed = False
        self._parties = 2  # both threads hold the place: whoever leaves last gives it back
        self._lock = threading.Lock()
        self._last_done: float | None = None

    def run(self, answer: Callable[[], Any]) -> Any:
        """Let the call work; give its answer when it ends before it began, and None when its events are to be sent."""
        box: list[Any] = []
        context = copy_context()
        # No daemon: a worker that ends waits for what it has begun, also when nobody listens any more.
        threading.Thread(target=context.run, args=(self._work, answer, box), name="stream").start()
        self._decided.wait()
        return None if self._has_begun else box[0]

    # --- the run's side -------------------------------------------------------------------------------------------

    def began(self) -> None:
        """Take a place for as long as it works; raise NoPlace."""
        self._streams.take()
        self._has_begun = True
        self._decided.set()

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Send how far it is: never less than before (checklist W36), and nothing to a client that is far behind."""
        is_further = self._last_done is None or done > self._last_done
        if self._token is None or not is_further or self._events.qsize() >= MOST_WAITING:
            return
        self._last_done = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = plain(message, LONGEST_MESSAGE)
        notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        self._events.put(event(orjson.dumps(notice)))

    def is_gone(self) -> bool:
        """Tell whether the client closed the stream, or took the call back."""
        return (self._closed and self._ends_when_closed) or super().is_gone()

    def _work(self, answer: Callable[[], Any], box: list[Any]) -> None:
        try:
            reply = answer()
            box.append(reply)
            # A call that its client took back is answered by nothing (checklist W14, W37).
            if not self._was_gone:
                self._events.put(event(reply.body))
        finally:
            self._events.put(None)
            self._leave()
            self._decided.set()

    # --- the request's side ---------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[bytes]:
        """Give the bytes of the stream; the first at once, so that the client sees that it stands."""
        yield COMMENT
        silent_until = time.monotonic() + KEEPALIVE_SECONDS
        while not self._closed:
            try:
                found = self._events.get(timeout=LOOK_SECONDS)
            except Empty:
                if self._is_closed():
                    return
                if time.monotonic() < silent_until:
                    continue
                found = COMMENT
            if found is None:
                return
            yield found
            silent_until = time.monotonic() + KEEPALIVE_SECONDS

    def close(self) -> None:
        """Stop sending, whether the run goes on or not; called by the WSGI server in every case (PEP 3333)."""
        if not self._closed:
            self._closed = True
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._parties -= 1
            is_last = self._parties == 0
        if is_last and self._has_begun:
            self._streams.give_back()
