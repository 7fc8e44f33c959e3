"""An installation that nobody has touched yet, and `countersign serve` in it."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.support.process import guarded, stop
from tests.support.raw_mcp import send
from tests.support.server import CLI, REPO, Instance
from tests.support.waiting import free_port, wait_until


@pytest.fixture
def fresh(tmp_path: Path) -> Instance:
    """An instance folder that doesn't exist yet."""
    folder = tmp_path / "instance"
    return Instance(folder, f"sqlite:///{folder / 'countersign.db'}", {"COUNTERSIGN_PORT": str(free_port())})


@dataclass(slots=True)
class Serving:
    """A running `countersign serve`."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    def printed(self) -> str:
        """What it has written to standard output and standard error so far."""
        return self.output.read_text(errors="replace")

    def stop(self) -> None:
        """End it and its workers."""
        stop(self.process)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """A function that runs `countersign serve` in an instance until it is ready."""
    started: list[Serving] = []

    def start(instance: Instance, *, terminal: int | None = None, **settings: str) -> Serving:
        output = tmp_path / f"serve-{len(started)}.log"
        port = int(instance.settings["COUNTERSIGN_PORT"])
        with output.open("wb") as log:
            process = _launch(instance, settings, log, terminal)
        started.append(Serving(process, port, output))
        wait_until("countersign serve", lambda: process.poll() is not None or _is_ready(port), seconds=60)
        assert process.poll() is None, started[-1].printed()
        return started[-1]

    yield start
    for serving in started:
        serving.stop()


def _launch(
    instance: Instance, settings: dict[str, str], log: IO[bytes], terminal: int | None
) -> subprocess.Popen[bytes]:
    # A session of its own has no controlling terminal, whatever the test run has.
    command = guarded([*CLI, "serve"])
    if terminal is not None:
        command = ["setsid", "--ctty", "--wait", *command]
    return subprocess.Popen(
        command,
        cwd=REPO,
        env=instance.environment() | settings,
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        stdout=log,
        stderr=log,
        start_new_session=terminal is None,
    )


def _is_ready(port: int) -> bool:
    try:
        return send("GET", f"http://127.0.0.1:{port}/readyz", seconds=5).status == 200
    except OSError:
        return False
