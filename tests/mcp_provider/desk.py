"""The documentation's endpoint on its own, with a few pages and without a network."""

from collections.abc import Iterable, Mapping
from typing import Any

from werkzeug.test import Client

from core.documents import Document
from mcp_provider.docs_endpoint import DocsEndpoint
from mcp_provider.docs_index import DocsIndex
from mcp_provider.docs_tools import DocsTools
from tests.mcp_provider.house import LEGACY, MODERN, House
from tests.support.raw_mcp import RawAnswer

PORT = 6536
HOST = f"127.0.0.1:{PORT}"
CONNECT = """# Connect a client

One address for every client.

## On this machine

Claude Code asks for confirmations by itself.

```sh
# not a heading
claude mcp add
```

### A terminal

No browser.
"""
DEPLOY = """# In production

Behind nginx or Caddy.

## Backups

Every day. A refund is in it.

## Backups

Every week.
"""
PAGES = (
    Document("connect", "Connect a client", CONNECT),
    Document("deploy", "In production", DEPLOY),
    Document("decisions/0001-seams", "Decision 0001 Seams", "# 0001 Seams\n\nEach layer knows those to its left.\n"),
)


class FixedChance:
    """The same bytes each time."""

    def bytes(self, count: int) -> bytes:
        return b"\x07" * count


class Desk(House):
    """Asks the documentation's endpoint as a house is asked."""

    def __init__(self, pages: Iterable[Document] = PAGES) -> None:
        self.endpoint = DocsEndpoint(DocsTools(DocsIndex(pages)), PORT, FixedChance())

    def open(self, method: str, path: str, headers: Mapping[str, str], data: bytes = b"", **environ: Any) -> RawAnswer:
        """Send one request as it stands; `environ` replaces what a server would make of it."""
        given = {name: value for name, value in headers.items() if name not in ("Authorization", "Host")}
        found = {"HTTP_HOST": headers.get("Host", HOST)} | environ
        answer = Client(self.endpoint).open(
            path, method=method, headers=given, data=data or None, environ_overrides=found
        )
        return RawAnswer(answer.status_code, {name.lower(): value for name, value in answer.headers}, answer.data)

    def call(self, tool: str, arguments: Any = None, version: str = MODERN) -> dict[str, Any]:
        """Call a tool and give its result."""
        params = {"name": tool, "arguments": arguments or {}}
        if version == MODERN:
            return self.modern("tools/call", params).result
        return self.legacy("tools/call", params, version=version).result

    def search(self, query: str, **more: Any) -> list[str]:
        """Give the ids of what is found."""
        found = self.call("docs_search", {"query": query, **more})
        assert found["isError"] is False, found
        return [hit["id"] for hit in found["structuredContent"]["results"]]


__all__ = ["HOST", "LEGACY", "MODERN", "PAGES", "PORT", "Desk"]
