"""What a test can see of gunicorn's processes."""

import os
from pathlib import Path


def workers_of(master: int) -> set[int]:
    """Return the process ids of the master's living children."""
    return {int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()}


def cores_of(worker: int) -> set[int]:
    """Return the cores on which the worker may run."""
    return os.sched_getaffinity(worker)


def resident_megabytes(worker: int) -> float:
    """Return how much of the machine's memory the worker holds, what it shares with its parent included."""
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
