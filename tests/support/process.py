"""Child processes that end with the test run, also when it is killed."""

import os
import shutil
import signal
import subprocess

NOBODY = ("--reuid=nobody", "--regid=nogroup", "--clear-groups")


def guarded(command: list[str], *, as_nobody: bool = False, last_signal: str = "TERM") -> list[str]:
    """Return `command` so that the kernel ends it with its parent, as user nobody where asked and needed."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return command
    user = NOBODY if as_nobody and os.geteuid() == 0 else ()
    return [setpriv, *user, f"--pdeathsig={last_signal}", *command]


def stop(process: subprocess.Popen[bytes], *, first: int = signal.SIGTERM, seconds: float = 15.0) -> int:
    """End one process by its id, gently and then hard, and return its exit status."""
    if process.poll() is None:
        process.send_signal(first)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(seconds)
