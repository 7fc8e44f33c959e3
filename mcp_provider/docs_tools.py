"""The two tools of the documentation's server: `docs_search` finds sections, `docs_get` reads one."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import orjson
from mcp_types.jsonrpc import INVALID_PARAMS
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import AppError, BadRequest, NotFound
from flows.complaints import complaint
from mcp_provider.docs_index import DocsIndex, Section
from mcp_provider.messages import RpcError
from mcp_provider.shapes import STRUCTURED_SINCE, tool_in_revision

UNKNOWN_TOOL = "unknown_tool"
TEXT = {"type": "string"}
READS_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
FOUND = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "description": "The best first.",
            "items": {
                "type": "object",
                "properties": {"id": TEXT, "title": TEXT, "snippet": TEXT},
                "required": ["id", "title", "snippet"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["results"],
    "additionalProperties": False,
}
READ = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "title": TEXT,
        "text": {"type": "string", "description": "Markdown."},
        "nextId": {"type": "string", "description": "What follows on the same page."},
    },
    "required": ["id", "title", "text"],
    "additionalProperties": False,
}


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Search(_Arguments):
    query: Annotated[str, Field(min_length=1, max_length=500, description="Plain words; nothing in them is syntax.")]
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class _Get(_Arguments):
    id: Annotated[str, Field(min_length=1, max_length=200, description="From docs_search, or a nextId.")]


A = TypeVar("A", bound=_Arguments)


class DocsTools:
    """Declares the tools and answers their calls."""

    def __init__(self, index: DocsIndex) -> None:
        self._index = index
        self._called: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "docs_search": self._search,
            "docs_get": self._get,
        }

    def list(self, version: str) -> list[dict[str, Any]]:
        """Give the declarations as a revision knows them."""
        return [tool_in_revision(tool, version) for tool in DECLARED]

    def call(self, name: str, arguments: Mapping[str, Any], version: str) -> dict[str, Any]:
        """Give the members of a call's result; raise RpcError where there is no such tool."""
        answer = self._called.get(name)
        if answer is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool. There are {' and '.join(self._called)}.", data=NO_TOOL)
        try:
            data = answer(arguments)
        except AppError as error:
            facts = orjson.dumps({"code": error.code, "message": error.public})
            return {"content": [_text(error.public), _text(facts.decode())], "isError": True}
        members: dict[str, Any] = {"content": [_text(orjson.dumps(data).decode())], "isError": False}
        return members | {"structuredContent": data} if version >= STRUCTURED_SINCE else members

    def _search(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        asked = _validated(_Search, arguments)
        hits = self._index.search(asked.query, asked.limit)
        return {"results": [{**_named(hit.section), "snippet": hit.snippet} for hit in hits]}

    def _get(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        section = self._index.find(_validated(_Get, arguments).id)
        if section is None:
            raise NotFound("No section has this id. docs_search finds those that there are.")
        following = {} if section.next_id is None else {"nextId": section.next_id}
        return {**_named(section), "text": section.text, **following}


def _named(section: Section) -> dict[str, Any]:
    return {"id": section.id, "title": section.title}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _validated(model: type[A], raw: Mapping[str, Any]) -> A:
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        raise BadRequest(complaint(error.errors(include_url=False, include_input=False), raw)) from None


def _input_schema(model: type[_Arguments]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for one in (schema, *schema["properties"].values()):
        del one["title"]  # the names say it
    return schema


NO_TOOL = {"code": UNKNOWN_TOOL}
DECLARED = (
    {
        "name": "docs_search",
        "title": "Search Countersign's documentation",
        "description": (
            "Finds sections of the documentation of the installed version of Countersign by words: connecting clients, "
            "writing flows, deploying, security, error codes, decisions. Not for the data or the flows of a running "
            "application: its own MCP server has those."
        ),
        "inputSchema": _input_schema(_Search),
        "outputSchema": FOUND,
        "annotations": READS_ONLY,
    },
    {
        "name": "docs_get",
        "title": "Read a section of Countersign's documentation",
        "description": "Gives one section as Markdown; nextId leads on through its page. Not for finding one: "
        "docs_search does that.",
        "inputSchema": _input_schema(_Get),
        "outputSchema": READ,
        "annotations": READS_ONLY,
    },
)
