"""The documentation, cut at its headings and found by words; in memory, and made of nothing but the pages given."""

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from core.documents import Document
from core.errors import Unavailable

LONGEST = 6_000  # characters of one section; what is longer goes on in the next one
MOST_WORDS = 32  # of a query
HEADING, FENCE = re.compile(r"#{1,3} (.+)"), re.compile(r"\s*(```|~~~)")
WORD, NO_WORD = re.compile(r"\w+"), re.compile(r"\W+")
TABLE = "CREATE VIRTUAL TABLE section USING fts5(title, body, tokenize = 'porter unicode61')"
# A word counts five times as much in a title; equals stay in the order of the pages.
SEARCH = """
    SELECT rowid, snippet(section, 1, '', '', '…', 30) FROM section
    WHERE section MATCH ? ORDER BY bm25(section, 5.0, 1.0), rowid LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, in Markdown, and the id of the part that follows on the same page."""

    id: str
    title: str
    text: str
    next_id: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that was found, and the words around the first match."""

    section: Section
    snippet: str


class DocsIndex:
    """Finds sections by words and gives them by id; an id is looked up here, never in the file system."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Index the pages; raise Unavailable where there are none, or this SQLite can't."""
        self._sections = [section for document in documents for section in sections_of(document)]
        self._by_id = {section.id: section for section in self._sections}
        self._lock = threading.Lock()
        if not self._sections:
            raise Unavailable("this installation has no documentation.")
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        try:
            self._connection.execute(TABLE)
        except sqlite3.OperationalError:
            self._connection.close()
            raise Unavailable("SQLite has no FTS5.") from None
        rows = ((number, section.title, section.text) for number, section in enumerate(self._sections))
        self._connection.executemany("INSERT INTO section (rowid, title, body) VALUES (?, ?, ?)", rows)
        self._connection.execute("PRAGMA query_only = ON")

    def find(self, section_id: str) -> Section | None:
        """Give the section of this id, or None."""
        return self._by_id.get(section_id)

    def search(self, query: str, limit: int) -> list[Hit]:
        """Give the sections that have words of `query`, the best first; nothing in it is an operator."""
        words = list(dict.fromkeys(WORD.findall(query)))[:MOST_WORDS]
        if not words:
            return []
        # What is quoted is a string to FTS5, and what `\w` matches has no quotation marks and no NUL. All of the words
        # in a row count as one more, and a rare one.
        match = " OR ".join(f'"{text}"' for text in (" ".join(words), *words))
        with self._lock:
            rows = self._connection.execute(SEARCH, (match, limit)).fetchall()
        return [Hit(self._sections[number], " ".join(snippet.split())) for number, snippet in rows]


def sections_of(document: Document) -> list[Section]:
    """Cut a page at its headings, and where a section is longer than LONGEST between two lines.

    An id is the page's name, `page#heading` for what stands below a heading, and `…~2` for what goes on.
    """
    names: Counter[str] = Counter()
    found: list[Section] = []
    for heading, lines in _headed(document.text.splitlines()):
        is_whole_page = not found
        name = document.name if is_whole_page else f"{document.name}#{_slug(heading)}"
        title = document.title if is_whole_page else f"{document.title} › {heading}"
        names[name] += 1
        first_id = name if names[name] == 1 else f"{name}-{names[name]}"
        for number, text in enumerate(_parts(lines), start=1):
            found.append(Section(first_id if number == 1 else f"{first_id}~{number}", title, text))
    following = [one.id for one in found[1:]]
    return [replace(one, next_id=next_id) for one, next_id in zip_longest(found, following)]


def _headed(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Give each heading with the lines from it to the next; a line of a code block is no heading."""
    heading, collected, in_code = "", list[str](), False
    for line in lines:
        in_code ^= FENCE.match(line) is not None
        found = None if in_code else HEADING.fullmatch(line)
        if found and collected:
            yield heading, collected
            collected = []
        heading = found[1] if found else heading
        collected.append(line)
    if collected:
        yield heading, collected


def _parts(lines: list[str]) -> Iterator[str]:
    part: list[str] = []
    length = 0
    for line in lines:
        if part and length + len(line) >= LONGEST:
            yield "\n".join(part)
            part, length = [], 0
        part.append(line)
        length += len(line) + 1
    yield "\n".join(part).rstrip()


def _slug(heading: str) -> str:
    return NO_WORD.sub("-", heading.lower()).strip("-")
