"""One address, two eras: which revision a request speaks, and whether its envelope holds (checklist W20-W24, W51-W53).

The SDK has the same ladder in `mcp.shared.inbound`, but importing it loads the SDK's client and server (20 MB, 0.2 s);
`tests/mcp_provider/test_wire.py` holds ours against it.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, DEFAULT_NEGOTIATED_VERSION, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from flows.watch import UNWATCHED, Watch
from mcp_provider.messages import RequestId, RpcError, invalid_request
from mcp_provider.sessions import Session

ENVELOPE_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)
NAME_HEADER_OF = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
BATCH_VERSION = "2025-03-26"  # the only revision with arrays (W3)
LONGEST_BATCH = 20
USUAL_ACCEPTS = ("application/json, text/event-stream", "text/event-stream, application/json")
ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers that name a message, without the white space around them."""

    version: str | None
    method: str | None
    name: str | None
    session: str | None

    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> "Headers":
        """Take them from a WSGI environment."""
        found = (environ.get(f"HTTP_MCP_{name}") for name in ("PROTOCOL_VERSION", "METHOD", "NAME", "SESSION_ID"))
        return cls(*(value.strip(" \t") if value is not None else None for value in found))

    @property
    def one_version(self) -> str | None:
        """The version, also where proxies doubled the header with equal values (X6)."""
        if self.version is None or "," not in self.version:
            return self.version
        parts = {part.strip() for part in self.version.split(",")}
        return parts.pop() if len(parts) == 1 else self.version

    @property
    def look_modern(self) -> bool:
        """Whether they alone say 2026-07-28 or later (W51 d); an older version counts more than `Mcp-Method`."""
        version = self.one_version
        if version is None:
            return self.method is not None
        # mcp-remote 0.15 names the method in every revision, and the SDKs go by the version alone.
        return version not in HANDSHAKE_PROTOCOL_VERSIONS and (
            self.method is not None or version >= LATEST_MODERN_VERSION
        )


@dataclass(frozen=True, slots=True)
class Accepts:
    """In which forms the client takes an answer; one that says nothing takes JSON (W10)."""

    json: bool
    stream: bool

    @classmethod
    def of(cls, header: str | None) -> "Accepts":
        """Read an Accept header."""
        if header is None or header in USUAL_ACCEPTS:
            return cls(json=True, stream=header is not None)
        given = parse_accept_header(header, MIMEAccept)
        # `*/*` and `application/*` are said by clients that have never seen an event stream.
        return cls(json=given["application/json"] > 0, stream=any(_is_stream(value, q) for value, q in given))


