"""Keep the test process on this machine."""

import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class BeyondLoopback(AssertionError):
    """A test tried to leave this machine."""


def is_local(address: object) -> bool:
    """True for a Unix socket, a loopback address and the name localhost."""
    if not isinstance(address, tuple):
        return True
    host = address[0]
    if host in ("", "localhost", None):
        return True
    try:
        return ipaddress.ip_address(str(host).split("%")[0]).is_loopback
    except ValueError:
        return False


@contextmanager
def loopback_only() -> Iterator[None]:
    """Refuse, while open, every connection, datagram and name look-up that would leave loopback."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _checked(getattr(socket.socket, name)))
        patch.setattr(socket.socket, "sendto", _checked_sendto(socket.socket.sendto))
        patch.setattr(socket, "getaddrinfo", _checked_lookup(socket.getaddrinfo))
        yield


def _refuse_unless_local(address: object) -> None:
    if not is_local(address):
        raise BeyondLoopback(f"tests stay on loopback, not {address!r}")


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    def connect(self: socket.socket, address: Any) -> Any:
        _refuse_unless_local(address)
        return method(self, address)

    return connect


def _checked_sendto(method: Callable[..., Any]) -> Callable[..., Any]:
    def sendto(self: socket.socket, data: Any, *rest: Any) -> Any:
        _refuse_unless_local(rest[-1])
        return method(self, data, *rest)

    return sendto


def _checked_lookup(function: Callable[..., Any]) -> Callable[..., Any]:
    def getaddrinfo(host: Any, *rest: Any, **named: Any) -> Any:
        _refuse_unless_local((host.decode() if isinstance(host, bytes) else host,))
        return function(host, *rest, **named)

    return getaddrinfo
