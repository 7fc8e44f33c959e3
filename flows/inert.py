"""A flow's result as inert data: plain JSON, no handles, no secrets, not too much of it."""

from typing import Any

import orjson

from flows.marks import marks_of, masked
from flows.operation import FlowError, Result


class ResultTooLarge(FlowError):
    """The result is over the cap of an envelope."""

    code = "result_too_large"
    public = "The result is too large. Ask for less, with a smaller limit or a narrower filter. Nothing was changed."
    remedy = "Ask for less: a smaller limit, a narrower filter. COUNTERSIGN_RESULT_BYTES is the cap."


def inert(result: Result, limit: int) -> dict[str, Any]:
    """Give a result as plain JSON data, secret values masked; raises ResultTooLarge over `limit` bytes."""
    serializer = result.__pydantic_serializer__
    data: dict[str, Any] = serializer.to_python(result, mode="json", by_alias=True, exclude_none=True)
    marks = marks_of(type(result))
    if marks:
        data = masked(data, marks)
    size = len(orjson.dumps(data))
    if size > limit:
        raise ResultTooLarge(detail=f"{size} bytes")
    return data