BATCHED = Headers(version=BATCH_VERSION, method=None, name=None, session=None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What both sides agreed on for one request."""

    modern: bool
    version: str
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Request:
    """A well-formed request: its id is to be echoed, its params are an object."""

    id: RequestId
    method: str
    params: dict[str, Any]
    watch: Watch = UNWATCHED  # whoever waits for its answer


FindSession = Callable[[str], Session | None]


def is_notification(body: Any) -> bool:
    """Tell whether `body` is a well-formed notification, which is taken and answered by nothing (W9, W20)."""
    return _is_message(body) and "id" not in body and isinstance(body.get("params", {}), dict | None)


def is_response(body: Any) -> bool:
    """Tell whether `body` answers a request that we never sent."""
    return isinstance(body, dict) and "method" not in body and ("result" in body or "error" in body)


def request_of(body: Any) -> Request:
    """Give the request that `body` is; raise RpcError (-32600) for every other shape."""
    if isinstance(body, list):
        raise invalid_request("A list of messages is part of revision 2025-03-26 only.")
    request_id = id_of(body)
    if not _is_message(body) or request_id is None:
        raise invalid_request("This is not a JSON-RPC 2.0 request: it needs jsonrpc, id and method.")
    params = body.get("params")
    if params is not None and not isinstance(params, dict):
        raise invalid_request("params must be an object.")
    return Request(request_id, body["method"], params or {})


def id_of(body: Any) -> RequestId | None:
    """Give the id of a message where it has one that may be echoed: text or an integer."""
    found = body.get("id") if isinstance(body, dict) else None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def terms_of(request: Request, headers: Headers, find_session: FindSession) -> Terms:
    """Say by which revision `request` is to be read (W51); raise RpcError where its envelope doesn't hold (W53)."""
    meta = request.params.get("_meta")
    if isinstance(meta, dict) and any(key.startswith(ENVELOPE_KEYS) for key in meta):
        return _modern_terms(request, headers)
    if request.method == "initialize":
        return Terms(modern=False, version=DEFAULT_NEGOTIATED_VERSION, capabilities=frozenset())
    session = find_session(headers.session) if headers.session else None
    # X4: a client that upgraded its header but not its session still speaks the revision of the session.
    skewed = session is not None and headers.method is None and headers.one_version in MODERN_PROTOCOL_VERSIONS
    if headers.look_modern and not skewed:
        return _modern_terms(request, headers)
    return _legacy_terms(headers, session, skewed=skewed)


def batch_allowed(headers: Headers, find_session: FindSession) -> bool:
    """Tell whether a list of messages is read: in 2025-03-26, which no version at all stands for (W3, W8)."""
    if headers.version is not None:
        return headers.one_version == BATCH_VERSION
    session = find_session(headers.session) if headers.session else None
    return headers.method is None and (session is None or session.version == BATCH_VERSION)


def cancelled_id(body: Any) -> RequestId | None:
    """Give the id of the call that a notification takes back; None for every other notification."""
    if body["method"] != "notifications/cancelled" or not isinstance(body.get("params"), dict):
        return None
    return id_of({"id": body["params"].get("requestId")})


def named_capabilities(declared: Mapping[str, Any]) -> frozenset[str]:
    """Give the names of the capabilities that a client declared."""
    return frozenset(name for name, value in declared.items() if isinstance(value, dict))


def decoded(value: str | None) -> str | None:
    """Give what a header says, `=?base64?…?=` resolved (W22); None for what is absent or can't be trusted."""
    if value is None or not value.isascii() or not value.isprintable():
        return None
    match = ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        raw = base64.b64decode(match[1], validate=True)
        # One text has one encoding: a second spelling could be read otherwise by whoever routes on it.
        return raw.decode() if base64.b64encode(raw).decode() == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_stream(value: str, quality: float) -> bool:
    return value.lower().partition(";")[0].strip() == "text/event-stream" and quality > 0


def _is_message(body: Any) -> bool:
    return isinstance(body, dict) and body.get("jsonrpc") == "2.0" and isinstance(body.get("method"), str)


def _legacy_terms(headers: Headers, session: Session | None, *, skewed: bool) -> Terms:
    given = None if skewed else headers.one_version
    if given is not None and given not in HANDSHAKE_PROTOCOL_VERSIONS:
        error = invalid_request("MCP-Protocol-Version names a revision that this server doesn't speak.")
        error.data["supported"] = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
        raise error
    if session is not None:
        return Terms(modern=False, version=session.version, capabilities=session.capabilities)
    return Terms(modern=False, version=given or DEFAULT_NEGOTIATED_VERSION, capabilities=frozenset())


def _modern_terms(request: Request, headers: Headers) -> Terms:
    version, capabilities = _envelope(request.params.get("_meta"))
    if headers.version != version:
        raise _mismatch("MCP-Protocol-Version")
    if headers.method != request.method:
        raise _mismatch("Mcp-Method")
    named = request.params.get(NAME_HEADER_OF.get(request.method, ""))
    if named is not None and decoded(headers.name) != named:
        raise _mismatch("Mcp-Name")
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": version}
        raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version.", http_status=400, data=data)
    return Terms(modern=True, version=version, capabilities=named_capabilities(capabilities))


def _envelope(meta: Any) -> tuple[str, dict[str, Any]]:
    """Give version and capabilities; the SDK lets `clientCapabilities: null` pass, which declares nothing readable."""
    given = meta if isinstance(meta, dict) else {}
    version, capabilities = (given.get(key) for key in ENVELOPE_KEYS)
    if not isinstance(version, str):
        raise _bad_envelope(f"{PROTOCOL_VERSION_META_KEY} must be text.")
    if not isinstance(capabilities, dict):
        raise _bad_envelope(f"{CLIENT_CAPABILITIES_META_KEY} must be an object.")
    return version, capabilities


def _bad_envelope(what: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"params._meta is needed with every request: {what}", http_status=400)


def _mismatch(header: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {header} must be there and equal the body.", http_status=400)
