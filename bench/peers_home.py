"""Where the peers live: a virtual environment of their own, outside the checkout, made when missing."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
LOCK = PEERS / "requirements.lock"


def prepare_peers() -> Path:
    """Give the folder of the peers' programs; install exactly what the lock file says, once per lock file."""
    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    home = _cache() / f"peers-{version}"
    if not (home / "complete").exists():
        print(f"Installing the peers into {home} (once).", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
        (home / "complete").touch()
    return home / "bin"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "countersign-bench"
