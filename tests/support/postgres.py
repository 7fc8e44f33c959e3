"""A throw-away PostgreSQL of Debian, with a fresh database for whoever asks."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from tests.support.process import guarded, stop
from tests.support.waiting import free_port, wait_until

USER = "countersign"
# Durability is bought with fsync; a database that dies with the test run needs none.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB")


def find_postgres() -> Path | None:
    """Return the folder of the newest installed PostgreSQL's programs, or None."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda folder: int(folder.parent.name), default=None)


class PostgresServer:
    """A running server on 127.0.0.1 that makes databases and copies of databases."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._numbers = count(1)

    def create_database(self, *, copy_of: str | None = None) -> str:
        """Make an empty database, or a copy of the one at the address `copy_of`, and return its address."""
        name = f"countersign_{next(self._numbers)}"
        template = copy_of.rsplit("/", 1)[1] if copy_of else "template0"
        with psycopg.connect(self._admin(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Remove the database at `url`, whoever is still connected to it."""
        with psycopg.connect(self._admin(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{url.rsplit("/", 1)[1]}" WITH (FORCE)')

    def answers(self) -> bool:
        """True when the server takes connections."""
        try:
            psycopg.connect(self._admin(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _admin(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"


@contextmanager
def run_postgres(programs: Path) -> Iterator[PostgresServer]:
    """Start a server with a data folder of its own, and leave nothing behind."""
    folder = Path(tempfile.mkdtemp(prefix="countersign-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    port = free_port()
    process = None
    try:
        _create_cluster(programs, folder)
        process = _launch(programs, folder, port)
        server = PostgresServer(port)
        wait_until("PostgreSQL", lambda: server.answers() or process.poll() is not None)
        if process.poll() is not None:
            raise RuntimeError((folder / "log").read_text())
        yield server
    finally:
        if process is not None:
            stop(process, first=signal.SIGINT)  # SIGINT is PostgreSQL's fast shutdown
        shutil.rmtree(folder, ignore_errors=True)


def _create_cluster(programs: Path, folder: Path) -> None:
    options = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    command = [str(programs / "initdb"), "-D", str(folder / "data"), *options]
    made = subprocess.run(guarded(command, as_nobody=True), cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"initdb: {made.stderr}")


def _launch(programs: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), "-h", "127.0.0.1"]
    settings = [word for setting in FAST for word in ("-c", setting)]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            guarded([*command, "-p", str(port), *settings], as_nobody=True, last_signal="INT"),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
