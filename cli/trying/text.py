"""A stranger's text, made safe for a terminal: nothing of it moves the cursor, hides or reorders anything."""

import json
import re
from typing import Any

REPLACED = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
LINES = re.compile(r"\r\n|\n")


def line(text: str, longest: int = 0) -> str:
    """Give `text` as one line of printable characters, cut to `longest` where that isn't 0."""
    if longest and len(text) > 4 * longest:
        text = text[: 4 * longest]
    flat = "".join(letter if letter.isprintable() else REPLACED for letter in " ".join(text.split()))
    return flat if not longest or len(flat) <= longest else flat[: longest - 1] + ELLIPSIS


def block(text: str) -> str:
    """Give `text` with its own line breaks and nothing else that isn't printable; a tab becomes spaces."""
    return "\n".join(_printable(one.expandtabs(4)) for one in LINES.split(text))


def document(value: Any, *, indent: int | None = 2) -> str:
    """Give `value` as JSON in which whatever isn't printable is escaped: the same document, harmless to show."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(letter if letter.isprintable() or letter == "\n" else _escaped(letter) for letter in text)


def compact(value: Any, longest: int) -> str:
    """Give `value` as JSON on one line, cut to `longest`."""
    return line(document(value, indent=None), longest)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else REPLACED for letter in text)


def _escaped(letter: str) -> str:
    return json.dumps(letter)[1:-1] if ord(letter) != 0x7F else "\\u007f"
