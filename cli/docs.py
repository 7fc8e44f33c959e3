"""`countersign docs serve`, and the same as a process beside `countersign serve`: the documentation, for agents."""

import os
import select
import subprocess
import sys
from collections.abc import Callable

import click

from core.settings import Settings

PROGRAM = [sys.executable, "-P", "-m", "mcp_provider.docs_server"]  # -P: ours, whatever lies in the working directory
SECONDS = 10.0
SKIPPED = "Docs MCP skipped — {}.\n"


def command() -> click.Group:
    """Give the commands of the noun `docs`."""

    @click.group("docs")
    def docs() -> None:
        """Serve this version's documentation to agents."""

    @docs.command("serve")
    def serve() -> None:
        """Serve it on 127.0.0.1, on the first free port from 6536 to 6545, until Ctrl-C or SIGTERM."""
        sys.stdout.flush()
        os.execve(PROGRAM[0], PROGRAM, _environment())

    return docs


def begin_docs(settings: Settings) -> Callable[[], str]:
    """Start the process, unless it is switched off; give a function that waits for what it has to say."""
    if not settings.docs_mcp:
        return str
    parent, avoid = str(os.getpid()), str(settings.port)
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*PROGRAM, "--parent", parent, "--avoid", avoid],
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        start_new_session=True,  # Ctrl-C is for the server; this one ends with it
    )
    os.close(writing)
    return lambda: _said_by(process, reading)


def _said_by(process: subprocess.Popen[bytes], reading: int) -> str:
    """Give its words, which it writes in one piece when it listens or knows that it can't."""
    ready, _, _ = select.select([reading], [], [], SECONDS)
    said = os.read(reading, select.PIPE_BUF) if ready else b""
    os.close(reading)
    if said:
        return said.decode()
    process.kill()
    process.wait()
    return SKIPPED.format("it ended at its start" if ready else f"it wasn't ready within {SECONDS:.0f} s")


def _environment() -> dict[str, str]:
    """Give it no settings, and so no secrets: it needs none."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COUNTERSIGN_")}
