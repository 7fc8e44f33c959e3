"""What this machine has to offer before the start: files that nobody else reads, a fit place for them, a fit user."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from cli.findings import Finding, warning
from core.settings import SECRET_FILE, Settings

MOUNTS = Path("/proc/self/mountinfo")
# SQLite's WAL needs memory that all its processes share (sqlite.org/wal.html): across a network there is none.
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "9p", "fuse.sshfs", "fuse.glusterfs"})


def find_on_machine(settings: Settings, dotenv: Path) -> Iterator[Finding]:
    """Name what is wrong with this installation's files and with the user who starts it."""
    yield from _folder(settings.instance)
    yield from _key_file(settings.instance / SECRET_FILE)
    yield from (_for_us_alone(path) for path in (settings.instance, dotenv) if _others_may(path))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else settings.workers
    if settings.workers > cores:
        yield warning(
            f"{settings.workers} workers share {cores} cores: more workers than cores answer no faster.",
            f"COUNTERSIGN_WORKERS={cores}",
        )
    if os.geteuid() == 0:
        yield warning(
            "The server runs as root, which it never needs.",
            "Start it as a user of its own (deploy/countersign.service)",
        )


def find_about_sqlite(file: Path) -> Iterator[Finding]:
    """Name what is wrong with the file of an SQLite database."""
    if not file.exists():
        yield Finding(f"There is no database at {file}.", "countersign db upgrade")
    elif _others_may(file):
        yield _for_us_alone(file)
    if (kind := file_system(file)) in NETWORK:
        yield Finding(
            f"The SQLite database {file} lies on a network file system ({kind}), where it would be damaged.",
            "Put it on a local disk (COUNTERSIGN_DATABASE_URL), or use PostgreSQL.",
        )


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Give the kind of file system that `path` lies on; empty when this machine doesn't tell."""
    try:
        lines = mounts.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    where = path.resolve()
    found = ((Path(_unescaped(line.split()[4])), line.split(" - ", 1)[1].split()[0]) for line in lines)
    over = [(len(point.parts), kind) for point, kind in found if where.is_relative_to(point)]
    return max(over, default=(0, ""), key=lambda one: one[0])[1]


def _folder(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding(f"The folder {folder} doesn't exist.", f"mkdir -m 700 {folder}")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(f"The folder {folder} can't be written.", f"chown {_user()} {folder}")


def _key_file(file: Path) -> Iterator[Finding]:
    try:
        found = file.stat()
    except OSError:  # that there is no key at all is said with the settings
        return
    if stat.S_IMODE(found.st_mode) & 0o077:
        yield Finding(f"Others than its owner may use the secret key file {file}.", f"chmod 600 {file}")
    if found.st_uid != os.geteuid():
        yield Finding(f"The secret key file {file} belongs to another user.", f"chown {_user()} {file}")


def _others_may(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)


def _for_us_alone(path: Path) -> Finding:
    mode = 700 if path.is_dir() else 600
    return warning(f"Other users of this machine may look into {path}.", f"chmod {mode} {path}")


def _user() -> str:
    return str(os.geteuid())


def _unescaped(text: str) -> str:
    """Give a path as it is; mountinfo writes spaces and the like in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
