"""A terminal that a person could sit at: tmux, with one pane that types and reads."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.missing import skip_or_fail
from tests.support.waiting import wait_until

PROMPT = "ready> "


class Terminal:
    """One pane of a tmux server of its own, wide enough for a long address."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def type(self, *words: str) -> None:
        """Type a command line and press Enter."""
        self._tmux("send-keys", "-t", "main", "-l", shlex.join(words))
        self._tmux("send-keys", "-t", "main", "Enter")

    def press(self, key: str) -> None:
        """Press one key by tmux's name for it, like `C-c`."""
        self._tmux("send-keys", "-t", "main", key)

    def screen(self) -> str:
        """Give everything that the pane shows and has shown, lines that it broke joined again."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "main")

    def wait_for(self, pattern: str, *, seconds: float = 30.0) -> re.Match[str]:
        """Give the first match of `pattern` on the screen; raise AssertionError with the screen when none comes."""
        try:
            return wait_until(pattern, lambda: re.search(pattern, self.screen(), re.M), seconds=seconds, every=0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from None

    def run(self, *words: str, seconds: float = 30.0) -> tuple[int, str]:
        """Type a command on a clear screen, wait for its end, give its status and what it showed."""
        self.start(*words)
        return self.ended(seconds=seconds)

    def start(self, *words: str) -> None:
        """Type a command on a clear screen and leave it running."""
        self._tmux("send-keys", "-t", "main", "-R")
        self._tmux("clear-history", "-t", "main")
        self.type(*words)

    def ended(self, *, seconds: float = 30.0) -> tuple[int, str]:
        """Wait for the end of the running command; give its status and the screen."""
        found = self.wait_for(r"^\[([0-9]+)\] " + PROMPT.strip(), seconds=seconds)
        return int(found[1]), self.screen()

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout


@contextmanager
def terminal(environment: Mapping[str, str], folder: Path) -> Iterator[Terminal]:
    """Give a terminal with exactly this environment; skip, or fail in CI, when tmux is missing."""
    if shutil.which("tmux") is None:
        skip_or_fail("tmux")
    # The prompt shows the status of the last command; Bash reads no file of the developer's.
    own = {**environment, "PS1": f"[$?] {PROMPT}", "LC_ALL": "C.UTF-8", "HISTFILE": "/dev/null"}
    with tempfile.TemporaryDirectory(prefix="tmux-") as home:
        socket = Path(home) / "socket"
        size = ["-x", "250", "-y", "60"]
        session = ["new-session", "-d", "-s", "main", *size, "bash", "--norc", "--noprofile"]
        start = ["tmux", "-f", "/dev/null", "-S", str(socket), *session]
        subprocess.run(start, env=own, cwd=folder, timeout=20, check=True)
        pane = Terminal(socket)
        try:
            pane.wait_for(PROMPT.strip())
            yield pane
        finally:
            subprocess.run(["tmux", "-S", str(socket), "kill-server"], timeout=20, check=False, capture_output=True)
