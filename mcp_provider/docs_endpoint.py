"""The documentation's MCP server as a WSGI application: `POST /mcp` in both eras, and `GET /health`.

Everybody on this machine may read, so there is no bearer check; Host and Origin keep out pages that a browser loaded
from elsewhere. The order of the checks is that of the application's own endpoint (checklist W53).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson
from mcp_types.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from werkzeug.http import parse_options_header

from core.errors import InvalidCursor
from core.ids import Chance
from mcp_provider import wire
from mcp_provider.docs_tools import DocsTools
from mcp_provider.messages import RequestId, RpcError, error_message, invalid_request, read_json, result_message
from mcp_provider.origins import is_loopback_origin
from mcp_provider.sessions import Session
from mcp_provider.shapes import SERVER_VERSION, STRUCTURED_SINCE, Caching, checked, written

BODY_LIMIT = 100_000
MCP_PATHS, HEALTH_PATH = ("/mcp", "/mcp/"), "/health"
NAMES = ("localhost", "127.0.0.1", "[::1]")
JSON = "application/json"
MCP_METHODS, HEALTH_METHODS = "POST, OPTIONS", "GET, HEAD"
ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
ADMITTED = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Mcp-Session-Id"}
PREFLIGHT = {
    "Access-Control-Allow-Methods": MCP_METHODS,
    "Access-Control-Allow-Headers": "Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id",
    "Access-Control-Max-Age": "600",
}
STABLE = Caching(ttl_ms=3_600_000, scope="public")  # it changes with the installed version only
CAPABILITIES: dict[str, Any] = {"tools": {}}
INSTRUCTIONS = (
    f"The documentation of Countersign {SERVER_VERSION}, the version that is installed here. docs_search finds "
    "sections by words, docs_get reads one. It knows nothing of a running application and changes nothing."
)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer; an empty body has no content type."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


ACCEPTED = Reply(b"", 202)
Handler = Callable[[wire.Request, wire.Terms], Reply]


class DocsEndpoint:
    """Answers whoever calls by a loopback name and `port`."""

    def __init__(self, tools: DocsTools, port: int, chance: Chance) -> None:
        self._tools = tools
        self._hosts = frozenset(f"{name}:{port}" for name in NAMES)
        self._chance = chance
        both: dict[str, Handler] = {"tools/list": self._list, "tools/call": self._call}
        self._legacy = both | {"initialize": self._initialize, "ping": self._ping}
        self._modern = both | {"server/discover": self._discover}

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        try:
            reply = self._routed(environ)
        except RpcError as error:
            reply = _error_reply(None, error, omit_id=wire.Headers.of(environ).look_modern)
        named = {"Content-Type": JSON} if reply.body else {}
        readable = {} if reply.status == 403 else ADMITTED
        headers = {**ALWAYS, **readable, **named, **reply.headers, "Content-Length": str(len(reply.body))}
        start(f"{reply.status} {HTTPStatus(reply.status).phrase}", list(headers.items()))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply.body]

    def _routed(self, environ: WSGIEnvironment) -> Reply:
        self._check_caller(environ)
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == HEALTH_PATH:
            return _health(method)
        if path not in MCP_PATHS:
            raise invalid_request("There is nothing at this address; /mcp is the one for MCP.", 404)
        if method == "OPTIONS":
            return Reply(b"", 204, PREFLIGHT)
        if method != "POST":
            return _wrong_method(MCP_METHODS)
        return self._answer(wire.Headers.of(environ), read_json(_body(environ)))

    def _check_caller(self, environ: WSGIEnvironment) -> None:
        """Raise RpcError (403) for a name that was rebound to this machine, and for a foreign page (W40, W41)."""
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            raise invalid_request("This server isn't called by that name.", 403)
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and not is_loopback_origin(origin):
            raise invalid_request("Pages of this origin may not call this server.", 403)

    def _answer(self, headers: wire.Headers, body: Any) -> Reply:
        if wire.is_notification(body):
            return ACCEPTED
        if isinstance(body, list) and wire.batch_allowed(headers, _find_session):
            return self._answer_all(body)
        if wire.is_response(body) and not headers.look_modern:
            return ACCEPTED
        return self._answer_one(headers, body)

    def _answer_all(self, messages: list[Any]) -> Reply:
        """Answer a list of 2025-03-26: each request for itself, in one 200 (W3)."""
        if not 1 <= len(messages) <= wire.LONGEST_BATCH:
            raise invalid_request(f"A list of messages has 1 to {wire.LONGEST_BATCH} of them.")
        if any(isinstance(message, dict) and message.get("method") == "initialize" for message in messages):
            raise invalid_request("initialize can't be part of a list of messages.")
        silent = (message for message in messages if not (wire.is_notification(message) or wire.is_response(message)))
        answers = [self._answer_one(wire.BATCHED, message).body for message in silent]
        return Reply(b"[%b]" % b",".join(answers)) if answers else ACCEPTED

    def _answer_one(self, headers: wire.Headers, body: Any) -> Reply:
        try:
            request = wire.request_of(body)
            terms = wire.terms_of(request, headers, _find_session)
            handler = (self._modern if terms.modern else self._legacy).get(request.method)
            if handler is None:
                status = 404 if terms.modern else 200
                raise RpcError(METHOD_NOT_FOUND, "There is no such method here.", http_status=status)
            return handler(checked(request, terms), terms)
        except RpcError as error:
            return _error_reply(wire.id_of(body), error, omit_id=headers.look_modern)

    def _initialize(self, request: wire.Request, _terms: wire.Terms) -> Reply:
        asked = request.params["protocolVersion"]
        version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        members = {
            "protocolVersion": version,
            "capabilities": CAPABILITIES,
            "serverInfo": _server_info(version),
            "instructions": INSTRUCTIONS,
        }
        # The id remembers the version and gives no right to anything, so it needs no seal (checklist X4).
        session = {"Mcp-Session-Id": f"{version}.{self._chance.bytes(16).hex()}"}
        return Reply(result_message(request.id, orjson.dumps(members)), headers=session)

    def _ping(self, request: wire.Request, _terms: wire.Terms) -> Reply:
        return Reply(result_message(request.id, b"{}"))

    def _discover(self, request: wire.Request, terms: wire.Terms) -> Reply:
        versions = list(MODERN_PROTOCOL_VERSIONS)
        members = {"supportedVersions": versions, "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}
        return _reply(request, members, terms, STABLE)

    def _list(self, request: wire.Request, terms: wire.Terms) -> Reply:
        if "cursor" in request.params:
            raise RpcError(INVALID_PARAMS, InvalidCursor.public, data={"code": InvalidCursor.code})  # there is one page
        return _reply(request, {"tools": self._tools.list(terms.version)}, terms, STABLE)

    def _call(self, request: wire.Request, terms: wire.Terms) -> Reply:
        arguments = request.params.get("arguments") or {}
        return _reply(request, self._tools.call(request.params["name"], arguments, terms.version), terms)


def _find_session(text: str) -> Session | None:
    version = text.partition(".")[0]
    return Session(version, frozenset()) if version in HANDSHAKE_PROTOCOL_VERSIONS else None


def _health(method: str) -> Reply:
    if method not in ("GET", "HEAD"):
        return _wrong_method(HEALTH_METHODS)
    return Reply(orjson.dumps({"status": "ok", "version": SERVER_VERSION}))


def _wrong_method(allowed: str) -> Reply:
    error = invalid_request(f"Only {allowed} are answered here.", 405)
    return _error_reply(None, error, headers={"Allow": allowed})


def _body(environ: WSGIEnvironment) -> bytes:
    """Give the whole body of a POST of JSON within the limit; raise RpcError for every other."""
    mimetype, options = parse_options_header(environ.get("CONTENT_TYPE"))
    if mimetype.lower() != JSON or options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise invalid_request("The content type must be application/json in UTF-8.", 415)
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise invalid_request("The body must come without a content encoding.", 415)
    if not wire.Accepts.of(environ.get("HTTP_ACCEPT")).json:
        raise invalid_request("An answer is application/json.", 406)
    length = environ.get("CONTENT_LENGTH", "")
    if "HTTP_TRANSFER_ENCODING" in environ or not (length.isascii() and length.isdigit()):
        raise invalid_request("The body must come with its Content-Length.", 411)
    if len(length) > len(str(BODY_LIMIT)) or int(length) > BODY_LIMIT:
        raise invalid_request(f"The body must have at most {BODY_LIMIT} bytes.", 413)
    body: bytes = environ["wsgi.input"].read(int(length))
    if len(body) != int(length):
        raise invalid_request("The body is shorter than its Content-Length.")
    return body


def _reply(
    request: wire.Request, members: Mapping[str, Any], terms: wire.Terms, caching: Caching | None = None
) -> Reply:
    return Reply(result_message(request.id, written(members, terms, _server_info(terms.version), caching)))


def _error_reply(
    request_id: RequestId | None,
    error: RpcError,
    *,
    omit_id: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    return Reply(error_message(request_id, error, None, omit_id=omit_id), error.http_status, headers or {})


def _server_info(version: str) -> dict[str, Any]:
    titled = {"title": "Countersign's documentation"} if version >= STRUCTURED_SINCE else {}
    return {"name": "countersign-docs", "version": SERVER_VERSION, **titled}
