"""A reload (HUP) under load: no call fails, every call has its run, and the new workers are as the old ones were."""

import signal
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.deploy.load import Load
from tests.deploy.workers import cores_of, resident_megabytes, workers_of
from tests.support.server import ALICE, ServerProcess
from tests.support.waiting import wait_until

MOST_MEGABYTES = 150  # a worker (design §8)
SCOPES = "mcp:manifest:read mcp:flows:read"


def token_of(server: ServerProcess) -> str:
    words = ("token", "issue", "--name", "load", "--operator", ALICE.email, "--scope", SCOPES)
    return server.instance.run(*words).stdout.strip()


def reload(server: ServerProcess) -> None:
    """Send HUP and wait until every worker of before has ended."""
    assert server.process is not None
    before = workers_of(server.process.pid)
    server.process.send_signal(signal.SIGHUP)
    wait_until("new workers", lambda: not before & workers_of(server.process.pid), seconds=40)
    assert server.process.poll() is None


def recorded(server: ServerProcess) -> tuple[int, int]:
    """Count the runs and audit events of calls that were done."""
    engine = create_engine(server.instance.database_url)
    try:
        with engine.connect() as connection:
            runs = connection.execute(text("SELECT count(*) FROM cs_run WHERE status = 'done'")).scalar_one()
            audits = connection.execute(text("SELECT count(*) FROM cs_audit WHERE event = 'call.done'")).scalar_one()
    finally:
        engine.dispose()
    return runs, audits


@pytest.mark.db
def test_a_reload_under_load_fails_no_call_and_loses_no_trace(server_factory: Callable[..., Any]) -> None:
    server = server_factory()
    with Load(server.mcp_url, token_of(server), kept_alive=6, fresh=3, pause=0.005) as load:
        wait_until("calls", lambda: load.counted.answered > 200)
        for _ in range(2):
            reload(server)
            so_far = load.counted.answered
            wait_until("calls of the new workers", lambda: load.counted.answered > so_far + 200)  # noqa: B023
    server.stop()  # what the last workers still had to write is written now

    assert load.counted.failures == []
    assert recorded(server) == (load.counted.answered, load.counted.answered)


def test_after_a_reload_each_worker_has_a_core_of_its_own_and_little_memory(
    server_factory: Callable[..., Any],
) -> None:
    server = server_factory()
    with Load(server.mcp_url, token_of(server), kept_alive=4, fresh=0) as load:
        wait_until("calls", lambda: load.counted.answered > 500)
        before = [resident_megabytes(pid) for pid in workers_of(server.process.pid)]
        reload(server)
        so_far = load.counted.answered
        wait_until("calls", lambda: load.counted.answered > so_far + 500)
        workers = workers_of(server.process.pid)
        after = [resident_megabytes(pid) for pid in workers]
        cores = [cores_of(pid) for pid in workers]

    assert len(before) == len(after) == 2
    assert max(before + after) <= MOST_MEGABYTES
    assert [len(one) for one in cores] == [1, 1]
    assert len(set.union(*cores)) == min(2, len(cores_of(0)))
