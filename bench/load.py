"""Load by wrk from another core than the server's: one fixed POST, many connections."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).parent / "wrk.lua"


@dataclass(frozen=True, slots=True)
class Target:
    """One request, sent again and again to a server on loopback."""

    port: int
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk measured in one round."""

    requests: int
    per_second: float
    p50_ms: float


def fire(target: Target, *, seconds: int, connections: int, core: int, folder: Path) -> Load:
    """Load the target for `seconds`; raise AssertionError when one answer was missing or not 2xx."""
    body = folder / "body"
    body.write_bytes(target.body)
    environment = os.environ | {
        "BENCH_BODY": str(body),
        "BENCH_PATH": target.path,
        "BENCH_HEADERS": "\n".join(f"{name}: {value}" for name, value in target.headers.items()),
    }
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT)]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{target.port}"], env=environment, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failed"] == 0, f"{found['failed']} of {found['requests']} requests failed: {done.stdout}"
    return Load(found["requests"], found["requests"] / found["microseconds"] * 1e6, found["p50_us"] / 1000)
