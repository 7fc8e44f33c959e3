"""Content in the words of a revision: what it doesn't know becomes text (checklist T7, W17)."""

import base64
from typing import Any

from flows.content import Audio, Content, Embedded, Image, Link, Text
from mcp_provider.shapes import STRUCTURED_SINCE

AUDIO_SINCE = "2025-03-26"


def content_item(content: Content, version: str) -> dict[str, Any]:
    """Give one item of a `content` list, or the content of one message."""
    match content:
        case Text():
            return text_item(content.text)
        case Image():
            return {"type": "image", **_media(content)}
        case Audio():
            if version < AUDIO_SINCE:
                return text_item(f"A recording ({content.mime}) that this revision of the protocol can't carry.")
            return {"type": "audio", **_media(content)}
        case Link():
            return _link(content, version)
        case Embedded():
            return resource_item({"uri": content.uri, "mimeType": content.mime, "text": content.text})


def text_item(text: str) -> dict[str, Any]:
    """Give a text as an item."""
    return {"type": "text", "text": text}


def resource_item(contents: dict[str, Any]) -> dict[str, Any]:
    """Give what was read of a resource as an item."""
    return {"type": "resource", "resource": contents}


def _media(content: Image | Audio) -> dict[str, str]:
    return {"data": base64.b64encode(content.data).decode(), "mimeType": content.mime}


def _link(content: Link, version: str) -> dict[str, Any]:
    if version < STRUCTURED_SINCE:
        return text_item(f"{content.name}: {content.uri}")
    kind = {} if content.mime is None else {"mimeType": content.mime}
    return {"type": "resource_link", "uri": content.uri, "name": content.name, **kind}
