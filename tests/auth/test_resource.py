"""auth/resource.py: which spellings mean our resource (RFC 8707, RFC 3986 6.2)."""

from pathlib import Path

import pytest

from auth.resource import names_us
from core.settings import Settings


def settings(base_url: str) -> Settings:
    return Settings(
        base_url=base_url, port=1, instance=Path("/x"), database_url="sqlite:///x", secret_keys=(), production=True
    )


ROOT = settings("https://app.example.com")
UNDER = settings("https://app.example.com/team/a")


@pytest.mark.parametrize(
    "value",
    [
        "https://app.example.com/mcp",
        "https://app.example.com/mcp/",
        "https://app.example.com",
        "https://app.example.com/",
        "HTTPS://APP.example.com:443/mcp",
        "",
    ],
)
def test_every_spelling_of_the_one_resource_is_taken(value):
    assert names_us([value], ROOT)


@pytest.mark.parametrize(
    "value",
    [
        "https://app.example.com/mcp2",
        "https://app.example.com/MCP",
        "http://app.example.com/mcp",
        "https://app.example.com:8443/mcp",
        "https://evil.example/mcp",
        "https://u@app.example.com/mcp",
        "https://app.example.com/mcp?x=1",
        "https://app.example.com/mcp#f",
        "https://app.example.com/mcp//",
        "https://app.example.com:x/mcp",
        "https://app.exämple.com/mcp",
        "/mcp",
        "mcp",
    ],
)
def test_another_resource_is_refused(value):
    assert not names_us([value], ROOT)


def test_no_value_means_the_one_resource():
    assert names_us([], ROOT)


def test_repeats_must_all_be_ours():
    assert names_us(["https://app.example.com/mcp", "https://app.example.com/mcp/"], ROOT)
    assert not names_us(["https://app.example.com/mcp", "https://evil.example"], ROOT)


def test_under_a_path_the_origin_and_the_base_are_other_resources():
    assert names_us(["https://app.example.com/team/a/mcp"], UNDER)
    assert not names_us(["https://app.example.com"], UNDER)
    assert not names_us(["https://app.example.com/team/b/mcp"], UNDER)
