"""`resources/*`: what can be read by its address, each the answer of a built-in flow, had through the door.

So rights, audit and traces are those of the flow; a list only leaves out what this grant couldn't read.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

from core.documents import Documents
from flows.arguments import InvalidArguments
from flows.builtin import NoSuchFlow, NoSuchRun
from flows.content import Audio, Embedded, Image, Link, Text
from flows.envelope import Envelope, Refusal, Status
from flows.operation import Flow, asked_fields
from flows.registry import Registry
from mcp_provider.calls import stop_at_missing_scope
from mcp_provider.messages import RpcError
from mcp_provider.pages import Pager
from mcp_provider.results import refusal_data
from mcp_provider.shapes import STRUCTURED_SINCE
from mcp_provider.wire import Terms
from policy.addresses import SCHEME, Address, Kind, find_address
from policy.dispatch import Call, Door
from policy.principal import Principal
from policy.scopes import Scopes
from policy.search import NothingThere

NOT_FOUND = -32002  # before 2026-07-28, which says -32602 (checklist T15)
READ = "resources/read"
JSON, MARKDOWN = "application/json", "text/markdown"
UNKNOWN = frozenset({NothingThere.code, NoSuchFlow.code, NoSuchRun.code})
MANIFEST, SCHEMA, EFFECTS, TRACE, FETCH = "manifest.get", "schema.get", "effects.get", "traces.get", "fetch"
READ_BY: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {Kind.MANIFEST: (MANIFEST,), Kind.FLOW: (MANIFEST, SCHEMA, EFFECTS), Kind.RUN: (TRACE,), Kind.DOC: (FETCH,)}
)
VALUE = r"[A-Za-z0-9._~-]{1,200}"  # what stands for a name in an application's address: nothing is decoded
PLAIN = "text/plain"
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """The addresses of one kind, and what stands for a name in them."""

    kind: Kind
    variable: str
    title: str
    description: str

    @property
    def uri(self) -> str:
        """The URI template (RFC 6570, level 1)."""
        return f"{SCHEME}{self.kind}/{{{self.variable}}}"


TEMPLATES = (
    Template(Kind.FLOW, "flowId", "A flow", "One flow: schemas, effects declared and seen, scope and rule."),
    Template(Kind.RUN, "runId", "A run", "One run: how it ended, and every effect that it really had."),
    Template(Kind.DOC, "name", "A page of the documentation", "One page of this version's documentation."),
)
MANIFEST_TITLE = "What can be done here"
MANIFEST_WORDS = "Every flow that you could be allowed to call: effects, scope, rule, and whether it is granted."


class Resources:
    """Lists and reads what has an address."""

    def __init__(self, *, registry: Registry, scopes: Scopes, door: Door, documents: Documents, pager: Pager) -> None:
        self._registry = registry
        self._scopes = scopes
        self._door = door
        self._documents = documents
        self._pager = pager
        self._applications = [(_pattern(flow.resource), flow) for flow in registry if flow.resource is not None]
        self._reads: dict[Kind, Callable[[Principal, Address], str]] = {
            Kind.MANIFEST: lambda principal, _address: _written(self._answer(principal, MANIFEST)),
            Kind.FLOW: self._flow,
            Kind.RUN: lambda principal, address: _written(self._answer(principal, TRACE, runId=address.name)),
            Kind.DOC: lambda principal, address: str(self._answer(principal, FETCH, id=str(address))["text"]),
        }

    def page(self, principal: Principal, version: str, cursor: str | None) -> dict[str, Any]:
        """Give one page of the list; raise RpcError for a bad cursor. Runs aren't listed: traces_list does."""
        return self._pager.page(principal, "resources", list(self._listed(principal, version)), cursor)

    def templates_page(self, principal: Principal, version: str, cursor: str | None) -> dict[str, Any]:
        """Give one page of the templates."""
        shown = [
            _named(
                {"uriTemplate": one.uri, "name": one.kind.value}, one.title, one.description, _mime(one.kind), version
            )
            for one in TEMPLATES
            if self.may_read(principal, one.kind)
        ]
        shown += [_of_application("uriTemplate", flow, version) for flow in self._readable(principal, templates=True)]
        return self._pager.page(principal, "resourceTemplates", shown, cursor)

    def may_read(self, principal: Principal, kind: Kind) -> bool:
        """Tell whether this grant holds what reading things of this kind needs."""
        flows = [self._registry.find(flow_id) for flow_id in READ_BY[kind]]
        return all(flow is not None and self._holds(principal, flow) for flow in flows)

    def read(self, principal: Principal, terms: Terms, uri: str) -> dict[str, Any]:
        """Give a reading's members; raise RpcError for what isn't there or isn't the caller's, or ScopeMissing."""
        try:
            return {"contents": self.contents(principal, uri)}
        except NothingThere:
            code = INVALID_PARAMS if terms.modern else NOT_FOUND
            data = {"code": NothingThere.code, "uri": uri}
            raise RpcError(code, "There is nothing to read at this address.", data=data) from None

    def contents(self, principal: Principal, uri: str) -> list[dict[str, Any]]:
        """Give what is at an address; raise NothingThere, or ScopeMissing."""
        address = find_address(uri)
        if address is not None:
            text = self._reads[address.kind](principal, address)
            return [{"uri": uri, "mimeType": _mime(address.kind), "text": text}]
        for pattern, flow in self._applications:
            named = pattern.fullmatch(uri)
            if named is not None:
                return self._of_flow(principal, uri, flow, named.groupdict())
        self._door.note_refused(principal, READ, NothingThere.code)
        raise NothingThere

    def may_attach(self, principal: Principal, template: str) -> bool:
        """Tell whether what has addresses of this form may be read."""
        address = find_address(template.format(**dict.fromkeys(asked_fields(template), "x")))
        if address is not None:
            return self.may_read(principal, address.kind)
        return any(flow.resource == template and self._holds(principal, flow) for _, flow in self._applications)

    def names(self, principal: Principal, kind: Kind) -> list[str]:
        """Give the names of one kind that the caller may read; none of runs, which aren't listed."""
        if not self.may_read(principal, kind):
            return []
        if kind is Kind.FLOW:
            return [flow.id for flow in self._flows(principal)]
        return [page.name for page in self._documents] if kind is Kind.DOC else []

    def _listed(self, principal: Principal, version: str) -> Iterator[dict[str, Any]]:
        # Like its tool the manifest is always listed: it names what could be granted.
        yield _entry(Address(Kind.MANIFEST), MANIFEST_TITLE, MANIFEST_WORDS, version)
        if self.may_read(principal, Kind.FLOW):
            for flow in self._flows(principal):
                yield _entry(Address(Kind.FLOW, flow.id), flow.title, " ".join(flow.summary.split()), version)
        if self.may_read(principal, Kind.DOC):
            for page in self._documents:
                yield _entry(Address(Kind.DOC, page.name), page.title, "Documentation.", version)
        yield from (_of_application("uri", flow, version) for flow in self._readable(principal, templates=False))

    def _readable(self, principal: Principal, *, templates: bool) -> list[Flow]:
        """Give the application's flows with an address, or with a form of addresses."""
        flows = [flow for pattern, flow in self._applications if bool(pattern.groups) is templates]
        return [flow for flow in flows if self._holds(principal, flow)]

    def _holds(self, principal: Principal, flow: Flow) -> bool:
        return not self._scopes.missing(flow, principal.scopes)

    def _flows(self, principal: Principal) -> list[Flow]:
        """Give the flows of the manifest."""
        held = self._scopes.of_role(principal.caller.role)
        return [flow for flow in self._registry if not self._scopes.missing(flow, held)]

    def _flow(self, principal: Principal, address: Address) -> str:
        found = self._answer(principal, MANIFEST, query=address.name)["flows"]
        entry: Answer | None = next((one for one in found if one["flowId"] == address.name), None)
        if entry is None:
            raise NothingThere
        more = [self._answer(principal, flow_id, flowId=address.name) for flow_id in (SCHEMA, EFFECTS)]
        return _written({**entry, **more[0], **more[1]})

    def _of_flow(self, principal: Principal, uri: str, flow: Flow, arguments: dict[str, str]) -> list[dict[str, Any]]:
        """Give the content of an application's flow, or where it has none its result."""
        try:
            envelope = self._ran(principal, flow.id, arguments)
        except InvalidArguments:
            raise NothingThere from None
        found = [_content(uri, one) for one in envelope.contents if not isinstance(one, Link)]
        return found or [{"uri": uri, "mimeType": JSON, "text": _written(envelope.result or {})}]

    def _answer(self, principal: Principal, flow_id: str, **arguments: str) -> Answer:
        return dict(self._ran(principal, flow_id, arguments).result or {})

    def _ran(self, principal: Principal, flow_id: str, arguments: dict[str, str]) -> Envelope:
        envelope = self._door.dispatch(principal, Call(flow_id, arguments, tool=READ))
        if envelope.status is Status.DONE:
            return envelope
        stop_at_missing_scope(envelope)
        raise _refused(envelope)


