"""axe-core, installed as locked and run inside a page."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.support.missing import skip_or_fail

HERE = Path(__file__).parent
SCRIPT = HERE / "node_modules" / "axe-core" / "axe.min.js"
MARK = HERE / "node_modules" / ".installed-from"
NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
# WCAG 2.2 AA (design D8) and what axe calls good practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def install() -> None:
    """Install axe-core as the lock file says, unless that is done; skip, or fail under CI, without npm."""
    if shutil.which("npm") is None:
        skip_or_fail("npm")
    with (HERE / "package-lock.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs of one checkout
        wanted = hashlib.sha256(lock.read()).hexdigest()
        if not MARK.exists() or MARK.read_text() != wanted:
            done = subprocess.run(
                NPM_CI, cwd=HERE, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            MARK.write_text(wanted)


def violations(tab: Page) -> list[str]:
    """Give what axe finds wrong with the open page: the rule, and the elements that break it."""
    tab.evaluate(SCRIPT.read_text())  # by the debugger's door: the page's own policy lets no foreign script in
    found: dict[str, Any] = tab.evaluate("rules => axe.run({ runOnly: rules })", RULES)
    return [f"{one['id']}: {[node['html'] for node in one['nodes']]}" for one in found["violations"]]
