"""How gunicorn serves the application; loaded by plain `gunicorn "app:create_app()"` (design D9)."""

import contextlib
import gc
import os
import select
import socket
import struct
import sys
from collections import Counter
from typing import Any

import orjson
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from core.clock import SystemClock
from core.db import THREADS
from core.errors import SettingsError
from core.logs import JsonLines, mask
from core.settings import load_settings

SILENCE = 10  # seconds without a byte after which a connection's head or body is given up
MOMENT_MS = 2  # for which a thread stays with a connection that may ask again
SLOW_READER = 30  # seconds for which an answer waits for a peer that doesn't read it

try:
    _settings = load_settings()
except SettingsError as _error:
    sys.exit(f"countersign: {_error.code}: {_error.public}")

os.umask(0o077)  # the database's side files and the outbox are nobody else's to read


def _loopback(port: int) -> list[str]:
    found = [f"127.0.0.1:{port}"]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        found.append(f"[::1]:{port}")
    return found


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
    served where it was served before.
    """

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


_clock = SystemClock()
_pid = os.getpid
_cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def when_ready(server: Any) -> None:
    """Bound the silence of every connection: accepted sockets inherit these options from the listener.

    A Python timeout would not do, since gthread makes the socket blocking again before each request.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE, 0))
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SLOW_READER, 0))


def pre_fork(server: Any, worker: Any) -> None:
    """Choose the core with the fewest workers for the one that is about to start."""
    taken = Counter(living.core for living in server.WORKERS.values())
    worker.core = min(_cores, key=lambda core: taken[core])


def post_worker_init(worker: Any) -> None:
    """Keep a worker's threads on one core, and what the start made out of every later collection of garbage.

    One interpreter lock lets one thread run at a time: on two cores they only wait for each other's caches. Two
    workers, each on its own core, answered half as much again as the same two on both (measured by `make bench`).
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {worker.core})  # threads that start later inherit it
    gc.collect()
    gc.freeze()


bind = _loopback(_settings.port)
workers = _settings.workers
worker_class = StayingWorker
threads = THREADS
keepalive = 75  # longer than the usual proxy keeps an idle connection, so that the proxy closes first
graceful_timeout = 30
limit_request_line = 8190
limit_request_field_size = 8190
max_requests = 0  # a worker lives as long as the server
control_socket_disable = True
forwarded_allow_ips = ""  # the base URL is a setting: no header of a peer changes scheme, script name or path
forwarder_headers = ""
accesslog = "-"
logger_class = JsonLogger
