"""The servers that are measured, each pinned to its cores, and ended by their ids."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 30  # seconds for a server to take its first connection


def free_port() -> int:
    """Give a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], *, port: int, cores: str, folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[None]:
    """Run a server until the end of the block; raise RuntimeError with its log when it doesn't come up."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["taskset", "-c", cores, *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        _wait_for(process, port, log)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"no server on port {port}: {log.read_text(errors='replace')}")
