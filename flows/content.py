"""What a prompt, or a flow beside its structured result, hands to an agent: text, pictures, sound, documents, links.

Bytes and whole texts travel once, as content of their own; in the structured result only their kind stands for them.
"""

from functools import cache
from typing import Annotated, Any, get_args

from pydantic import Field

from flows.operation import Result, Secret


class Text(Result):
    """A text."""

    text: str


class Image(Result):
    """A picture."""

    data: Annotated[bytes, Field(exclude=True)]
    mime: str = "image/png"


class Audio(Result):
    """A recording."""

    data: Annotated[bytes, Field(exclude=True)]
    mime: str = "audio/wav"


class Embedded(Result):
    """A document as a whole, and the address that it is known by."""

    uri: str
    text: Annotated[str, Field(exclude=True)]
    mime: str = "text/plain"


class Link(Result):
    """Where a document is."""

    uri: str
    name: str
    mime: str | None = None


Content = Text | Image | Audio | Embedded | Link
KINDS = get_args(Content)


def contents_of(result: Result) -> tuple[Content, ...]:
    """Give the content that a result's own fields hold, one by one or in a tuple, in their order."""
    found: list[Content] = []
    for name in _fields_with_content(type(result)):
        value = getattr(result, name)
        found += [one for one in (value if isinstance(value, tuple | list) else (value,)) if isinstance(one, KINDS)]
    return tuple(found)


def size_of(content: Content) -> int:
    """Give about how many bytes it takes on its way."""
    match content:
        case Image() | Audio():
            return len(content.data) * 4 // 3
        case Text() | Embedded():
            return len(content.text.encode())
        case Link():
            return len(content.uri)


@cache
def _fields_with_content(model: type[Result]) -> tuple[str, ...]:
    fields = model.model_fields.items()
    return tuple(n for n, field in fields if _holds(field.annotation) and Secret() not in field.metadata)


def _holds(annotation: Any) -> bool:
    return annotation in KINDS or any(_holds(part) for part in get_args(annotation))
