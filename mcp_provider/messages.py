"""JSON-RPC 2.0 as bytes: what comes in is read strictly, what goes out is built once."""

import json
from collections.abc import Mapping
from typing import Any

import orjson
from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from core.errors import AppError

DEEPEST = 64  # levels of a message; far above any real call, far below every parser's own limit
INT_RANGE = range(-(2**63), 2**64)  # beyond it the JSON that we write would not hold the number

# The stable `code` beside the number, for errors that have none of their own (design D9).
NAMES = {
    PARSE_ERROR: "parse_error",
    INVALID_REQUEST: "invalid_request",
    METHOD_NOT_FOUND: "method_not_found",
    INVALID_PARAMS: "invalid_params",
    INTERNAL_ERROR: AppError.code,
    HEADER_MISMATCH: "header_mismatch",
    MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_client_capability",
    UNSUPPORTED_PROTOCOL_VERSION: "unsupported_protocol_version",
}
RequestId = int | str


class RpcError(AppError):
    """A refusal in JSON-RPC's words: `rpc_code`, the HTTP status that carries it, and data for programs."""

    code = "protocol_error"

    def __init__(
        self, rpc_code: int, public: str, *, http_status: int = 200, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(public)
        self.rpc_code = rpc_code
        self.http_status = http_status
        named = {"code": NAMES[rpc_code]} if rpc_code in NAMES else {}
        self.data = {**named, **(data or {})}


def invalid_request(public: str, http_status: int = 400) -> RpcError:
    """Give the refusal of something that is no message (-32600)."""
    return RpcError(INVALID_REQUEST, public, http_status=http_status)


def read_json(raw: bytes) -> Any:
    """Give the value of a body; raise RpcError for what isn't strict JSON, is ambiguous, or is nested without end.

    orjson refuses NaN, infinities, lone surrogates, other encodings and a BOM; the second reading refuses a member
    named twice (readers disagree on which one counts) and integers that orjson would round.
    """
    try:
        orjson.loads(raw)
        value = json.loads(raw.decode(), object_pairs_hook=_each_once, parse_int=_exact)
    except RpcError:
        raise
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body is not valid JSON in UTF-8.", http_status=400) from None
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_too_deep(value):
        raise invalid_request(f"The message is nested more than {DEEPEST} levels deep.")
    return value


def result_message(request_id: RequestId, result: bytes) -> bytes:
    """Give the response that carries an already written result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(request_id), result)


def error_message(request_id: RequestId | None, error: RpcError, reference: str | None, *, omit_id: bool) -> bytes:
    """Give the error response; an id that couldn't be read is null, or absent where the revision wants it so."""
    data = error.data if reference is None else {**error.data, "reference": reference}
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    if request_id is not None or not omit_id:
        body["id"] = request_id
    body["error"] = {"code": error.rpc_code, "message": error.public} | ({"data": data} if data else {})
    return orjson.dumps(body)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise invalid_request("The message names a member twice.")
    return members


def _exact(digits: str) -> int:
    number = int(digits)
    if number not in INT_RANGE:
        raise invalid_request("The message has an integer of more than 64 bits.")
    return number


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner += part.values()
            elif isinstance(part, list):
                inner += part
        if not inner:
            return False
        level = inner
    return True
