"""The bakery of the guide: what the documents show, how it is deployed, and the payment service that it calls."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.agent import Agent
from tests.support.browser import FormBrowser
from tests.support.process import guarded, stop
from tests.support.raw_mcp import send
from tests.support.server import CHEAPEST_ARGON2, CLI, REPO, clean_environment
from tests.support.waiting import free_port, wait_until

BAKERY = REPO / "tests" / "own_application"
GUIDE, README = REPO / "docs" / "flows.md", REPO / "README.md"
NAMED = re.compile(r"^```python\n(# ([\w/]+\.py)\n.*?)^```$", re.M | re.S)
PYTHON = [sys.executable, "-P"]  # like a console script: the working directory is not on the path by itself
COUNTERSIGN = [*PYTHON, *CLI[1:]]
ADMIN, PASSWORD = "admin@localhost", "a password of the admin"


def blocks_of(document: Path) -> dict[str, str]:
    """Return the files that a document shows, by name."""
    return {match[2]: match[1] for match in NAMED.finditer(document.read_text())}


def write_blocks(document: Path, folder: Path) -> None:
    """Write the files that a document shows into a folder."""
    for name, block in blocks_of(document).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
        if path.parent.name not in ("migrations", "tests"):
            (path.parent / "__init__.py").touch()


@dataclass
class Application:
    """A folder in which commands are run, and their environment."""

    folder: Path
    settings: dict[str, str]
    port: int = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment."""
        own = {
            "COUNTERSIGN_PORT": str(self.port),
            "COUNTERSIGN_ARGON2": CHEAPEST_ARGON2,
            "COUNTERSIGN_DOCS_MCP": "off",
            "COUNTERSIGN_ADMIN_PASSWORD": PASSWORD,
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return clean_environment() | own | {"PATH": path, "PYTHONUNBUFFERED": "1"} | self.settings

    def run(self, *command: str) -> str:
        """Run a command to its end and return what it printed; fail with it otherwise."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def serving(self, *command: str) -> Iterator[FormBrowser]:
        """Run a command that serves; give a browser in which the administrator has signed in and replaced nothing."""
        log = self.folder / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                guarded(list(command)), cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
        try:
            wait_until("the application", lambda: process.poll() is not None or self._is_ready(), seconds=60)
            assert process.poll() is None, log.read_text()
            browser = FormBrowser(f"http://localhost:{self.port}")
            browser.sign_in(ADMIN, PASSWORD)
            yield browser
        finally:
            stop(process)

    def _is_ready(self) -> bool:
        try:
            return send("GET", f"http://127.0.0.1:{self.port}/readyz", seconds=5).status == 200
        except OSError:
            return False


class Payments:
    """A payment service on loopback: pays back once a key, declines the payment `pay_poor`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        payments = self

        class Handler(BaseHTTPRequestHandler):
            """Takes refunds."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                payments.requests.append((self.headers["Idempotency-Key"], asked))
                body = json.dumps({"reference": f"ref_{len(payments.requests)}"}).encode()
                self.send_response(402 if asked["payment"] == "pay_poor" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


def confirmed(agent: Agent, browser: FormBrowser, tool: str, **arguments: Any) -> Any:
    """Ask, let the person approve, call again."""
    asked = agent.call(tool, arguments)
    assert asked.status == "confirmation_required", asked
    browser.approve(asked["confirmUrl"])
    return agent.call(tool, arguments | {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"})
