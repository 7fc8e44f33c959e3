"""The public conformance suite: installed as locked, run one scenario at a time, its checks read from its files."""

import json
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.missing import skip_or_fail
from tests.support.npm import npm_ci
from tests.support.process import guarded

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
NODE = MODULES / "node" / "bin" / "node"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# No install script runs: the one of `node` would fetch its program past the lock file, so it is locked here by name.
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
SECONDS = 60


class SuiteBroke(AssertionError):
    """The suite gave no verdict; the message has what it printed."""


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario at one protocol revision."""

    scenario: str
    revision: str


@dataclass(frozen=True, slots=True)
class Check:
    """One verdict of the suite."""

    run: Run
    id: str
    status: str
    words: str

    def __str__(self) -> str:
        return f"{self.status} {self.run.scenario} {self.run.revision} {self.id}: {self.words}"


def install() -> None:
    """Install Node and the suite as the lock file says, unless that is done; skip, or fail under CI, without npm."""
    if shutil.which("npm") is None:
        skip_or_fail("npm")
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        skip_or_fail("Node 22 for this machine")
    npm_ci(HERE, then=_place_node)


def run_server_scenario(run: Run, mcp_url: str, folder: Path) -> list[Check]:
    """Run one scenario against an MCP server and return its checks; SuiteBroke when there are none."""
    words = ["server", "--url", mcp_url, "--scenario", run.scenario]
    done = subprocess.run(
        _command(*words, "--spec-version", run.revision, "-o", str(folder)),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    return _checks(folder, f"server-{run.scenario}", run, done.stdout + done.stderr)


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """What the suite is told of an authorization server and of the client that it plays."""

    issuer: str
    client_id: str
    resource: str
    callback_port: int
    client_secret: str | None = None


def run_authorization_scenarios(
    runs: tuple[Run, Run], server: AuthorizationServer, answer: Callable[[str], None], folder: Path
) -> list[Check]:
    """Run both scenarios at one revision, since the second needs the first; `answer` is given the printed address."""
    words = ["authorization", "--url", server.issuer, "--client-id", server.client_id, "--resource", server.resource]
    words += [] if server.client_secret is None else ["--client-secret", server.client_secret]
    words += ["--port", str(server.callback_port), "--spec-version", runs[0].revision, "-o", str(folder)]
    with subprocess.Popen(
        _command(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    ) as process:
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        try:
            output = _answered(process, server.issuer, answer)
        finally:
            limit.cancel()
            process.kill()
    return [check for run in runs for check in _checks(folder, f"authorization-server-{run.scenario}", run, output)]


def _answered(process: subprocess.Popen[str], issuer: str, answer: Callable[[str], None]) -> str:
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if line.startswith(f"{issuer}/") and "code_challenge=" in line:
            answer(line.strip())
    return "".join(lines)


def _place_node() -> None:
    NODE.parent.mkdir(exist_ok=True)
    NODE.unlink(missing_ok=True)
    NODE.hardlink_to(MODULES / f"node-linux-{MACHINES[platform.machine()]}" / "bin" / "node")


def _command(*words: str) -> list[str]:
    return guarded([str(NODE), str(SUITE), *words])


def _checks(folder: Path, prefix: str, run: Run, output: str) -> list[Check]:
    found = list(folder.glob(f"{prefix}-20*/checks.json"))
    if len(found) != 1:
        raise SuiteBroke(f"{len(found)} verdicts on {run}\n{output}")
    checks = json.loads(found[0].read_text())
    return [Check(run, c["id"], c["status"], c.get("errorMessage") or c["description"]) for c in checks]