def _pattern(template: str) -> re.Pattern[str]:
    """Give what the addresses of an application's flow look like."""
    parts = re.split(r"{(\w+)}", template)  # literal, name, literal, …
    return re.compile("".join(f"(?P<{part}>{VALUE})" if at % 2 else re.escape(part) for at, part in enumerate(parts)))


def _content(uri: str, content: Image | Audio | Embedded | Text) -> dict[str, Any]:
    match content:
        case Image() | Audio():
            return {"uri": uri, "mimeType": content.mime, "blob": base64.b64encode(content.data).decode()}
        case Embedded():
            return {"uri": content.uri, "mimeType": content.mime, "text": content.text}
        case Text():
            return {"uri": uri, "mimeType": PLAIN, "text": content.text}


def _of_application(address: str, flow: Flow, version: str) -> dict[str, Any]:
    titled = {"title": flow.title} if version >= STRUCTURED_SINCE else {}
    return {address: flow.resource, "name": flow.id, **titled, "description": " ".join(flow.summary.split())}


def _entry(address: Address, title: str, description: str, version: str) -> dict[str, Any]:
    named = {"uri": str(address), "name": address.name or address.kind.value}
    return _named(named, title, description, _mime(address.kind), version)


def _named(named: dict[str, Any], title: str, description: str, mime: str, version: str) -> dict[str, Any]:
    titled = {"title": title} if version >= STRUCTURED_SINCE else {}
    return {**named, **titled, "description": description, "mimeType": mime}


def _mime(kind: Kind) -> str:
    return MARKDOWN if kind is Kind.DOC else JSON


def _refused(envelope: Envelope) -> Exception:
    refusal = envelope.refusal or Refusal(envelope.status, "This can't be read now.")
    if refusal.code in UNKNOWN:
        return NothingThere()
    return RpcError(INTERNAL_ERROR, refusal.message, data=refusal_data(refusal))


def _written(data: Mapping[str, Any]) -> str:
    return orjson.dumps(data).decode()
