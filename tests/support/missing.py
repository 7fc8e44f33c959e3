"""What a test run does when a program of the machine is missing: skip aloud, or fail where `CI` is set."""

import os
from collections import Counter
from typing import NoReturn

import pytest

missing: Counter[str] = Counter()


def skip_or_fail(program: str, counts: Counter[str] = missing) -> NoReturn:
    """Skip the running test because `program` is missing; where the environment has `CI`, fail it instead."""
    if os.environ.get("CI"):
        pytest.fail(f"{program} is missing, and CI is set", pytrace=False)
    counts[program] += 1
    pytest.skip(f"{program} is missing")


def missing_lines(counts: Counter[str] = missing) -> list[str]:
    """Return one line for each program that was missing, for the end of the test report."""
    return [f"SKIPPED for want of {program}: {count} test(s)" for program, count in sorted(counts.items())]
