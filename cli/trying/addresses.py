"""Where `countersign try` may go: the server's own address, and from there only to places that are no trap."""

import ipaddress
import os
import webbrowser
from urllib.parse import SplitResult, urlsplit

from cli.trying.refusals import WrongAddress
from cli.trying.text import line
from core.settings import is_loopback

PORTS = {"http": 80, "https": 443}
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def read_address(text: str) -> str:
    """Give the address of an MCP server; raise WrongAddress for anything else."""
    parts = _split(text)
    if parts is None or parts.scheme not in PORTS or not parts.hostname:
        raise WrongAddress(f"{line(text, 200)} is no http or https address of a server.")
    if parts.username is not None or parts.password is not None or parts.fragment or not text.isprintable():
        raise WrongAddress(f"{line(text, 200)} has a user, a fragment or a hidden sign in it.")
    return text


def host_of(address: str) -> str:
    """Give the host that a person is told of."""
    parts = _split(address)
    return line((parts.hostname if parts else None) or "?", 253)


def is_in_clear(address: str) -> bool:
    """Tell whether whatever is sent there can be read on the way: plain http to another machine."""
    return urlsplit(address).scheme == "http" and not is_loopback(host_of(address))


def may_lead(server: str, target: str) -> bool:
    """Tell whether the server may send its client to `target`: its own origin, https elsewhere, or this machine to
    itself. A server of the network has no business with an address inside of this machine or its network.
    """
    here, there = _split(server), _split(target)
    if here is None or there is None or not here.hostname or not there.hostname or there.username is not None:
        return False
    if _origin(here) == _origin(there):
        return True
    if is_loopback(here.hostname) and is_loopback(there.hostname):
        return there.scheme in PORTS
    return there.scheme == "https" and (not _is_inside(there.hostname) or _is_inside(here.hostname))


def open_page(address: str) -> bool:
    """Open a browser of the person's desktop; False where there is none, as over ssh."""
    # Without a display the standard library would start a text browser in this very terminal.
    if os.name == "posix" and os.uname().sysname != "Darwin" and not _has_desktop():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def _has_desktop() -> bool:
    return any(os.environ.get(name) for name in (*DISPLAYS, "BROWSER"))


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        return parts if parts.port is None or parts.port else None
    except ValueError:
        return None


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _is_inside(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False
