"""What gunicorn gets in the place of its own parts: a log of JSON lines, and a worker that stays with its client."""

import contextlib
import os
import select
import sys
from typing import Any

import orjson
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from cli.refusals import Refused, told_in_one_line
from core.clock import SystemClock
from core.logs import JsonLines, mask

MOMENT_MS = 2  # for which a thread stays with a connection that may ask again
LONGEST_REFUSAL = 30_000  # bytes; two of them fit into a pipe

_clock = SystemClock()
_pid = os.getpid


class JsonLogger(Logger):  # type: ignore[misc] # gunicorn has no types
    """Writes one JSON object a line: errors as the application does, accesses without query strings and headers."""

    def setup(self, cfg: Any) -> None:
        """Give gunicorn's own messages our form, which masks secrets."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(JsonLines())

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Write the traceback, except of a connection that was silent too long: peers could fill the log with it."""
        if isinstance(sys.exc_info()[1], BlockingIOError):
            self.info("gave up a connection that was silent too long")
        else:
            super().exception(msg, *args, **kwargs)

    def access(self, resp: Any, req: Any, environ: dict[str, Any], request_time: Any) -> None:
        """Write who asked for which path and what it took; never what was asked with."""
        line = {
            "at": _clock.now().isoformat(timespec="milliseconds"),
            "level": "info",
            "logger": "access",
            "pid": _pid(),
            "reference": next((value for name, value in resp.headers if name == "X-Request-Id"), None),
            "remote": environ.get("REMOTE_ADDR"),
            "method": environ["REQUEST_METHOD"],
            "path": mask(environ["PATH_INFO"]),
            "status": resp.status_code,
            "bytes": resp.sent,
            "ms": round(request_time.total_seconds() * 1000, 1),
        }
        with contextlib.suppress(OSError):  # a closed pipe behind our output is no reason to drop a request
            os.write(sys.stdout.fileno(), orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


class StayingWorker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """A gthread worker whose thread stays with a kept-alive connection while nobody else waits for a thread.

    The way back through the poller costs a fifth of a short request (measured); a client that calls again at once is
    served where it was served before. `core` and `refusals` (where to write why it can't start) come from `pre_fork`.
    """

    core: int
    refusals: int

    def load_wsgi(self) -> None:
        """Load the application; what it refuses ends the server with one line, and nothing is started again."""
        try:
            with told_in_one_line():
                super().load_wsgi()
        except Refused as refusal:
            with contextlib.suppress(BlockingIOError):  # full: others have said it, and one of them is shown
                os.write(self.refusals, f"countersign: {refusal.message}".encode()[:LONGEST_REFUSAL] + b"\0")
            sys.exit(Arbiter.APP_LOAD_ERROR)

    def handle(self, conn: Any) -> Any:
        """Serve one request, and those that follow within moments; give what gthread's own method gives."""
        kept = super().handle(conn)
        if kept is not True or conn.is_http2:
            return kept
        ready = select.poll()
        ready.register(conn.sock, select.POLLIN)
        while kept is True and self.alive and self._nobody_waits() and ready.poll(MOMENT_MS):
            kept = super().handle(conn)
        return kept

    def _nobody_waits(self) -> bool:
        return bool(self.tpool._work_queue.empty())  # noqa: SLF001 - the pool has no public way to ask
