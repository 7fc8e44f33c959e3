"""`make bench`: Countersign against its peers on the same job, as ratios measured in one run (design §8)."""

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.access import measure_access
from bench.load import Load, Target, fire
from bench.ours import Ours, ask, body_of, headers_of
from bench.peers_home import PEERS, prepare_peers
from bench.processes import free_port, running
from bench.ratios import Ratio, summary
from bench.starting import measure_start

Request = tuple[str, dict[str, Any]]  # method and params
CALL: Request = ("tools/call", {"name": "orders_get", "arguments": {"order_id": 1042}})
LIST: Request = ("tools/list", {})
MODERN, LEGACY = "2026-07-28", "2025-11-25"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how hard."""

    rounds: int
    seconds: int
    connections: int


class Bench:
    """One run: servers on the first core, wrk on the last."""

    def __init__(self, plan: Plan, folder: Path, stack: ExitStack) -> None:
        self.plan, self.folder, self.stack = plan, folder, stack
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.load_core = cores[0], cores[-1]
        self.all_cores = ",".join(map(str, cores))
        self.ours = Ours(folder)
        self.latencies: dict[str, float] = {}

    def run(self) -> list[Ratio]:
        """Measure everything; the start first, while nothing else runs."""
        start = measure_start(self.ours, rounds=self.plan.rounds, core=self.server_core)
        print(start.words(), flush=True)
        ours = self.stack.enter_context(self.ours.serving(workers=1, cores=str(self.server_core)))
        listed = ask(self.ours.target(ours, LEGACY, *LIST))["result"]["tools"]
        fastmcp, flask = self._peers(listed)
        bare = Target(flask, "/orders_get", {"Content-Type": "application/json"}, b'{"order_id":1042}')
        self._assert_same_job(ours, fastmcp, bare)

        found = [
            start,
            self._pair("read_2026_vs_fastmcp", *self._both(ours, fastmcp, MODERN, CALL), recorded=True),
            self._pair("read_2025_vs_fastmcp", *self._both(ours, fastmcp, LEGACY, CALL), recorded=True),
            self._pair("read_vs_bare_flask", self.ours.target(ours, MODERN, *CALL), bare, recorded=True),
            self._pair("list_vs_fastmcp", *self._both(ours, fastmcp, LEGACY, LIST), recorded=False),
        ]
        two = self.stack.enter_context(self.ours.serving(workers=2, cores=self.all_cores))
        call = [self.ours.target(port, MODERN, *CALL) for port in (two, ours)]
        found.append(self._pair("workers_2_vs_1", call[0], call[1], recorded=True, both_ours=True))
        self.latencies = measure_access(self.ours, two)
        return found

    def _peers(self, listed: list[Any]) -> tuple[int, int]:
        programs = prepare_peers()
        tools = self.folder / "tools.json"
        tools.write_text(json.dumps(listed))
        environment = {"BENCH_DATABASE_URL": self.ours.database_url, "BENCH_TOOLS": str(tools)}
        fastmcp, flask = free_port(), free_port()
        # Like ours, the peers write one access line a request: uvicorn by default, gunicorn when asked.
        gthread = [
            "-k",
            "gthread",
            "--threads",
            "16",
            "--no-control-socket",
            "--keep-alive",
            "75",
            "--access-logfile",
            "-",
        ]
        commands = {
            fastmcp: [str(programs / "uvicorn"), "fastmcp_server:app", "--port", str(fastmcp)],
            flask: [str(programs / "gunicorn"), *gthread, "-b", f"127.0.0.1:{flask}", "flask_app:app"],
        }
        for port, command in commands.items():
            log = self.folder / f"peer-{port}.log"
            self.stack.enter_context(
                running(command, port=port, cores=str(self.server_core), folder=PEERS, environment=environment, log=log)
            )
        return fastmcp, flask

    def _both(self, ours: int, fastmcp: int, revision: str, request: Request) -> tuple[Target, Target]:
        method, params = request
        headers = headers_of(revision, method, str(params["name"]) if "name" in params else None)
        return (
            self.ours.target(ours, revision, method, params),
            Target(fastmcp, "/mcp", headers, body_of(revision, method, params)),
        )

    def _assert_same_job(self, ours: int, fastmcp: int, bare: Target) -> None:
        plain = ask(bare)
        for revision in (MODERN, LEGACY):
            for target in self._both(ours, fastmcp, revision, CALL):
                answer = ask(target)
                assert answer.get("result", {}).get("structuredContent") == plain, answer
            one, other = (ask(target)["result"]["tools"] for target in self._both(ours, fastmcp, revision, LIST))
            assert [tool["name"] for tool in one] == [tool["name"] for tool in other]

    def _pair(self, name: str, first: Target, second: Target, *, recorded: bool, both_ours: bool = False) -> Ratio:
        for target in (first, second):  # caches, pools and statements as in the middle of a day
            fire(target, seconds=1, connections=self.plan.connections, core=self.load_core, folder=self.folder)
        pairs = []
        for _ in range(self.plan.rounds):
            one = self._round(first, recorded=recorded)
            two = self._round(second, recorded=recorded and both_ours)
            pairs.append((one.per_second, two.per_second))
        ratio = Ratio(name, tuple(pairs))
        print(ratio.words(), flush=True)
        return ratio

    def _round(self, target: Target, *, recorded: bool) -> Load:
        before = self.ours.settled()
        load = fire(
            target,
            seconds=self.plan.seconds,
            connections=self.plan.connections,
            core=self.load_core,
            folder=self.folder,
        )
        if recorded:
            self.ours.assert_recorded(before, load.requests, self.plan.connections)
        else:
            assert self.ours.settled() == before, "something was recorded that nobody called"
        return load


def main() -> int:
    """Run the bench; the last line printed is the result as JSON."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="pairs of rounds, A B A B (default 7)")
    parser.add_argument("--seconds", type=int, default=3, help="seconds of each round (default 3)")
    parser.add_argument("--connections", type=int, default=16, help="connections of wrk (default 16)")
    given = parser.parse_args()
    if shutil.which("wrk") is None or len(os.sched_getaffinity(0)) < 2:
        print("The bench needs Debian's wrk (apt-get install wrk) and two cores.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="countersign-bench-") as folder, ExitStack() as stack:
        bench = Bench(Plan(given.rounds, given.seconds, given.connections), Path(folder), stack)
        print(json.dumps(summary(bench.run()) | bench.latencies))
    return 0


if __name__ == "__main__":
    sys.exit(main())
