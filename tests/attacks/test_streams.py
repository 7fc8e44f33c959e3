"""Event streams over HTTP: who gets one, what it says, who may end it, and how many there can be (design D1)."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from core.settings import DEMO_FLOWS
from tests.support.browser import FormBrowser
from tests.support.event_stream import OpenStream
from tests.support.oauth import token_for
from tests.support.raw_mcp import LEGACY, META, MODERN, RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, Person, ServerProcess
from tests.support.waiting import wait_until

FLOWS = ",".join((*DEMO_FLOWS, "tests.support.slow_flows"))
ERAS = (MODERN, LEGACY)
BOTH, STREAM = "application/json, text/event-stream", "text/event-stream"


@pytest.fixture(scope="module")
def slow(new_instance: Any) -> Iterator[ServerProcess]:
    """A server with two workers and a long time for writes."""
    settings = {"COUNTERSIGN_FLOWS": FLOWS, "COUNTERSIGN_WRITE_DEADLINE": "20"}
    with ServerProcess(new_instance(), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def token(slow: ServerProcess) -> str:
    return token_of(slow)


def token_of(server: ServerProcess, person: Person = ALICE) -> str:
    browser = FormBrowser(server.base_url)
    browser.sign_in(person.email, person.password)
    return str(token_for(browser, tick=("mcp:action:invoke",))["access_token"])


def call(
    server: ServerProcess,
    token: str,
    era: str,
    tool: str = "slow_count",
    *,
    accept: str = BOTH,
    progress: Any = "p1",
    request_id: int | str = 7,
    session: str | None = None,
    **arguments: Any,
) -> OpenStream:
    meta: dict[str, Any] = {} if progress is None else {"progressToken": progress}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": accept}
    headers["MCP-Protocol-Version"] = era
    if session is not None:
        headers["Mcp-Session-Id"] = session
    if era == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        meta |= {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    return OpenStream(server.mcp_url, headers, json.dumps(body).encode())


def cancel(server: ServerProcess, token: str, request_id: Any = 7, session: str | None = None) -> RawAnswer:
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "MCP-Protocol-Version": LEGACY}
    if session is not None:
        headers["Mcp-Session-Id"] = session
    return send("POST", server.mcp_url, headers.items(), json.dumps(body).encode())


def ended_as(server: ServerProcess, steps: int) -> tuple[str, str | None]:
    """Wait until the one run with so many steps has ended and return its status and code."""
    engine = create_engine(server.instance.database_url)
    wanted = text("SELECT status, code FROM cs_run WHERE arguments = :arguments AND status <> 'running'")
    found: list[tuple[str, str | None]] = []

    def is_there() -> bool:
        with engine.connect() as connection:
            found[:] = [tuple(row) for row in connection.execute(wanted, {"arguments": f'{{"steps":{steps}}}'})]
        return bool(found)

    try:
        wait_until("the run", is_there, seconds=15)
    finally:
        engine.dispose()
    [one] = found
    return one


# --- who gets one, and what it says -------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_asks_for_progress_gets_it_and_then_its_result(slow, token, era):
    with call(slow, token, era, steps=3) as stream:
        *progress, last = stream.messages()

    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
    assert (stream.headers["x-accel-buffering"], stream.headers["cache-control"]) == ("no", "no-store")
    assert [one["method"] for one in progress] == ["notifications/progress"] * 3
    assert [one["params"] for one in progress] == [
        {"progressToken": "p1", "progress": n, "total": 3, "message": f"Step {n} of 3."} for n in (1, 2, 3)
    ]
    assert last["id"] == 7
    assert last["result"]["structuredContent"] == {"steps": 3}
    assert ("resultType" in last["result"]) is (era == MODERN)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("accept", "asked"), [(BOTH, None), ("application/json", "p1"), ("*/*", "p1"), (STREAM, None), (STREAM, 5)]
)
def test_only_who_asked_for_progress_or_takes_nothing_else_gets_a_stream(slow, token, era, accept, asked):
    with call(slow, token, era, accept=accept, progress=asked, steps=1) as stream:
        raw = stream.answer.read()

    kind = STREAM if accept == STREAM else "application/json"
    assert (stream.status, stream.headers["content-type"]) == (200, kind)
    assert (b"notifications/progress" in raw) is (accept == STREAM and asked is not None)
    assert b'"steps":1' in raw


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "answered"),
    [("nothing_like_it", (200, "unknown_tool")), ("orders_refund", (403, "insufficient_scope"))],
)
def test_what_never_began_is_answered_as_without_a_stream(slow, token, era, tool, answered):
    with call(slow, token, era, tool, order_id=1042, reason="x") as answer:
        body = json.loads(answer.answer.read())

    assert answer.headers["content-type"] == "application/json"
    assert (answer.status, body["error"]["data"]["code"]) == answered


def test_without_a_token_of_access_there_is_no_stream(slow):
    with call(slow, "cs_at_" + "x" * 43, MODERN, steps=1) as answer:
        assert answer.status == 401


@pytest.mark.parametrize("odd", [None, True, 1.5, [], {}])
def test_what_is_no_progress_token_asks_for_nothing(slow, token, odd):
    with call(slow, token, LEGACY, accept=STREAM, progress=odd, steps=1) as stream:
        raw = stream.answer.read()

    assert b"notifications/progress" not in raw


# --- who may end it -----------------------------------------------------------------------------------------------


def test_in_the_modern_era_a_cut_stream_ends_a_run_that_only_reads(slow, token):
    with call(slow, token, MODERN, steps=101) as stream:
        next(stream.messages())

    assert ended_as(slow, 101) == ("failed", "cancelled")


def test_in_the_modern_era_a_cut_connection_ends_a_run_without_a_stream_too(slow, token):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body["params"] = {"name": "slow_count", "arguments": {"steps": 102}, "_meta": RawMcp("x").meta()}
    headers = RawMcp(slow.mcp_url, token).headers("tools/call", body["params"])
    with pytest.raises(TimeoutError):
        send("POST", slow.mcp_url, headers.items(), json.dumps(body).encode(), seconds=1)

    assert ended_as(slow, 102) == ("failed", "cancelled")


def test_in_older_revisions_a_cut_stream_ends_nothing(slow, token):
    with call(slow, token, LEGACY, steps=20) as stream:
        next(stream.messages())

    assert ended_as(slow, 20) == ("done", None)


@pytest.mark.parametrize("times", range(3))  # whichever worker hears it
def test_in_older_revisions_a_notification_ends_a_run_and_nothing_is_answered(slow, token, times):
    with call(slow, token, LEGACY, steps=110 + times, request_id=f"r{times}") as stream:
        messages = stream.messages()
        next(messages)
        taken = cancel(slow, token, f"r{times}")
        rest = list(messages)

    assert (taken.status, taken.raw) == (202, b"")
    assert ended_as(slow, 110 + times) == ("failed", "cancelled")
    assert all("result" not in message for message in rest)


def test_nobody_takes_back_the_call_of_another_grant_session_or_id(slow, token):
    session = RawMcp(slow.mcp_url, token, version=LEGACY).initialize().headers["mcp-session-id"]
    with call(slow, token, LEGACY, steps=25, session=session) as stream:
        messages = stream.messages()
        next(messages)
        cancel(slow, token_of(slow, BOB), session=session)
        cancel(slow, token_of(slow), session=session)  # the same person, another connection
        cancel(slow, token)
        cancel(slow, token, "7", session)
        *_, last = messages

    assert last["result"]["structuredContent"] == {"steps": 25}


@pytest.mark.parametrize("request_id", [None, "unknown", 1.5, True, [], {"x": 1}, "x" * 5000, "\x00"])
def test_taking_back_what_is_no_call_never_errs(slow, token, request_id):
    assert cancel(slow, token, request_id).status == 202


@pytest.mark.parametrize("era", ERAS)
def test_an_accepted_write_runs_to_its_end_whoever_leaves(slow, token, era):
    steps = 15 + ERAS.index(era)
    asked = RawMcp(slow.mcp_url, token, version=era).call("slow_change", {"steps": steps}).data
    browser = FormBrowser(slow.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    browser.approve(asked["confirmUrl"])
    confirmed = {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"}
    with call(slow, token, era, "slow_change", steps=steps, **confirmed) as stream:
        first = next(stream.messages())
    cancel(slow, token)
    ended = ended_as(slow, steps)
    again = RawMcp(slow.mcp_url, token, version=era).call("slow_change", {"steps": steps, **confirmed})

    assert first["params"]["progress"] == 1
    assert ended == ("done", None)
    assert (again.data["refusal"]["code"], again.data["outcome"]) == ("confirmation_spent", "done")


# --- how many there can be ----------------------------------------------------------------------------------------


def test_streams_leave_threads_for_people_and_the_rest_is_told_to_come_again(slow, token):
    opened: list[OpenStream] = []
    refused: list[OpenStream] = []
    lock = threading.Lock()

    def open_one(n: int) -> None:
        stream = call(slow, token, LEGACY, steps=60, request_id=n)
        with lock:
            (opened if stream.status == 200 else refused).append(stream)

    threads = [threading.Thread(target=open_one, args=(n,)) for n in range(40)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    began = time.monotonic()
    page = FormBrowser(slow.base_url).open("/login")
    took = time.monotonic() - began
    body = json.loads(refused[0].answer.read())
    for stream in (*opened, *refused):
        stream.cut()

    assert 1 <= len(opened) <= 8  # four a worker
    assert {stream.status for stream in refused} == {503}
    assert {stream.headers["retry-after"] for stream in refused} == {"1"}
    assert body["error"]["data"]["code"] == "too_many_streams"
    assert (page.status, took < 2) == (200, True)


def test_a_flow_that_is_limited_runs_as_often_as_it_says_over_all_workers(slow, token):
    mcp = RawMcp(slow.mcp_url, token)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: mcp.call("slow_twice", {"steps": 20}), range(12)))
    done = [one for one in answers if not one.result["isError"]]
    refused = [one.result["content"][1]["text"] for one in answers if one.result["isError"]]

    assert len(done) == 2
    assert all(json.loads(facts)["code"] == "too_many_runs" for facts in refused)
    assert not mcp.call("slow_twice", {"steps": 1}).result["isError"]  # its slots came back


def test_places_come_back_when_their_runs_have_ended(slow, token):
    def has_room() -> bool:
        with call(slow, token, MODERN, steps=1) as stream:
            stream.answer.read()
            return stream.status == 200

    wait_until("a place", has_room, seconds=20)
    statuses = []
    for n in range(24):  # more than there are places: each is given back
        with call(slow, token, ERAS[n % 2], steps=1) as stream:
            stream.answer.read()
            statuses.append(stream.status)

    assert statuses == [200] * 24
