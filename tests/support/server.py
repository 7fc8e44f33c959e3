"""The real server: its commands, its settings, gunicorn with its workers, its log."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.process import guarded, stop
from tests.support.waiting import free_port, wait_until

REPO = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "-c", "import sys; sys.argv[0] = 'countersign'; import app; sys.exit(app.main())"]
# Importing the libraries takes seconds; a list of commands pays for it once.
SEVERAL = """
import json, os, sys, app
for words, password in json.loads(sys.argv[1]):
    sys.argv = ["countersign", *words]
    os.environ["COUNTERSIGN_OPERATOR_PASSWORD"] = password
    try:
        app.main()
    except SystemExit as end:
        if end.code:
            raise
"""
GUNICORN = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py"]
APP = "app:create_app()"


@dataclass(frozen=True, slots=True)
class Person:
    """An operator of the tests and the password that they type."""

    email: str
    role: str
    password: str


ALICE = Person("alice@example.test", "operator", "alice-Hv2-pq7-test")
BOB = Person("bob@example.test", "operator", "bob-9fK-tt3-test-x")
RITA = Person("rita@example.test", "reviewer", "rita-Zw5-mm1-test")
VERA = Person("vera@example.test", "viewer", "vera-Qx8-kk4-test")
ADMIN = Person("admin@example.test", "admin", "admin-Lb6-rr2-test")
PEOPLE = (ALICE, BOB, RITA, VERA, ADMIN)

# Loopback tests need no strength against guessing: time cost, KiB of memory, parallelism.
CHEAPEST_ARGON2 = "1,8,1"


def clean_environment() -> dict[str, str]:
    """Return this process's environment without settings, proxies and a developer's `.env` influence."""
    unwanted = ("COUNTERSIGN_", "GUNICORN_", "FLASK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        kept.pop(proxy, None)
        kept.pop(proxy.upper(), None)
    return kept


class CommandFailed(AssertionError):
    """A `countersign` command ended with another status than 0; the message has what it printed."""


@dataclass(slots=True)
class Instance:
    """A folder with the secrets and a migrated database with the demo shop and the people of the tests."""

    folder: Path
    database_url: str
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the server and its commands."""
        own = {
            "COUNTERSIGN_INSTANCE": str(self.folder),
            "COUNTERSIGN_DATABASE_URL": self.database_url,
            "COUNTERSIGN_ARGON2": CHEAPEST_ARGON2,
            "COUNTERSIGN_DOCS_MCP": "off",
        }
        return clean_environment() | own | self.settings

    def run(
        self, *words: str, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run one `countersign` command; raise CommandFailed unless it ends with 0 or `check` is false."""
        done = subprocess.run(
            [*CLI, *words],
            cwd=REPO,
            env=self.environment() | dict(env or {}),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        if check and done.returncode:
            raise CommandFailed(f"countersign {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def prepare(self) -> None:
        """Make secrets, tables, demo rows and people, with the commands that a deployer uses, in one process."""
        commands: list[tuple[list[str], str]] = [(["secrets", "init"], ""), (["db", "upgrade"], "")]
        commands += [(["operator", "add", one.email, "--role", one.role], one.password) for one in PEOPLE]
        done = subprocess.run(
            [sys.executable, "-c", SEVERAL, json.dumps(commands)],
            cwd=REPO,
            env=self.environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"{done.returncode}\n{done.stdout}\n{done.stderr}")

    def copy_to(self, folder: Path, database_url: str) -> "Instance":
        """Return a second instance with the same secrets; on SQLite the database is copied with the folder."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Instance(folder, database_url, dict(self.settings))


class ServerProcess:
    """gunicorn with the application on a free port of localhost."""

    def __init__(
        self, instance: Instance, *, workers: int = 2, settings: Mapping[str, str] | None = None, app: str = APP
    ) -> None:
        self.instance, self.workers, self.app = instance, workers, app
        given = dict(settings or {})
        self.port = int(given.get("COUNTERSIGN_PORT") or free_port())
        self.base_url = given.get("COUNTERSIGN_BASE_URL", f"http://localhost:{self.port}")
        self.instance.settings |= {
            "COUNTERSIGN_PORT": str(self.port),
            "COUNTERSIGN_BASE_URL": self.base_url,
            "COUNTERSIGN_WORKERS": str(workers),
        } | given
        self.log_file = Path(tempfile.mkstemp(prefix="server-", suffix=".log", dir=instance.folder.parent)[1])
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def mcp_url(self) -> str:
        """The address that an MCP client is given."""
        return f"{self.base_url}/mcp"

    def start(self) -> "ServerProcess":
        """Start gunicorn and wait until it is ready; raise RuntimeError with its log when it ends instead."""
        with self.log_file.open("ab") as log:
            environment = self.instance.environment() | {"PYTHONUNBUFFERED": "1"}
            self.process = subprocess.Popen(
                guarded([*GUNICORN, self.app]), cwd=REPO, env=environment, stdout=log, stderr=log
            )
        try:
            wait_until("the server", self._ready_or_ended, seconds=60)
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"not ready: {self.log()}") from None
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended with {self.process.returncode}: {self.log()}")
        return self

    def stop(self) -> None:
        """Stop gunicorn and its workers."""
        if self.process is not None:
            stop(self.process)
            self.process = None

    def __enter__(self) -> "ServerProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def log(self) -> str:
        """Return everything that the server has written so far."""
        return self.log_file.read_text(errors="replace")

    def log_events(self) -> list[dict[str, Any]]:
        """Return the log lines that are JSON objects."""
        found = (_parsed(line) for line in self.log().splitlines())
        return [event for event in found if event is not None]

    def worker_pids(self) -> set[int]:
        """Return the process ids that have answered a request to `/mcp`, by the log."""
        return {int(e["pid"]) for e in self.log_events() if e.get("path") == "/mcp" and e.get("pid")}

    def _ready_or_ended(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            return True
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def _parsed(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
