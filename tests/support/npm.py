"""npm packages as a lock file says: by hash, without install scripts, once for each state of the lock."""

import fcntl
import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


class InstallFailed(AssertionError):
    """An installer ended with another status than 0; the message has what it printed."""


def npm_ci(folder: Path, then: Callable[[], None] = lambda: None) -> None:
    """Install what `folder` locks into its node_modules, and do what comes `then`; raise InstallFailed."""

    def install() -> None:
        run_installer(NPM_CI, folder)
        then()

    once_for(folder / "package-lock.json", folder / "node_modules", install)


def once_for(lock: Path, installed: Path, install: Callable[[], None]) -> None:
    """Call `install` unless `installed` was made from this very lock; one at a time for runs of one checkout."""
    mark = installed / ".installed-from"
    with lock.open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        wanted = hashlib.sha256(opened.read()).hexdigest()
        if not mark.exists() or mark.read_text() != wanted:
            install()
            mark.write_text(wanted)


def run_installer(command: list[str], folder: Path) -> None:
    """Run one command of an installation in `folder`; raise InstallFailed when it doesn't end well."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise InstallFailed(f"{command[0]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
