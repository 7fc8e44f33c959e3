"""Where a client runs: a home of its own, nothing but loopback, and a person who answers for it."""

import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.conformance.suite import NODE
from tests.support.browser import FormBrowser

NOWHERE = "http://127.0.0.1:9"  # nobody listens on the discard port
RIGHT = "orders:refund"


@dataclass(slots=True)
class Place:
    """One client's surroundings."""

    mcp_url: str
    home: Path
    browser: FormBrowser
    registered: set[str] = field(default_factory=set)  # client ids that our registration gave out
    consents: int = 0

    def environment(self) -> dict[str, str]:
        """Return a whole environment: no developer's configuration, no window, no way out."""
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), NOWHERE)
        return proxies | {
            "HOME": str(self.home),
            "NO_PROXY": "localhost,127.0.0.1",
            "NODE_USE_ENV_PROXY": "1",
            "PATH": f"{NODE.parent}:/usr/bin:/bin",
            "BROWSER": "/bin/true",
            "LANG": "C.UTF-8",
        }

    def consent(self, link: str) -> None:
        """Let the person answer an authorization link with one right to write, and go back to the client."""
        self.note(link)
        callback = self.browser.consent(link, tick=[RIGHT])
        no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        no_proxy.open(callback, timeout=30).close()

    def note(self, link: str) -> None:
        """Count a link that the person was given, and remember its client id where our registration gave it out."""
        self.consents += 1
        client_id = parse_qs(urlsplit(link).query)["client_id"][0]
        if client_id.startswith("cl_"):
            self.registered.add(client_id)
