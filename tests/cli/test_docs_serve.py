"""The documentation beside `countersign serve` and alone: printed, read by the official client, gone in time."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp.client import Client

from cli import docs
from cli import serve as serve_command
from core.settings import Settings, load_settings
from mcp_provider.docs_server import PORTS
from tests.deploy.install import build_wheel
from tests.deploy.workers import resident_megabytes, workers_of
from tests.support.process import guarded, stop
from tests.support.raw_mcp import RawMcp, send
from tests.support.server import CLI, Instance, clean_environment
from tests.support.waiting import wait_until

PRINTED = re.compile(r"^    (http://127\.0\.0\.1:(\d+)/mcp)\n    (\{.*\})$", re.M)
SKIPPED = re.compile(r"^Docs MCP skipped — .*$", re.M)
ALL_TAKEN = "Docs MCP skipped — ports 6536 to 6545 are taken."
MOST_MEGABYTES = 64
POISON = "raise SystemExit('the working directory was imported')"
ON = {"COUNTERSIGN_DOCS_MCP": "on"}
Serve = Callable[..., Any]


@pytest.fixture
def _free_port() -> None:
    """Wait until one of the ten ports is free: other test runs on this machine may take some."""
    wait_until("a free port", lambda: any(_is_free(port) for port in PORTS), seconds=60)


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


@contextmanager
def all_ports_taken() -> Iterator[None]:
    """Listen on the ten ports, except where somebody does already."""
    with ExitStack() as stack:
        for port in filter(_is_free, PORTS):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


@contextmanager
def alone(folder: Path, *command: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a command that serves the documentation; give the address that it prints."""
    log = folder / "docs.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            guarded(list(command)), cwd=folder, env=clean_environment() | environment, stdout=output, stderr=output
        )
    try:
        printed = wait_until(
            "its address", lambda: PRINTED.search(log.read_text()) or process.poll() is not None, seconds=60
        )
        assert isinstance(printed, re.Match), log.read_text()
        yield printed[1], process
    finally:
        stop(process)


@contextmanager
def official(mcp_url: str, mode: str) -> Iterator[Callable[..., Any]]:
    """Connect the official client without any sign-in; give a function that calls its methods."""
    stack = ExitStack()
    try:
        portal = stack.enter_context(start_blocking_portal())
        client = stack.enter_context(portal.wrap_async_context_manager(Client(mcp_url, mode=mode)))
        yield lambda method, *given: portal.call(getattr(client, method), *given)
    finally:
        stack.close()


def children(parent: int) -> dict[int, str]:
    """Return the living children of a process with their command lines."""
    return {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in workers_of(parent)}


def docs_processes(parent: int) -> list[int]:
    return [pid for pid, command in children(parent).items() if "docs_server" in command]


