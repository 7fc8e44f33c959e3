"""The start: from the command to the first `/readyz`, against importing the libraries in a process of their own."""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.ours import REPO, Ours
from bench.ratios import Ratio

# Whatever the application has imported of others by the time it can serve, gunicorn and the database driver with it.
LIBRARIES = """
import json, sys
before = set(sys.modules)
import app, gunicorn.app.wsgiapp, gunicorn.workers.gthread, sqlalchemy.dialects.sqlite
found = [name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", None) or "")]
print(json.dumps([name for name in found if name not in before]))
"""
IMPORT_THEM = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"


def measure_start(ours: Ours, *, rounds: int, core: int) -> Ratio:
    """Start a server and import its libraries by turns on one core; give start over import, in milliseconds."""
    program = ["taskset", "-c", str(core), sys.executable]
    listed = subprocess.run([*program, "-c", LIBRARIES], cwd=REPO, capture_output=True, text=True, check=True)
    libraries = json.loads(listed.stdout)
    pairs = []
    for _ in range(rounds + 1):
        began = time.monotonic()
        with ours.serving(workers=1, cores=str(core)):
            start = time.monotonic() - began
        began = time.monotonic()
        subprocess.run([*program, "-c", IMPORT_THEM, *libraries], cwd=Path("/"), check=True)
        pairs.append((start * 1000, (time.monotonic() - began) * 1000))
    return Ratio("start_vs_import", tuple(pairs[1:]), unit="ms")  # the first only fills the machine's caches
