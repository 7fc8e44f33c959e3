"""Countersign under load: an instance of its own, a token, and a count of what it recorded."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from bench.load import Target
from bench.processes import free_port, running

REPO = Path(__file__).resolve().parents[1]
CLI = [sys.executable, "-c", "import sys, app; sys.exit(app.main())"]
GUNICORN = [sys.executable, "-m", "gunicorn", "-c", str(REPO / "gunicorn.conf.py"), "app:create_app()"]
OPERATOR = "bench@example.test"
SCOPES = "mcp:manifest:read mcp:schema:read mcp:effects:read mcp:traces:read mcp:flows:read"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SETTLE = 20  # seconds within which the background writer has written everything
QUIET = 0.3  # seconds without a new row: it has


def headers_of(revision: str, method: str, name: str | None = None) -> dict[str, str]:
    """Give the headers that a client of this protocol revision sends."""
    found = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    found["MCP-Protocol-Version"] = revision
    if revision == "2026-07-28":
        found["Mcp-Method"] = method
        if name is not None:
            found["Mcp-Name"] = name
    return found


def body_of(revision: str, method: str, params: Mapping[str, Any]) -> bytes:
    """Give the JSON-RPC request of this protocol revision."""
    given = {**params, "_meta": META} if revision == "2026-07-28" else dict(params)
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": given}).encode()


@dataclass(frozen=True, slots=True)
class Counts:
    """How many runs and audit events of calls there are."""

    runs: int
    audits: int


class Ours:
    """One instance with the demo shop; servers of it share its database, key and base URL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database_url = f"sqlite:///{folder / 'countersign.db'}"
        self.base_port = free_port()
        self._engine = create_engine(self.database_url)
        for words in (("secrets", "init"), ("db", "upgrade"), ("operator", "add", OPERATOR, "--role", "viewer")):
            self._command(*words)
        issue = ("token", "issue", "--name", "bench", "--operator", OPERATOR, "--scope", SCOPES, "--ttl", "12h")
        self.token = self._command(*issue).strip()

    @contextmanager
    def serving(self, *, workers: int, cores: str) -> Iterator[int]:
        """Serve with so many workers on these cores; give the port."""
        port = free_port()
        environment = self.environment() | {"COUNTERSIGN_PORT": str(port), "COUNTERSIGN_WORKERS": str(workers)}
        log = self.folder / f"ours-{workers}.log"
        with running(GUNICORN, port=port, cores=cores, folder=REPO, environment=environment, log=log):
            _wait_until_ready(port)
            yield port

    def target(self, port: int, revision: str, method: str, params: Mapping[str, Any]) -> Target:
        """Give one MCP request with our token."""
        headers = headers_of(revision, method, params.get("name"))
        headers |= {"Authorization": f"Bearer {self.token}", "Host": f"localhost:{self.base_port}"}
        return Target(port, "/mcp", headers, body_of(revision, method, params))

    def counts(self) -> Counts:
        """Count what is recorded now."""
        with self._engine.connect() as connection:
            runs = connection.execute(text("SELECT count(*) FROM cs_run WHERE status = 'done'")).scalar_one()
            audits = connection.execute(text("SELECT count(*) FROM cs_audit WHERE event = 'call.done'")).scalar_one()
        return Counts(runs, audits)

    def settled(self) -> Counts:
        """Count what is recorded, once the background writer has nothing left to write."""
        end, before = time.monotonic() + SETTLE, self.counts()
        while True:
            time.sleep(QUIET)
            now = self.counts()
            if now == before:
                return now
            assert time.monotonic() < end, "the background writer doesn't come to rest"
            before = now

    def assert_recorded(self, before: Counts, calls: int, connections: int) -> None:
        """Assert that every call made a run and an audit event; wrk leaves up to one call a connection uncounted."""
        now = self.settled()
        runs, audits = now.runs - before.runs, now.audits - before.audits
        assert runs == audits, f"{runs} runs but {audits} audit events"
        assert calls <= runs <= calls + connections, f"{calls} calls but {runs} runs"

    def environment(self) -> dict[str, str]:
        """Give the whole environment of our servers and commands."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERSIGN_")}
        return kept | {
            "COUNTERSIGN_INSTANCE": str(self.folder),
            "COUNTERSIGN_DATABASE_URL": self.database_url,
            "COUNTERSIGN_BASE_URL": f"http://localhost:{self.base_port}",
            "COUNTERSIGN_OPERATOR_PASSWORD": "bench-only-password",
        }

    def _command(self, *words: str) -> str:
        done = subprocess.run(
            [*CLI, *words],
            cwd=REPO,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"countersign {' '.join(words)}: {done.stderr}")
        return done.stdout


def ask(target: Target) -> dict[str, Any]:
    """Send the request once and give the JSON answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{target.port}{target.path}", data=target.body, headers=dict(target.headers)
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def _wait_until_ready(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("not ready")
