"""`POST /mcp`: the checks before a message is a message, in their order (checklist W53)."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from mcp_types.jsonrpc import INVALID_REQUEST
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.routing import Rule

from auth.bearer import Bearer, Challenge
from core.clock import Clock
from core.documents import Documents
from core.http import BODY_LIMIT, preflight, with_cors
from core.logs import reference
from core.seal import Sealer
from core.settings import Settings
from flows.prompt import Prompt
from flows.registry import Registry
from flows.trace import Traces
from mcp_provider.calls import Calls
from mcp_provider.completions import Completions
from mcp_provider.endpoint import Endpoint, Posted, Reply, error_reply
from mcp_provider.icons import address_of_icon, server_icon
from mcp_provider.messages import RpcError
from mcp_provider.methods import Methods, Offered
from mcp_provider.origins import Origins
from mcp_provider.pages import Pager
from mcp_provider.prompts import Prompts
from mcp_provider.resources import Resources
from mcp_provider.sessions import Sessions
from mcp_provider.streams import event
from mcp_provider.tools import Tools
from mcp_provider.wire import Accepts, Headers
from policy.cancellations import Cancellations
from policy.dispatch import Door
from policy.scopes import Scopes

ENDPOINT = "mcp.answer"
ALLOWED = "POST, OPTIONS"
JSON = "application/json"
JSON_HEADERS = (("Content-Type", JSON), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
STREAM_HEADERS = (("Content-Type", "text/event-stream"), *JSON_HEADERS[1:], ("X-Accel-Buffering", "no"))
ADDRESSES = ("/mcp", "/mcp/")  # both, since a redirect would turn a POST into a GET (case C04)


def mcp_routes(
    *,
    settings: Settings,
    bearer: Bearer,
    door: Door,
    registry: Registry,
    scopes: Scopes,
    sealer: Sealer,
    traces: Traces,
    documents: Documents,
    prompts: Sequence[Prompt],
    cancellations: Cancellations,
    clock: Clock,
) -> Blueprint:
    """Serve the MCP endpoint of both eras at `/mcp`."""
    blueprint = Blueprint("mcp", __name__)
    sessions = Sessions(sealer)
    pager = Pager(sealer, registry.digest)
    resources = Resources(registry=registry, scopes=scopes, door=door, documents=documents, pager=pager)
    filled = Prompts(prompts, resources, pager)
    offered = Offered(
        tools=Tools(registry, scopes, pager, address_of_icon(settings.base_url), settings.listed_flows),
        calls=Calls(registry, scopes, door),
        resources=resources,
        prompts=filled,
        completions=Completions(registry, traces, resources, filled),
        icon=server_icon(settings.base_url),
    )
    methods = Methods(offered, sessions)
    endpoint = Endpoint(methods, sessions, bearer, cancellations, clock)
    origins = Origins(settings)

    @blueprint.endpoint(ENDPOINT)
    def answer() -> ResponseReturnValue:
        environ = request.environ
        headers = Headers.of(environ)
        try:
            origins.check(environ)
            if environ["REQUEST_METHOD"] == "OPTIONS":
                return preflight(ALLOWED)
            principal = endpoint.principal(environ.get("HTTP_AUTHORIZATION"))
            if isinstance(principal, Challenge):
                return _challenged(principal)
            body, accepts = _body(environ), _accepts(environ)
            posted = Posted(headers, accepts, environ.get("gunicorn.socket"))
            return _response(endpoint.reply(principal, posted, body), as_stream=not accepts.json)
        except RpcError as error:
            return _response(error_reply(None, error, omit_id=headers.look_modern))

    @blueprint.record
    def every_method(state: BlueprintSetupState) -> None:
        # Without a list of methods, so that each of them is judged here and none answered before authentication.
        for address in ADDRESSES:
            state.app.url_map.add(Rule(address, endpoint=ENDPOINT))

    return blueprint


def _body(environ: Mapping[str, Any]) -> bytes:
    """Give the body of a POST of JSON within the limit; raise RpcError with 405, 415 or 413."""
    if environ["REQUEST_METHOD"] != "POST":
        raise _refused(405, "Only POST and OPTIONS are answered here.")
    if environ.get("CONTENT_TYPE") != JSON and not _is_json():
        raise _refused(415, "The content type must be application/json in UTF-8.")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise _refused(415, "The body must come without a content encoding.")
    try:
        return request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise _refused(413, f"The body must have at most {BODY_LIMIT} bytes.") from None
    except HTTPException:
        raise _refused(400, "The body can't be read.") from None


def _accepts(environ: Mapping[str, Any]) -> Accepts:
    accepts = Accepts.of(environ.get("HTTP_ACCEPT"))
    if not accepts.json and not accepts.stream:
        raise _refused(406, "An answer is application/json or text/event-stream.")
    return accepts


def _is_json() -> bool:
    charset = request.mimetype_params.get("charset", "utf-8")
    return request.mimetype == JSON and charset.lower() in ("utf-8", "utf8")


def _refused(http_status: int, public: str) -> RpcError:
    return RpcError(INVALID_REQUEST, public, http_status=http_status)


def _challenged(challenge: Challenge) -> Response:
    body = {**challenge.body, "reference": reference.get()}
    return _response(Reply.of_json(body, challenge.status, {"WWW-Authenticate": challenge.header}))


def _response(reply: Reply, *, as_stream: bool = False) -> Response:
    if reply.stream is not None:
        return with_cors(Response(reply.stream, 200, STREAM_HEADERS))
    if not reply.body:
        empty = with_cors(Response(b"", reply.status, {"Cache-Control": "no-store"}))
        del empty.headers["Content-Type"]  # case C34: nothing has no type
        return empty
    # A client that takes nothing but streams gets one event; an error keeps the form in which every client reads it.
    is_event = as_stream and reply.status == 200
    body, headers = (event(reply.body), STREAM_HEADERS) if is_event else (reply.body, JSON_HEADERS)
    response = with_cors(Response(body, reply.status, headers))
    for name, value in reply.headers.items():
        response.headers[name] = value
    if reply.status == 405:
        response.headers["Allow"] = ALLOWED
    return response
