"""From the bytes of an authenticated POST to the bytes of its answer; the one translator of errors at this surface."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson
from mcp_types.jsonrpc import INTERNAL_ERROR

from auth.bearer import Bearer, Challenge
from core.clock import Clock
from core.errors import AppError
from core.logs import reference
from flows.caller import Surface
from mcp_provider import wire
from mcp_provider.calls import ScopeMissing
from mcp_provider.messages import RequestId, RpcError, error_message, invalid_request, read_json, result_message
from mcp_provider.methods import Methods
from mcp_provider.sessions import Session, Sessions
from mcp_provider.streams import EventStream, Streams, progress_token
from mcp_provider.watching import IsGone, Waiting, is_closed
from policy.cancellations import Cancellations
from policy.principal import Principal

WWW_AUTHENTICATE = "mcp/www_authenticate"  # ChatGPT's key for a challenge in a body

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer: a body, or the stream that stands for it; an empty body has no content type."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: EventStream | None = None

    @classmethod
    def of_json(cls, body: Any, status: int, headers: Mapping[str, str]) -> "Reply":
        """Give the reply with `body` written as JSON."""
        return cls(orjson.dumps(body), status, headers)


@dataclass(frozen=True, slots=True)
class Posted:
    """What came with a body: its headers, the forms of answer that it takes, and the connection that it came by."""

    headers: wire.Headers
    accepts: wire.Accepts
    connection: Any = None


ACCEPTED = Reply(b"", 202)
BATCHED = Posted(wire.BATCHED, wire.Accepts(json=True, stream=False))


class Endpoint:
    """Answers messages for a principal."""

    def __init__(
        self, methods: Methods, sessions: Sessions, bearer: Bearer, cancellations: Cancellations, clock: Clock
    ) -> None:
        self._methods = methods
        self._sessions = sessions
        self._bearer = bearer
        self._cancellations = cancellations
        self._clock = clock
        self._streams = Streams()

    def principal(self, authorization: str | None) -> Principal | Challenge:
        """Give who calls; raise RpcError when that can't be found out now."""
        try:
            return self._bearer.principal(authorization, Surface.MCP)
        except Exception as error:  # noqa: BLE001 - the one translator of this surface
            raise _translated(error, http_status=500) from None

    def reply(self, principal: Principal, posted: Posted, raw: bytes) -> Reply:
        """Give the reply to one body: a notification, a request, or a list of them; raise RpcError for no message."""
        body, headers = read_json(raw), posted.headers
        if wire.is_notification(body):
            return self._heard(principal, headers, body)
        find_session = partial(self._sessions.find, principal)
        if isinstance(body, list) and wire.batch_allowed(headers, find_session):
            return self._reply_to_all(principal, body)
        if wire.is_response(body) and not headers.look_modern:
            return ACCEPTED
        return self._reply_to_one(principal, posted, body, find_session)

    def _heard(self, principal: Principal, headers: wire.Headers, body: Any) -> Reply:
        """Take a notification; in 2026-07-28 a client that doesn't want an answer closes its stream instead (W20)."""
        request_id = wire.cancelled_id(body)
        if request_id is not None and not headers.look_modern:
            self._cancellations.note(self._cancellations.key(principal, headers.session, request_id))
        return ACCEPTED

    def _reply_to_one(self, principal: Principal, posted: Posted, body: Any, find_session: wire.FindSession) -> Reply:
        headers = posted.headers
        try:
            request = wire.request_of(body)
            terms = wire.terms_of(request, headers, find_session)
        except RpcError as error:
            return error_reply(wire.id_of(body), error, omit_id=headers.look_modern)
        is_gone = self._is_gone(principal, posted, request, terms)
        token = progress_token(request.params)
        if request.method != "tools/call" or not posted.accepts.stream or (token is None and posted.accepts.json):
            return self._answered(principal, replace(request, watch=Waiting(is_gone)), terms)
        stream = EventStream(
            self._streams,
            is_gone=is_gone,
            is_closed=partial(is_closed, posted.connection),
            token=token,
            ends_when_closed=terms.modern,
        )
        reply: Reply | None = stream.run(lambda: self._answered(principal, replace(request, watch=stream), terms))
        return Reply(b"", stream=stream) if reply is None else reply

    def _is_gone(self, principal: Principal, posted: Posted, request: wire.Request, terms: wire.Terms) -> IsGone:
        if terms.modern:
            return partial(is_closed, posted.connection)
        key = partial(self._cancellations.key, principal, posted.headers.session, request.id)
        since = self._clock.now()
        return lambda: self._cancellations.is_noted(key(), since)

    def _answered(self, principal: Principal, request: wire.Request, terms: wire.Terms) -> Reply:
        """Give the reply to a request whose envelope holds, whatever comes of it."""
        try:
            answer = self._methods.answer(principal, request, terms)
        except ScopeMissing as error:
            challenge = self._bearer.forbidden(principal, error.refusal).header
            # Told in the body too: one 200 may carry many answers, and some hosts read only bodies.
            error.data = {**error.data, "_meta": {WWW_AUTHENTICATE: [challenge]}}
            return error_reply(request.id, error, headers={"WWW-Authenticate": challenge})
        except Exception as error:  # noqa: BLE001 - the one translator of this surface
            return error_reply(request.id, _translated(error), omit_id=terms.modern)
        named = {} if answer.session_id is None else {"Mcp-Session-Id": answer.session_id}
        return Reply(result_message(request.id, answer.result), headers=named)

    def _reply_to_all(self, principal: Principal, messages: list[Any]) -> Reply:
        """Answer a list of 2025-03-26: each request for itself, in one 200 (W3)."""
        if not 1 <= len(messages) <= wire.LONGEST_BATCH:
            raise invalid_request(f"A list of messages has 1 to {wire.LONGEST_BATCH} of them.")
        if any(isinstance(message, dict) and message.get("method") == "initialize" for message in messages):
            raise invalid_request("initialize can't be part of a list of messages.")
        silent = (message for message in messages if not (wire.is_notification(message) or wire.is_response(message)))
        answers = [self._reply_to_one(principal, BATCHED, message, _no_session).body for message in silent]
        return Reply(b"[%b]" % b",".join(answers)) if answers else ACCEPTED


def error_reply(
    request_id: RequestId | None, error: RpcError, *, omit_id: bool = False, headers: Mapping[str, str] | None = None
) -> Reply:
    """Give an error as an HTTP answer."""
    body = error_message(request_id, error, reference.get(), omit_id=omit_id)
    again = {"Retry-After": "1"} if error.http_status == 503 else {}
    return Reply(body, error.http_status, {**again, **(headers or {})})


def _translated(error: Exception, *, http_status: int = 200) -> RpcError:
    """Word what was raised: internals go to the log under the same reference, never to the wire (design D9)."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, AppError):
        log.error("%s: %s", error.code, error.detail or error.public)
        status = error.status if error.status == 503 else http_status
        return RpcError(INTERNAL_ERROR, error.public, http_status=status, data={"code": error.code})
    log.error("unhandled %s", type(error).__name__, exc_info=error)
    return RpcError(INTERNAL_ERROR, AppError.public, http_status=http_status, data={"code": AppError.code})


def _no_session(_text: str) -> Session | None:
    return None
