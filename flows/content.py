"""What a prompt, or a flow beside its structured result, hands to an agent: text, pictures, sound, documents, links.

Bytes and whole texts travel once, as content of their own; in the structured result only their kind stands for them.
"""

from typing import Annotated

from pydantic import Field

from flows.operation import Result


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
