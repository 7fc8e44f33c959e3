"""The documentation cut into sections and found by words; no word is an operator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.documents import Document
from core.errors import Unavailable
from mcp_provider import docs_index
from mcp_provider.docs_index import LONGEST, DocsIndex, sections_of
from mcp_provider.docs_server import DOCS, pages
from tests.mcp_provider.desk import PAGES


def found(query, limit=10):
    return [hit.section.id for hit in DocsIndex(PAGES).search(query, limit)]


def test_a_page_is_cut_at_its_headings_but_not_inside_of_code():
    sections = sections_of(PAGES[0])

    assert [(one.id, one.title) for one in sections] == [
        ("connect", "Connect a client"),
        ("connect#on-this-machine", "Connect a client › On this machine"),
        ("connect#a-terminal", "Connect a client › A terminal"),
    ]
    assert "# not a heading" in sections[1].text


def test_sections_lead_on_through_their_page_and_lose_nothing():
    for page in PAGES:
        sections = sections_of(page)

        assert [one.next_id for one in sections] == [*(one.id for one in sections[1:]), None]
        assert "".join("".join(one.text.split()) for one in sections) == "".join(page.text.split())


def test_the_same_heading_twice_has_two_ids():
    assert [one.id for one in sections_of(PAGES[1])] == ["deploy", "deploy#backups", "deploy#backups-2"]


def test_a_long_section_goes_on_in_the_next():
    lines = [f"| row {number} | {'x' * 90} |" for number in range(300)]
    sections = sections_of(Document("long", "Long", "\n".join(["# Long", "", *lines])))

    assert [one.id for one in sections] == ["long", *(f"long~{number}" for number in range(2, len(sections) + 1))]
    assert len(sections) > 2
    assert max(len(one.text) for one in sections) <= LONGEST
    assert "\n".join(one.text for one in sections).splitlines()[2:] == lines


def test_a_word_in_a_title_counts_more_and_forms_of_a_word_are_one():
    assert found("backup") == ["deploy#backups-2", "deploy#backups"]
    assert found("a refund is")[0] == "deploy#backups"
    assert found("confirmation") == ["connect#on-this-machine"]
    assert found("layers") == ["decisions/0001-seams"]
    assert found("zebra") == []


def test_no_more_is_given_than_was_asked_for():
    assert len(found("backups every address claude nginx", limit=2)) == 2


@pytest.mark.parametrize("query", ["", " ", "\0", '"', "'", "***", "_", "__", "^", "+-", "\u202e", "…", "()", "?"])
def test_a_query_without_words_finds_nothing(query):
    assert found(query) == []


@pytest.mark.parametrize(
    "query",
    ['nginx"', "nginx*", "title:nginx", "nginx AND (", "NEAR(nginx", "nginx\0backups", "-nginx", "{title} : nginx",
     'nginx" OR "x', "^nginx", "nginx ' --", "NOT nginx", "nginx; DROP TABLE section"],
)  # fmt: skip
def test_the_syntax_of_full_text_search_is_words_like_any_others(query):
    assert "deploy" in found(query)


@given(st.text(max_size=200))
def test_whatever_is_asked_is_answered(query):
    assert set(found(query)) <= {one.id for page in PAGES for one in sections_of(page)}


def test_the_index_can_only_be_read():
    index = DocsIndex(PAGES)

    with pytest.raises(docs_index.sqlite3.OperationalError, match="readonly"):
        index._connection.execute("DELETE FROM section")


def test_without_fts5_or_without_pages_it_says_so(monkeypatch):
    with pytest.raises(Unavailable, match="no documentation"):
        DocsIndex(())
    monkeypatch.setattr(docs_index, "TABLE", "CREATE VIRTUAL TABLE section USING fts_that_is_not_there(title, body)")
    with pytest.raises(Unavailable, match="SQLite has no FTS5"):
        DocsIndex(PAGES)


def test_every_section_of_our_own_pages_is_found_by_its_title_and_has_an_id_of_its_own():
    documents = list(pages())
    sections = [section for document in documents for section in sections_of(document)]
    index = DocsIndex(documents)
    lost = [
        one.id
        for one in sections
        if one.title not in {hit.section.title for hit in index.search(one.title.rpartition("› ")[2], 10)}
    ]

    assert len({one.id for one in sections}) == len(sections) > 60
    assert {one.name for one in documents} >= {"connect", "flows", "security", "decisions/0001-seams"}
    assert len(documents) == len(list(DOCS.rglob("*.md")))
    assert max(len(one.text) for one in sections) <= LONGEST
    assert lost == []
