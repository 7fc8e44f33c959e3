"""Which spellings of `resource` mean our one protected resource (RFC 8707; checklist S13, case C04)."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from core.settings import Settings

DEFAULT_PORTS = {"https": 443, "http": 80}


def names_us(values: Sequence[str], settings: Settings) -> bool:
    """Tell whether every value is the resource, in any spelling that RFC 3986 6.2 calls the same; none is as well.

    The bare origin counts where it has no other resource, since URL libraries and root lookups cut `/mcp`.
    """
    ours = {_canonical(settings.resource)}
    if not settings.prefix:
        ours.add(_canonical(settings.base_url))
    # RFC 6749 3.1: a parameter without a value counts as left out.
    return all(_canonical(value) in ours for value in values if value)


def _canonical(uri: str) -> tuple[str, str, int | None, str] | None:
    if not uri.isascii() or not uri.isprintable() or any(c in uri for c in "#?@\\ "):
        return None
    try:
        parts = urlsplit(uri)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname or "", port, parts.path.removesuffix("/")
