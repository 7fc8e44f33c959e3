"""Which pages and which names of this server a request may come by: no rebound DNS name, no foreign page (W40, W41)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mcp_types.jsonrpc import INVALID_REQUEST

from core.settings import Settings, is_loopback
from mcp_provider.messages import RpcError


class Origins:
    """Knows the allowed values of Origin and Host; both are compared, none is ever used to build an address."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset({settings.origin, *settings.allowed_origins})
        self._hosts = frozenset(urlsplit(origin).hostname for origin in self._origins)
        self._loopback_origins = not settings.production

    def check(self, environ: Mapping[str, Any]) -> None:
        """Raise RpcError (403) for a foreign Host, or for an Origin that is there and not allowed."""
        if not self._host_is_ours(environ.get("HTTP_HOST", "")):
            raise RpcError(INVALID_REQUEST, "This server isn't called by that name.", http_status=403)
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and not self._is_allowed(origin):
            raise RpcError(INVALID_REQUEST, "Pages of this origin may not call this server.", http_status=403)

    def _host_is_ours(self, host: str) -> bool:
        name = _hostname(f"//{host}")
        # Also in production: a proxy on this machine may call by a loopback name, and a rebound name can't be one.
        return name is not None and (name in self._hosts or is_loopback(name))

    def _is_allowed(self, origin: str) -> bool:
        return origin in self._origins or (self._loopback_origins and is_loopback_origin(origin))


def is_loopback_origin(origin: str) -> bool:
    """Tell whether `origin` is that of a page which this machine itself serves."""
    name = _hostname(origin) if origin.startswith(("http://", "https://")) else None
    return name is not None and is_loopback(name)


def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port is None or parts.port >= 0 else None
    except ValueError:
        return None
