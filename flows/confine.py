"""What a flow does beside its world, seen by Python's audit hook and refused while the flow runs (design D5).

It catches a developer's mistake; it is not a sandbox. What is open already and what happens inside of C code has no
event: docs/security.md lists it.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from flows.operation import FlowError

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
IMPORTLIB = "<frozen importlib._bootstrap_external>"
THREAD_EVENT = "_thread.start_new_thread"
# Python's audit events (docs.python.org/3/library/audit_events.html) of what leaves the process or changes it for all.
REACHING = frozenset(
    f"{module}.{name}"
    for module, names in {
        "socket": "connect bind sendto sendmsg getaddrinfo gethostbyname gethostbyaddr getnameinfo sethostname",
        # These also see a connection that was open before.
        "http.client": "connect send",
        "smtplib": "connect send",
        "ftplib": "connect sendcmd",
        "imaplib": "open send",
        "poplib": "connect putline",
        "subprocess": "Popen",
        "pty": "spawn",
        "webbrowser": "open",
        "_thread": "start_new_thread start_joinable_thread",
        "signal": "pthread_kill",
        "syslog": "syslog",
        "os": "system exec fork forkpty posix_spawn spawn startfile kill killpg putenv unsetenv chdir "
        "remove rename mkdir rmdir link symlink truncate chmod chown utime setxattr removexattr",
        "shutil": "copyfile copymode copystat copytree move rmtree chown make_archive unpack_archive",
        "tempfile": "mkstemp mkdtemp",
        "sqlite3": "connect enable_load_extension load_extension",
        "ctypes": "dlopen dlsym dlsym/handle call_function",
    }.items()
    for name in names.split()
) | {"open"}


class OutsideReach(FlowError):
    """The flow reached for a socket, a process, a file, a thread or the like by itself."""

    code = "outside_reach"
    public = "The flow tried to reach outside of its world: a socket, a process, a file or a thread. It was stopped."
    remedy = (
        "Declare the effect, and do it inside `world.call`, or let a message leave with `world.send`; "
        "a file may be read."
    )


class Confining(Protocol):
    """Says what the flow that a thread runs may do beside its world."""

    def outside(self, what: str) -> FlowError | None:
        """See that the flow reaches for `what`; give its refusal, or None while it may."""

    def elsewhere(self, what: str, *, is_ours: bool) -> FlowError | None:
        """See that it uses another connection than its world's; the same, `is_ours` being our own engines."""


class _Thread(threading.local):
    watcher: Confining | None = None


# By thread: out of a context variable `contextvars.Context().run` would lead.
CONFINED = _Thread()


@contextmanager
def confined(watcher: Confining) -> Iterator[None]:
    """Refuse what this thread does beside the world that `watcher` speaks for."""
    before, CONFINED.watcher = CONFINED.watcher, watcher
    try:
        yield
    finally:
        CONFINED.watcher = before


@contextmanager
def unconfined() -> Iterator[None]:
    """Let the product itself work between two parts of a flow."""
    before, CONFINED.watcher = CONFINED.watcher, None
    try:
        yield
    finally:
        CONFINED.watcher = before


@cache
def install_confinement() -> None:
    """Look at what this process does from now on; once a process, and nothing takes it back."""
    sys.addaudithook(_hook)
    if sys.version_info < (3, 12):  # which has no event for it
        threading.Thread.start = _seen(threading.Thread.start)  # type: ignore[method-assign]


def _look(watcher: Confining, event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and not args[2] & WRITING:
        return
    if event == "ctypes.dlopen" and args[0] is None:  # what importing ctypes does; using it is another event
        return
    if sys._getframe(2).f_code.co_filename == IMPORTLIB:  # noqa: SLF001 - nothing else tells who asks
        # The import system would keep the bytecode of what it imports, and goes on without.
        raise PermissionError("a flow writes no file")
    refusal = watcher.outside(event)
    if refusal is not None:
        raise refusal


# All that it needs is bound: at the end of a process the names of a module are gone before the hook is.
def _hook(
    event: str,
    args: tuple[Any, ...],
    reaching: frozenset[str] = REACHING,
    thread: _Thread = CONFINED,
    look: Any = _look,
) -> None:
    if event in reaching and (watcher := thread.watcher) is not None:
        look(watcher, event, args)


def _seen(start: Any) -> Any:
    def seen_start(thread: threading.Thread) -> None:
        if (watcher := CONFINED.watcher) is not None:
            _look(watcher, THREAD_EVENT, ())
        start(thread)

    return seen_start
