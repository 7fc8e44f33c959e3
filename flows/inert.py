"""A flow's result as inert data: plain JSON, no handles, no secrets, not too much of it."""

from dataclasses import dataclass
from typing import Any

import orjson

from flows.content import Content, contents_of, size_of
from flows.marks import marks_of, masked
from flows.operation import FlowError, Result


class ResultTooLarge(FlowError):
    """The result is over the cap of an envelope."""

    code = "result_too_large"
    public = "The result is too large. Ask for less, with a smaller limit or a narrower filter. Nothing was changed."
    remedy = "Ask for less: a smaller limit, a narrower filter. COUNTERSIGN_RESULT_BYTES is the cap."


@dataclass(frozen=True, slots=True)
class Inert:
    """A result as plain JSON data, and the content that travels beside it."""

    data: dict[str, Any]
    contents: tuple[Content, ...] = ()


def inert(result: Result, limit: int) -> Inert:
    """Give a result without handles, secret values masked; raises ResultTooLarge over `limit` bytes."""
    serializer = result.__pydantic_serializer__
    data: dict[str, Any] = serializer.to_python(result, mode="json", by_alias=True, exclude_none=True)
    marks = marks_of(type(result))
    if marks:
        data = masked(data, marks)
    contents = contents_of(result)
    size = len(orjson.dumps(data)) + sum(map(size_of, contents))
    if size > limit:
        raise ResultTooLarge(detail=f"{size} bytes")
    return Inert(data, contents)
