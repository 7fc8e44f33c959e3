"""How gunicorn serves the application: `countersign serve` becomes this program, `gunicorn.conf.py` reads it."""

import contextlib
import gc
import os
import socket
import struct
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication

from cli.gunicorn_parts import JsonLogger, StayingWorker
from cli.listening import addresses
from core.db import THREADS
from core.errors import SettingsError
from core.settings import load_settings

SILENCE = 10  # seconds without a byte after which a connection's head or body is given up
SLOW_READER = 30  # seconds for which an answer waits for a peer that doesn't read it
LAST_WORDS = 10  # seconds that a worker gets beyond its longest call, to write what it has done
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - gunicorn opens a file of a random name there and removes it at once


class Served(WSGIApplication):  # type: ignore[misc] # gunicorn has no types
    """gunicorn's own application, configured by us; a gunicorn.conf.py in the working directory is read after us."""

    def init(self, parser: Any, opts: Any, args: list[str]) -> dict[str, Any]:
        """Give our configuration, again at each reload."""
        super().init(parser, opts, args)
        return configuration()


def configuration() -> dict[str, Any]:
    """Give gunicorn's settings, made from ours; end the process with one line when ours can't work."""
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.exit(f"countersign: {error.code}: {error.public}")
    os.umask(0o077)  # the database's side files and the outbox are nobody else's to read
    longest_call = settings.call_deadline // timedelta(seconds=1)
    found: dict[str, Any] = {
        "bind": addresses(settings),
        "workers": settings.workers,
        "worker_class": StayingWorker,
        "threads": THREADS,
        "keepalive": 75,  # longer than the usual proxy keeps an idle connection, so that the proxy closes first
        "graceful_timeout": longest_call + LAST_WORDS,
        "limit_request_line": 8190,
        "limit_request_field_size": 8190,
        "max_requests": 0,  # a worker lives as long as the server
        "control_socket_disable": True,
        "forwarded_allow_ips": "",  # the base URL is a setting: no header of a peer changes scheme, name or path
        "forwarder_headers": "",
        "accesslog": "-",
        "logger_class": JsonLogger,
    }
    if os.access(IN_MEMORY, os.W_OK):  # a worker's sign of life must not wait for a disk
        found["worker_tmp_dir"] = str(IN_MEMORY)
    return found | {hook.__name__: hook for hook in (on_starting, when_ready, pre_fork, post_worker_init, on_exit)}


def on_starting(server: Any) -> None:
    """Open the pipe through which workers say why they can't start."""
    server.refusals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


def when_ready(server: Any) -> None:
    """Bound the silence of every connection: accepted sockets inherit these options from the listener.

    A Python timeout would not do, since gthread makes the socket blocking again before each request.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE, 0))
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SLOW_READER, 0))


def pre_fork(server: Any, worker: Any) -> None:
    """Choose the core with the fewest workers for the one that is about to start."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    taken = Counter(living.core for living in server.WORKERS.values())
    worker.core = min(cores, key=lambda core: taken[core])
    worker.refusals = server.refusals[1]


def post_worker_init(worker: Any) -> None:
    """Keep a worker's threads on one core, and what the start made out of every later collection of garbage.

    One interpreter lock lets one thread run at a time: on two cores they only wait for each other's caches. Two
    workers, each on its own core, answered half as much again as the same two on both (measured by `make bench`).
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {worker.core})  # threads that start later inherit it
    gc.collect()
    gc.freeze()


def on_exit(server: Any) -> None:
    """Say last, in one line, why no worker could start."""
    with contextlib.suppress(BlockingIOError):  # nobody has refused
        sys.stderr.write(os.read(server.refusals[0], 1 << 16).split(b"\0")[0].decode(errors="replace") + "\n")


def main() -> None:
    """Be gunicorn until the end."""
    Served("%(prog)s [OPTIONS] [APP_MODULE]", prog="countersign").run()


if __name__ == "__main__":
    main()
