"""Backups of PostgreSQL: its own pg_dump and pg_restore, the password never among their arguments."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import make_url

from cli.copies import BackupFailed, NotABackup, ProgramMissing, RestoreFailed, StillServed
from migrations.revisions import VERSION_TABLE

DEBIAN = Path("/usr/lib/postgresql")
MAGIC = b"PGDMP"
OURS = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
RELATIONS = f"SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OURS} LIMIT 1"  # noqa: S608
TABLES = f"""
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND {OURS} ORDER BY n.nspname, c.relname"""  # noqa: S608
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND coalesce(backend_type, 'client backend') = 'client backend'"""


class PostgresqlCopies:
    """Copies of one PostgreSQL database, in the custom format of pg_dump."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        given = {"host": parsed.host, "port": parsed.port, "user": parsed.username, "dbname": parsed.database}
        self._address = make_conninfo(**{name: str(one) for name, one in {**given, **parsed.query}.items() if one})
        self._password = parsed.password

    def back_up(self, draft: Path) -> None:
        """Dump all of the database in one snapshot, and read the list of the dump back."""
        self._run("pg_dump", "--format=custom", f"--file={draft}", "--no-password", f"--dbname={self._address}")
        self._run("pg_restore", "--list", str(draft))

    def require_alone(self) -> None:
        """Count the other connections to this database."""
        with self._connect() as connection:
            if connection.execute(OTHERS).fetchone() != (0,):
                raise StillServed

    def is_empty(self) -> bool:
        """Tell whether there is no relation of anybody's."""
        with self._connect() as connection:
            return connection.execute(RELATIONS).fetchone() is None

    def revisions_of(self, file: Path) -> frozenset[str]:
        """Read them out of the dump."""
        try:
            with file.open("rb") as start:
                is_dump = start.read(len(MAGIC)) == MAGIC
        except OSError as error:
            raise NotABackup(f"{file} can't be read: {error.strerror}.") from None
        if not is_dump:
            raise NotABackup(f"{file} is no backup of a PostgreSQL database, which COUNTERSIGN_DATABASE_URL names.")
        try:
            text = self._run("pg_restore", "--data-only", f"--table={VERSION_TABLE}", "--file=-", str(file))
        except BackupFailed as error:
            raise NotABackup(error.public) from None
        _, found, rows = text.partition(" FROM stdin;\n")
        return frozenset(rows.partition("\n\\.")[0].split()) if found else frozenset()

    def restore(self, file: Path, statements: Sequence[str]) -> None:
        """Let psql read the dump as SQL between BEGIN and COMMIT, which it only gets when all of the dump was there."""
        clean = () if self.is_empty() else ("--clean", "--if-exists")
        reading = [program("pg_restore"), "--no-owner", "--no-privileges", *clean, "--file=-", str(file)]
        writing = [program("psql"), "-X", "-q", "--no-password", "--set=ON_ERROR_STOP=1", f"--dbname={self._address}"]
        last = ["RESET search_path", *statements, "COMMIT"]
        with tempfile.TemporaryFile() as read_said, tempfile.TemporaryFile() as write_said:
            writer = subprocess.Popen(
                writing, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=write_said, env=self._environment()
            )
            done = _feed(writer, reading, read_said, "".join(f"{one};\n" for one in last))
            problem = _first_line(write_said) or _first_line(read_said)
        if not done:
            raise RestoreFailed(f"The backup can't be restored: {problem or 'psql ended early'}")

    def counts(self) -> list[tuple[str, int]]:
        """Count in each table."""
        with self._connect() as connection:
            found = connection.execute(TABLES).fetchall()
            return [(str(name), _count(connection, str(schema), str(name))) for schema, name in found]

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        try:
            return psycopg.connect(self._address, password=self._password, autocommit=True)
        except psycopg.OperationalError as error:
            raise RestoreFailed(f"The database can't be used: {str(error).splitlines()[0]}") from None

    def _run(self, name: str, *words: str) -> str:
        done = subprocess.run(
            [program(name), *words], env=self._environment(), capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise BackupFailed(f"{name} failed: {lines[0]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **({"PGPASSWORD": self._password} if self._password else {})}


def program(name: str) -> str:
    """Give the path of one of PostgreSQL's programs, of the newest version where Debian keeps several."""
    found = shutil.which(name)
    if found is not None:
        return found
    installed = [path for path in DEBIAN.glob(f"*/bin/{name}") if path.parts[-3].isdigit()]
    if not installed:
        raise ProgramMissing(
            f"{name} is neither on the PATH nor in {DEBIAN}/*/bin. Install PostgreSQL's client programs."
        )
    return str(max(installed, key=lambda path: int(path.parts[-3])))


def _feed(writer: "subprocess.Popen[bytes]", reading: list[str], said: IO[bytes], last: str) -> bool:
    """Give the writer BEGIN, the dump and, if all of that was read, `last`; tell whether it did everything."""
    pipe = cast("IO[bytes]", writer.stdin)
    try:
        pipe.write(b"BEGIN;\n")
        pipe.flush()
        read = subprocess.run(reading, stdout=pipe, stderr=said, stdin=subprocess.DEVNULL, check=False)
        if read.returncode == 0:
            pipe.write(last.encode())
        pipe.close()
    except BrokenPipeError:  # it had ended by a fault, which it has told
        writer.wait()
        return False
    return writer.wait() == 0 and read.returncode == 0


def _first_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = [line for line in said.read().decode(errors="replace").splitlines() if "ERROR" in line or "error" in line]
    return lines[0] if lines else ""


def _count(connection: psycopg.Connection[tuple[object, ...]], schema: str, table: str) -> int:
    counted = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
    return int(str((connection.execute(counted).fetchone() or (0,))[0]))
