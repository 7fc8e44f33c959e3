"""A worker that has answered 200,000 calls is as large as one that has answered 20,000."""

import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.deploy.test_reload import token_of
from tests.deploy.workers import resident_megabytes, workers_of
from tests.support.raw_mcp import RawMcp

FEW, MANY, AT_ONCE = 20_000, 200_000, 8
MOST_GROWTH = 1.05


@pytest.mark.long
def test_a_worker_does_not_grow_with_its_calls(server_factory: Callable[..., Any]) -> None:
    server = server_factory(workers=1)
    caller = RawMcp(server.mcp_url, token_of(server))
    params = {"name": "orders_get", "arguments": {"order_id": 1042}, "_meta": caller.meta()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = caller.headers("tools/call", params)

    def call(times: int) -> None:
        connection = HTTPConnection("localhost", server.port, timeout=60)
        for _ in range(times):
            connection.request("POST", "/mcp", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        connection.close()

    def megabytes_after(calls: int) -> float:
        threads = [threading.Thread(target=call, args=(calls // AT_ONCE,)) for _ in range(AT_ONCE)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        [worker] = workers_of(server.process.pid)
        return resident_megabytes(worker)

    few = megabytes_after(FEW)
    many = megabytes_after(MANY - FEW)
    print(f"\n{few:.1f} MB after {FEW} calls, {many:.1f} MB after {MANY}")

    assert many <= few * MOST_GROWTH
