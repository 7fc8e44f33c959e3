"""MCP by hand: every header and every byte is the caller's, as an attacker's is."""

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit

MODERN, LEGACY = "2026-07-28", "2025-11-25"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
META = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One HTTP answer: status, headers in lower case, and the body read as JSON where it is JSON."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body as JSON; an assertion error with the body when it isn't."""
        try:
            return json.loads(self.raw)
        except ValueError:
            raise AssertionError(f"{self.status}, not JSON: {self.raw[:500]!r}") from None

    @property
    def result(self) -> dict[str, Any]:
        """The JSON-RPC result; an assertion error when there is none."""
        return self._member("result")

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC error; an assertion error when there is none."""
        return self._member("error")

    @property
    def data(self) -> dict[str, Any]:
        """The structured content of a tool's answer."""
        return dict(self.result["structuredContent"])

    def _member(self, name: str) -> dict[str, Any]:
        body = self.json
        if not isinstance(body, dict) or name not in body:
            raise AssertionError(f"{self.status}, no {name}: {body}")
        return dict(body[name])


class RawMcp:
    """Calls one MCP address over HTTP without any client library."""

    def __init__(self, mcp_url: str, token: str | None = None, *, version: str = MODERN) -> None:
        self.url, self.token, self.version = mcp_url, token, version
        self._ids = count(1)

    def as_version(self, version: str) -> "RawMcp":
        """Return a caller with the same token in another revision."""
        return RawMcp(self.url, self.token, version=version)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        **replaced: Any,
    ) -> RawAnswer:
        """Send one well-formed request; `headers` replaces (None: leaves out) headers, `replaced` body members."""
        given = dict(params or {})
        if self.version == MODERN:
            given["_meta"] = {**self.meta(), **given.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": given} | replaced
        return self.post(json.dumps(body).encode(), self.headers(method, given), headers)

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **named: Any) -> RawAnswer:
        """Send `tools/call`."""
        return self.request("tools/call", {"name": tool, "arguments": dict(arguments or {})}, **named)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> RawAnswer:
        """Send one notification."""
        given = dict(params or {})
        body = {"jsonrpc": "2.0", "method": method, "params": given}
        return self.post(json.dumps(body).encode(), self.headers(method, given))

    def initialize(self, version: str | None = None, capabilities: Mapping[str, Any] | None = None) -> RawAnswer:
        """Send the legacy handshake's first request, without a version header as its clients do."""
        params = {
            "protocolVersion": version or (LEGACY if self.version == MODERN else self.version),
            "capabilities": dict(capabilities or {}),
            "clientInfo": {"name": "raw", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": "initialize", "params": params}
        return self.post(json.dumps(body).encode(), self._plain_headers())

    def meta(self) -> dict[str, Any]:
        """Return the envelope that the modern revision wants in every request."""
        return {META + "protocolVersion": self.version, META + "clientCapabilities": {}}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that this revision wants with a request."""
        found = self._plain_headers() | {"MCP-Protocol-Version": self.version}
        if self.version == MODERN:
            found["Mcp-Method"] = method
            if method in NAMED and NAMED[method] in params:
                found["Mcp-Name"] = str(params[NAMED[method]])
        return found

    def post(
        self, body: bytes, headers: Mapping[str, str], replaced: Mapping[str, str | None] | None = None
    ) -> RawAnswer:
        """Send exactly these bytes with these headers."""
        lower = {name.lower() for name in replaced or {}}
        kept = {name: value for name, value in headers.items() if name.lower() not in lower}
        kept |= {name: value for name, value in (replaced or {}).items() if value is not None}
        return send("POST", self.url, kept.items(), body)

    def _plain_headers(self) -> dict[str, str]:
        found = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        return found | ({"Authorization": f"Bearer {self.token}"} if self.token is not None else {})


def send(
    method: str, url: str, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None, *, seconds: float = 60
) -> RawAnswer:
    """Send one HTTP request as it stands (a header may come twice) and return the answer, redirects included."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    given = list(headers)
    has_host = any(name.lower() == "host" for name, _ in given)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.putrequest(method, target, skip_host=has_host, skip_accept_encoding=True)
        for name, value in given:
            connection.putheader(name, value)
        if body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in given):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return RawAnswer(answer.status, found, answer.read())
    finally:
        connection.close()
