"""The installed version's own documentation: the pages of `docs/`, by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Document:
    """One page, in Markdown."""

    name: str
    title: str
    text: str


class Documents:
    """Gives the pages of a folder; nothing else can be named: a name is looked up, never joined to a path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> Document | None:
        """Give the page of this name, or None."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Document]:
        """Give every page, by name."""
        return iter(self._by_name.values())

    @cached_property
    def _by_name(self) -> dict[str, Document]:
        return {path.stem: _document(path) for path in sorted(self._folder.glob("*.md"))}


def _document(path: Path) -> Document:
    text = path.read_text("utf-8")
    heading = text.partition("\n")[0].removeprefix("# ").strip()
    return Document(path.stem, heading or path.stem, text)
