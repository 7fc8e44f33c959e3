"""The clients on this machine: npm packages and the Python SDK 1.x, each by hash from a lock file in this folder."""

import json
import re
import sys
import venv
from pathlib import Path

from tests.conformance.suite import install as install_node
from tests.support.npm import npm_ci, once_for, run_installer

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
PYTHON_LOCK = HERE / "python-sdk-1.lock"
VENV = HERE / ".venv"  # beside the 2.x of the tests' own environment
PYTHON = VENV / "bin" / "python"


def install_clients() -> None:
    """Install all of them unless that is done; skip, or fail under CI, without npm.

    package.json holds vite, which the Inspector's pages are made with, below the version whose optional part for
    Windows the registry lacks: no lock file can name that part.
    """
    install_node()
    npm_ci(HERE)
    once_for(PYTHON_LOCK, VENV, _install_python)


def npm_version(package: str) -> str:
    """Return the installed version of an npm package."""
    return str(json.loads((MODULES / package / "package.json").read_text())["version"])


def python_version() -> str:
    """Return the locked version of the Python SDK 1.x."""
    found = re.search(r"^mcp==(\S+)", PYTHON_LOCK.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _install_python() -> None:
    venv.create(VENV, clear=True)
    pip = [sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "--quiet", "--disable-pip-version-check"]
    run_installer([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(PYTHON_LOCK)], HERE)
