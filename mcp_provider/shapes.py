"""What a revision takes and gives: the shape of params, the members of results and tools (checklist W17, W30-W33)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.jsonrpc import INVALID_PARAMS
from mcp_types.methods import validate_client_request
from pydantic import ValidationError

from mcp_provider.icons import ICONS_SINCE
from mcp_provider.messages import RpcError
from mcp_provider.wire import Request, Terms

SERVER_VERSION = "0.1.0"
ANNOTATIONS_SINCE, STRUCTURED_SINCE = "2025-03-26", "2025-06-18"  # with structured content came titles and links
ABSENT_WHEN_NULL = {"tools/call": "arguments", "prompts/get": "arguments", "completion/complete": "context"}


@dataclass(frozen=True, slots=True)
class Caching:
    """For how long a client may keep a result, and whether it may show it to others (W33)."""

    ttl_ms: int
    scope: str = "private"


def checked(request: Request, terms: Terms) -> Request:
    """Give the request with params of the shape that the revision's own schema wants; null means left out."""
    optional = ABSENT_WHEN_NULL.get(request.method, "cursor")
    params = request.params
    if params.get(optional, ...) is None:
        params = {name: value for name, value in params.items() if name != optional}
    try:
        validate_client_request(request.method, terms.version, params)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"][:3]) or "params"
        raise RpcError(INVALID_PARAMS, f"{where} doesn't have the shape that {request.method} takes.") from None
    return replace(request, params=params)


def written(
    members: Mapping[str, Any], terms: Terms, server_info: Mapping[str, Any], caching: Caching | None = None
) -> bytes:
    """Write a result; the modern revision wants to be told that it is whole, who gives it, and how to cache it."""
    if not terms.modern:
        return orjson.dumps(members)
    hints = {} if caching is None else {"ttlMs": caching.ttl_ms, "cacheScope": caching.scope}
    meta = {SERVER_INFO_META_KEY: server_info}
    return orjson.dumps({"resultType": "complete", **members, **hints, "_meta": meta})


def tool_in_revision(tool: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Leave out what `version` doesn't know; a title then stands among the annotations (W17)."""
    known = dict(tool)
    if version < ICONS_SINCE:
        known.pop("icons", None)
    if version >= STRUCTURED_SINCE:
        return known
    title = known.pop("title")
    for unknown in ("outputSchema", "securitySchemes", "_meta"):
        known.pop(unknown, None)
    hints = known.pop("annotations")
    if version >= ANNOTATIONS_SINCE:
        known["annotations"] = {"title": title, **hints}
    return known
