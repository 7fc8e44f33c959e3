"""Where the server listens, and whether somebody else does."""

import errno
import os
import socket
from pathlib import Path

from cli.refusals import PortBusy
from core.settings import Settings

LOOPBACK = ("127.0.0.1", "::1")
SOCKET = "unix:"
ELSEWHERE = "End the program that uses it, or set COUNTERSIGN_PORT to another port."


def addresses(settings: Settings) -> list[str]:
    """Give what to listen on in gunicorn's words: COUNTERSIGN_BIND, or 127.0.0.1 and, if possible, ::1."""
    found = settings.bind or [host for host in LOOPBACK if _exists(host)]
    return [one if one.startswith(SOCKET) else _with_port(one, settings.port) for one in found]


def require_free(settings: Settings) -> None:
    """Raise PortBusy, naming the first address that can't be listened on."""
    for one in settings.bind or LOOPBACK:
        if one.startswith(SOCKET):
            _require_free_socket(Path(one.removeprefix(SOCKET)))
        else:
            _require_free_port(one, settings.port, may_be_absent=not settings.bind)


def _require_free_port(host: str, port: int, *, may_be_absent: bool) -> None:
    try:
        with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortBusy(f"Port {port} can't be listened on: {error.strerror}. {ELSEWHERE}") from None
        if not may_be_absent:  # no such address, or no such family, on this machine
            raise PortBusy(f"{host} of COUNTERSIGN_BIND can't be listened on: {error.strerror}.") from None


def _require_free_socket(path: Path) -> None:
    if not os.access(path.parent, os.W_OK):
        raise PortBusy(f"No socket can be made in {path.parent}, which COUNTERSIGN_BIND names.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:  # nobody there; gunicorn takes the place of a socket that was left behind
            return
    raise PortBusy(f"Somebody listens on {path}. End the program that uses it, or change COUNTERSIGN_BIND.")


def _exists(host: str) -> bool:
    try:
        with socket.socket(_family(host)) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
