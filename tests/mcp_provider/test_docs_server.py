"""The process that serves the documentation: bounds on time, threads and bodies, and nothing but JSON."""

import contextlib
import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import Unavailable
from mcp_provider import docs_server
from mcp_provider.docs_endpoint import BODY_LIMIT
from mcp_provider.docs_index import DocsIndex
from mcp_provider.docs_server import DocsServer, listen
from mcp_provider.docs_tools import DocsTools
from tests.conformance import suite
from tests.mcp_provider.desk import PAGES
from tests.support.raw_mcp import LEGACY, MODERN, RawMcp, send
from tests.support.server import REPO
from tests.support.waiting import free_port, wait_until

JSON = ("Content-Type", "application/json")
HEAVY = {"sqlalchemy", "flask", "authlib", "mcp", "click", "gunicorn", "policy.dispatch", "auth", "core.db"}


@contextlib.contextmanager
def serving(tools: DocsTools) -> Iterator[str]:
    """Serve in a thread on a free port; give the address of the root."""
    with DocsServer(tools, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def tools() -> DocsTools:
    return DocsTools(DocsIndex(PAGES))


@pytest.fixture
def url(tools: DocsTools) -> Iterator[str]:
    with serving(tools) as address:
        yield address


def open_to(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def all_of(connection: socket.socket) -> bytes:
    """Return what comes until the other side hangs up."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


def test_it_answers_on_loopback_alone(url: str, tools: DocsTools) -> None:
    assert RawMcp(f"{url}/mcp", version=LEGACY).call("docs_search", {"query": "nginx"}).data["results"]
    with DocsServer(tools, 0) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("scenario", "revision"),
    [
        ("server-initialize", LEGACY),
        ("tools-list", MODERN),
        ("dns-rebinding-protection", MODERN),
        ("http-header-validation", MODERN),
    ],
)
def test_the_public_suite_finds_nothing_wrong(url: str, tmp_path: Path, scenario: str, revision: str) -> None:
    suite.install()
    checks = suite.run_server_scenario(suite.Run(scenario, revision), f"{url}/mcp", tmp_path)

    assert [str(check) for check in checks if check.status not in ("SUCCESS", "SKIPPED", "INFO")] == []
    assert checks


def test_a_huge_body_is_refused_so_that_its_sender_reads_why(url: str) -> None:
    answer = send("POST", f"{url}/mcp", [JSON], b"x" * (BODY_LIMIT * 50))

    assert (answer.status, answer.error["data"]["code"]) == (413, "invalid_request")


def test_chunks_are_refused(url: str) -> None:
    answer = send("POST", f"{url}/mcp", [JSON, ("Transfer-Encoding", "chunked")], b"2\r\n{}\r\n0\r\n\r\n")

    assert (answer.status, answer.error["data"]["code"]) == (411, "invalid_request")


@pytest.mark.parametrize(
    "headers",
    [
        [("Host", "127.0.0.1:{port}"), ("Host", "evil.example")],
        [("Host", "evil.example"), ("Host", "127.0.0.1:{port}")],
        [("Host", "127.0.0.1:{port}"), ("Origin", "http://localhost"), ("Origin", "https://evil.example")],
    ],
)
def test_a_header_that_comes_twice_counts_as_neither(url: str, headers: list[tuple[str, str]]) -> None:
    port = url.rpartition(":")[2]
    given = [(name, value.format(port=port)) for name, value in headers]

    assert send("GET", f"{url}/health", given[:1]).status == (200 if "127" in given[0][1] else 403)
    assert send("GET", f"{url}/health", given).status == 403


def test_a_variable_of_the_process_passes_for_no_header(tools: DocsTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_ORIGIN", "https://evil.example")
    monkeypatch.setenv("HTTP_TRANSFER_ENCODING", "chunked")
    with serving(tools) as url:
        assert RawMcp(f"{url}/mcp", version=LEGACY).request("ping").result == {}


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"<script> / HTTP/1.1\r\n\r\n",
        b"GET /health <b>HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /health\r\n\r\n",
    ],
)
def test_what_is_no_request_is_never_answered_in_html(url: str, sent: bytes) -> None:
    with open_to(url) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)

    assert b"<" not in answer
    assert b"Traceback" not in answer
    assert not answer.startswith(b"HTTP/1.0 2")
    assert send("GET", f"{url}/health").status == 200


def test_single_bytes_put_the_end_of_a_request_off_no_further(
    tools: DocsTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_server, "SECONDS", 0.6)
    monkeypatch.setattr(docs_server, "LAST_BYTES", 0.1)
    with serving(tools) as url, open_to(url) as slow:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + 5:
                slow.sendall(b"G")
                time.sleep(0.05)
        lasted = time.monotonic() - began

    assert 0.4 < lasted < 3


def test_a_body_that_never_comes_ends_its_connection_and_no_other(
    tools: DocsTools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(docs_server, "SECONDS", 0.5)
    with serving(tools) as url, open_to(url) as slow:
        port = url.rpartition(":")[2].encode()
        slow.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost:%b\r\nContent-Type: application/json\r\n" % port)
        slow.sendall(b"Content-Length: 10\r\n\r\n{")

        assert send("GET", f"{url}/health").status == 200
        assert b"200" not in all_of(slow)
    assert "Traceback" not in caplog.text


def test_who_holds_every_thread_keeps_others_out_for_a_while_only(
    tools: DocsTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_server, "SECONDS", 1.0)
    monkeypatch.setattr(docs_server, "PATIENCE", 0.05)
    monkeypatch.setattr(docs_server, "LAST_BYTES", 0.1)
    with serving(tools) as url, contextlib.ExitStack() as stack:
        before = threading.active_count()
        silent = [stack.enter_context(open_to(url)) for _ in range(docs_server.AT_ONCE * 3)]
        hung_up = [all_of(connection) for connection in silent]

        assert threading.active_count() <= before + docs_server.AT_ONCE
        assert set(hung_up) == {b""}
        wait_until("a place", lambda: _is_answered(url))


def _is_answered(url: str) -> bool:
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        return send("GET", f"{url}/health").status == 200
    return False


def test_a_defect_is_told_to_the_log_alone(
    url: str, tools: DocsTools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_args: object) -> None:
        raise RuntimeError("the inside of it")

    monkeypatch.setattr(tools, "list", broken)
    with caplog.at_level(logging.ERROR):
        answer = RawMcp(f"{url}/mcp", version=LEGACY).request("tools/list")

    assert (answer.status, answer.error["code"]) == (500, -32603)
    assert answer.error["data"] == {"code": "internal"}
    assert b"inside" not in answer.raw
    assert "the inside of it" in caplog.text


def test_it_takes_the_first_port_that_is_free_and_not_to_be_left_to_others(
    tools: DocsTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, left, free = free_port(), free_port(), free_port()
    monkeypatch.setattr(docs_server, "PORTS", [taken, left, free])
    with socket.create_server(("127.0.0.1", taken)), listen(tools, avoid=left) as server:
        assert server.url == f"http://127.0.0.1:{free}/mcp"
        with pytest.raises(Unavailable, match=f"ports {taken} to {free} are taken"):
            listen(tools, avoid=left)


def test_it_loads_no_database_no_flows_and_no_web_framework() -> None:
    program = "import sys, mcp_provider.docs_server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) & HEAVY == set()


def test_what_is_printed_is_ready_to_be_copied() -> None:
    printed = docs_server.words("http://127.0.0.1:6536/mcp").splitlines()

    assert json.loads(printed[3]) == {"mcpServers": {"countersign-docs": {"url": "http://127.0.0.1:6536/mcp"}}}
    assert printed[2].strip() == "http://127.0.0.1:6536/mcp"