def has_ended(process: int) -> bool:
    """Tell whether a process is gone, or only waits for somebody to hear of its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def is_listening(port: int) -> bool:
    try:
        return send("GET", f"http://127.0.0.1:{port}/health", seconds=5).status == 200
    except (OSError, HTTPException):  # it may end in the middle of an answer
        return False


@pytest.mark.usefixtures("_free_port")
def test_it_is_served_alone_to_the_official_client_of_both_eras(tmp_path: Path) -> None:
    for package in ("mcp_provider", "core"):  # nothing of where it is started is run
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(POISON)
    command = [CLI[0], "-P", *CLI[1:]]
    with alone(tmp_path, *command, "docs", "serve") as (url, process):
        for mode, version in (("auto", "2026-07-28"), ("legacy", "2025-11-25")):
            with official(url, mode) as ask:
                tools = [tool.name for tool in ask("list_tools").tools]
                found = ask("call_tool", "docs_search", {"query": "reverse proxy nginx"}).structured_content
                read = ask("call_tool", "docs_get", {"id": found["results"][0]["id"]})

            assert tools == ["docs_search", "docs_get"], version
            assert "nginx" in read.structured_content["text"]
            assert read.is_error is False

        assert resident_megabytes(process.pid) <= MOST_MEGABYTES
        assert stop(process, first=signal.SIGINT) == 0
        assert "Traceback" not in (tmp_path / "docs.log").read_text()


@pytest.mark.usefixtures("_free_port")
def test_serve_starts_it_once_and_it_ends_with_a_killed_server(
    fresh: Instance, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serving = serve(fresh, COUNTERSIGN_SECRET_OF_THE_TEST="x", **ON)
    printed = PRINTED.search(serving.printed())
    assert printed is not None, serving.printed()
    url, port = printed[1], int(printed[2])
    [process] = docs_processes(serving.process.pid)
    before = workers_of(serving.process.pid)

    assert json.loads(printed[3]) == {"mcpServers": {"countersign-docs": {"url": url}}}
    assert RawMcp(url).call("docs_search", {"query": "confirmation"}).data["results"]
    assert "COUNTERSIGN_" not in Path(f"/proc/{process}/environ").read_text()

    serving.process.send_signal(signal.SIGHUP)
    wait_until("new workers", lambda: before & workers_of(serving.process.pid) == {process}, seconds=40)
    wait_until("both of them", lambda: len(workers_of(serving.process.pid)) == 3)
    assert docs_processes(serving.process.pid) == [process]
    with capsys.disabled():
        print(f"\nthe documentation's process holds {resident_megabytes(process):.0f} MB")

    serving.process.kill()
    wait_until("its end", lambda: not is_listening(port) and has_ended(process), seconds=2)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.usefixtures("_free_port")
def test_it_ends_with_any_parent(tmp_path: Path, ending: signal.Signals) -> None:
    script = "import time\nfrom cli.docs import *\nfrom types import SimpleNamespace as N\n"
    script += "print(begin_docs(N(docs_mcp=True, port=1))(), flush=True)\ntime.sleep(60)"
    with alone(tmp_path, sys.executable, "-c", script) as (url, process):
        port = int(url.split(":")[2].split("/")[0])
        assert is_listening(port)
        process.send_signal(ending)
        wait_until("its end", lambda: not is_listening(port), seconds=2)


def test_a_parent_that_is_gone_already_is_noticed(tmp_path: Path) -> None:
    not_its_parent = str(os.getppid())
    done = subprocess.run(
        [*docs.PROGRAM, "--parent", not_its_parent],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_where_no_port_is_free_serving_goes_on(fresh: Instance, serve: Serve) -> None:
    with all_ports_taken():
        serving = serve(fresh, **ON)

        assert SKIPPED.findall(serving.printed()) == [ALL_TAKEN]
        assert "countersign-docs" not in serving.printed()
        assert docs_processes(serving.process.pid) == []


def test_alone_without_a_port_it_refuses_in_one_line(fresh: Instance) -> None:
    with all_ports_taken():
        done = fresh.run("docs", "serve", check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "countersign: unavailable: ports 6536 to 6545 are taken.\n"


def settings_of(folder: Path, **given: str) -> Settings:
    named = {f"COUNTERSIGN_{name}": value for name, value in given.items()} | {"COUNTERSIGN_SECRET_KEYS": "k" * 40}
    return load_settings(named, folder=folder)


def test_in_production_it_is_offered_only_when_asked_for(tmp_path: Path) -> None:
    production = {"BASE_URL": "https://app.example.test"}

    assert settings_of(tmp_path).docs_mcp is True
    assert settings_of(tmp_path, DOCS_MCP="off").docs_mcp is False
    assert settings_of(tmp_path, **production).docs_mcp is False
    assert settings_of(tmp_path, DOCS_MCP="on", **production).docs_mcp is True


Started = list[subprocess.Popen[bytes]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """The processes that were started; each has ended by itself when the test is over."""
    made: Started = []
    popen = subprocess.Popen

    def noted(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        made.append(popen(*given, **named))
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    yield made
    for process in made:
        process.wait(10)


def start_instead(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(docs, "PROGRAM", [sys.executable, "-c", script])


def test_switched_off_nothing_is_started_and_nothing_is_said(tmp_path: Path, started: Started) -> None:
    assert docs.begin_docs(settings_of(tmp_path, DOCS_MCP="off"))() == ""
    assert started == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit(3)", "it ended at its start"),
        ("import os, time; os.close(1); time.sleep(60)", "it ended at its start"),
        ("import time; time.sleep(60)", "it wasn't ready within 1 s"),
    ],
)
def test_a_process_that_does_not_come_up_is_skipped_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Started, script: str, reason: str
) -> None:
    start_instead(monkeypatch, script)
    monkeypatch.setattr(docs, "SECONDS", 1.0)

    assert docs.begin_docs(settings_of(tmp_path))() == f"Docs MCP skipped — {reason}.\n"
    assert [process.poll() in (3, -signal.SIGKILL) for process in started] == [True]


@pytest.mark.usefixtures("started")
def test_it_is_given_no_settings_and_so_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERSIGN_SECRET_KEYS", "k" * 40)
    monkeypatch.setenv("COUNTERSIGN_DATABASE_URL", "postgresql://user:password@127.0.0.1/x")
    start_instead(monkeypatch, "import os; print([name for name in os.environ if 'COUNTERSIGN' in name], end='')")

    assert docs.begin_docs(settings_of(tmp_path))() == "[]"


@pytest.mark.usefixtures("_free_port")
def test_an_installed_version_serves_its_own_pages(tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", str(installed)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(build_wheel(tmp_path))], check=True)
    (installed / "docs" / "marker.md").write_text("# A marker\n\nOnly the installed copy says zanzibar.\n")
    with alone(elsewhere, *docs.PROGRAM, PYTHONPATH=str(installed)) as (url, _process):
        mcp = RawMcp(url)
        found = [hit["id"] for hit in mcp.call("docs_search", {"query": "zanzibar"}).data["results"]]
        decision = mcp.call("docs_get", {"id": "decisions/0001-seams"}).data["text"]

    assert found == ["marker"]
    assert decision.startswith("# 0001")


@pytest.mark.parametrize("only_check", [False, True])
def test_in_production_it_begins_with_the_server_and_not_with_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, only_check: bool
) -> None:
    settings = settings_of(tmp_path, DOCS_MCP="on", BASE_URL="https://app.example.test")
    monkeypatch.setattr(serve_command, "read_settings", lambda: (settings, ()))
    monkeypatch.setattr(serve_command, "find_all", lambda *_given: [])
    monkeypatch.setattr(serve_command, "_busy", lambda _settings: [])
    monkeypatch.setattr(serve_command, "begin_docs", lambda given: lambda: f"docs of {given.base_url}\n")
    monkeypatch.setattr(serve_command, "start_gunicorn", lambda: print("gunicorn"))
    serve_command.serve_in_production(lambda _settings=None: None, only_check=only_check)  # type: ignore[arg-type,return-value]

    ready, *rest = capsys.readouterr().out.splitlines()
    assert ready.startswith("Ready to serve https://app.example.test/")
    assert rest == ([] if only_check else ["docs of https://app.example.test", "gunicorn"])
