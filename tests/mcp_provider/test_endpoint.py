"""The checks before and around a message, in the order of W53."""

import ast
import logging
import subprocess
import sys
from typing import Any

import pytest

from core.errors import Unavailable
from tests.mcp_provider.house import House, make_house, request

LIST = request("tools/list")
EVIL = {"Origin": "https://evil.example"}


def open_as(house: House, method: str, path: str = "/mcp", **headers: str) -> Any:
    return house.open(method, path, headers)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (EVIL | {"Authorization": None}, LIST, 403),
        ({"Host": "evil.example", "Authorization": None}, LIST, 403),
        ({"Authorization": None, "Content-Type": "text/plain"}, b"{", 401),
        ({"Content-Type": "text/plain"}, b"x" * 1_100_000, 415),
        ({"Content-Type": "text/plain"}, b"{", 415),
        ({}, b"[" * 1_100_000, 413),
        ({}, b"{", 400),
        ({"MCP-Protocol-Version": "1900-01-01"}, {"jsonrpc": "2.0", "method": "notifications/x"}, 202),
        ({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "nonsense"}, request("tools/list"), 400),
    ],
)
def test_the_first_check_that_fails_answers(house: House, headers: Any, body: Any, status: int) -> None:
    answer = house.post(body, headers)

    assert answer.status == status
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_preflight_is_answered_before_anybody_is_asked_who_they_are(house: House) -> None:
    answer = open_as(house, "OPTIONS", Origin="http://localhost:6274")

    assert answer.status == 204
    assert "Mcp-Session-Id" in answer.headers["access-control-allow-headers"]
    assert open_as(house, "OPTIONS", Origin="https://evil.example").status == 403


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_other_methods_get_401_without_and_405_with_a_token(house: House, method: str, path: str) -> None:
    unknown, known = open_as(house, method, path), open_as(house, method, path, Authorization="Bearer alice")

    assert unknown.status == 401
    assert unknown.headers["www-authenticate"].startswith("Bearer ")
    assert known.status == 405
    assert known.headers["allow"] == "POST, OPTIONS"
    assert known.headers["content-type"] == "application/json"
    assert (known.raw == b"") is (method == "HEAD")


def test_a_trailing_slash_is_no_redirect(house: House) -> None:
    answer = house.post(request("ping"), path="/mcp/")

    assert answer.json == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.parametrize("dead", ["dead", "", "a" * 5000])
def test_a_dead_session_id_is_ignored(house: House, dead: str) -> None:
    answer = house.legacy("tools/list", headers={"Mcp-Session-Id": dead, "Last-Event-ID": "5"})

    assert "tools" in answer.result


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ('application/json;charset="UTF-8"', 200),
        ("Application/JSON", 200),
        ("application/json; charset=latin-1", 415),
        ("application/jsonx", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        (None, 415),
    ],
)
def test_only_json_is_read(house: House, content_type: str | None, status: int) -> None:
    answer = house.post(request("ping"), {"Content-Type": content_type})

    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"


def test_an_encoded_body_is_not_read(house: House) -> None:
    assert house.post(request("ping"), {"Content-Encoding": "gzip"}).status == 415


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/*",
        "application/json",
        "APPLICATION/JSON",
        "application/json;q=0.5",
        "text/html, */*;q=0.1",
        "text/event-stream, application/json",
        "text/event-stream;q=0.9, application/json;q=0.1",
    ],
)
def test_who_takes_json_gets_json(house: House, accept: str | None) -> None:
    answer = house.post(request("ping"), {"Accept": accept})

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize("accept", ["text/event-stream", "Text/Event-Stream", "text/event-stream;q=0.2, text/html"])
def test_who_takes_streams_alone_gets_one_event(house: House, accept: str) -> None:
    answer = house.post(request("ping"), {"Accept": accept})

    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.raw == b'event: message\ndata: {"jsonrpc":"2.0","id":7,"result":{}}\n\n'


@pytest.mark.parametrize(
    "accept", ["text/html", "", "application/json;q=0", "text/*", "nonsense", "image/png, text/plain"]
)
def test_who_takes_neither_is_told_so(house: House, accept: str) -> None:
    answer = house.post(request("ping"), {"Accept": accept})

    assert (answer.status, answer.headers["content-type"]) == (406, "application/json")
    assert answer.error["code"] == -32600


def test_an_error_of_a_client_that_takes_streams_alone_is_json(house: House) -> None:
    answer = house.modern("nonsense", headers={"Accept": "text/event-stream"})

    assert (answer.status, answer.headers["content-type"]) == (404, "application/json")


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/foo", "params": {"x": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "never"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "orders_refund", "arguments": {}}},
        {"jsonrpc": "2.0", "method": "ping"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        [{"jsonrpc": "2.0", "method": "notifications/a"}, {"jsonrpc": "2.0", "id": 5, "result": {}}],
    ],
)
def test_what_wants_no_answer_gets_202_and_runs_nothing(house: House, body: Any) -> None:
    answer = house.post(body)

    assert (answer.status, answer.raw, answer.headers["content-length"]) == (202, b"", "0")
    assert "content-type" not in answer.headers
    assert house.door.calls == []
    assert house.post(body, {"Authorization": None}).status == 401


@pytest.mark.parametrize(
    "body",
    [
        None,
        "x",
        5,
        True,
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": [1], "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"},
        {"jsonrpc": "2.0", "method": 5},
        {"jsonrpc": "2.0", "method": "notifications/x", "params": [1]},
        [],
        [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(21)],
        [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}],
    ],
)
def test_every_other_shape_is_an_invalid_request(house: House, body: Any) -> None:
    answer = house.post(body)

    assert answer.status == 400
    assert answer.error["code"] == -32600
    assert answer.error["data"]["reference"] == answer.headers["x-request-id"]


def test_a_response_and_a_list_are_no_request_of_the_modern_era(house: House) -> None:
    modern = {"MCP-Protocol-Version": "2026-07-28"}

    assert house.post({"jsonrpc": "2.0", "id": 5, "result": {}}, modern).status == 400
    assert house.post([LIST], modern).error["code"] == -32600
    assert "id" not in house.post([LIST], modern).json
    assert house.post([LIST], {"MCP-Protocol-Version": "2025-06-18"}).json["id"] is None


def test_a_list_of_messages_is_answered_one_by_one(house: House) -> None:
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    body = [
        request("ping", request_id=1),
        {"jsonrpc": "2.0", "method": "notifications/x"},
        request("nonsense", request_id="b"),
        5,
        [request("ping", request_id=3)],
        request("tools/list", meta, request_id=4),
        request("tools/call", {"name": "orders_refund", "arguments": {"order_id": 1}}, request_id=6),
    ]

    answer = house.post(body)
    codes = [(item["id"], item.get("error", {}).get("code")) for item in answer.json]

    assert answer.status == 200
    assert codes == [(1, None), ("b", -32601), (None, -32600), (None, -32600), (4, -32602), (6, None)]


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:6535", True),
        ("http://localhost:6274", True),
        ("http://127.0.0.1:9", True),
        ("http://[::1]:9", True),
        ("https://app.example.com", True),
        ("https://app.example.com.evil.example", False),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://localhost@evil.example", False),
        ("chrome-extension://localhost", False),
        ("null", False),
        ("", False),
        ("http://[::1", False),
        ("http://localhost:x", False),
    ],
)
def test_only_own_listed_and_in_development_loopback_origins_call(origin: str, *, allowed: bool) -> None:
    house = make_house(allowed_origins=frozenset({"https://app.example.com"}))

    assert (house.post(request("ping"), {"Origin": origin}).status == 200) is allowed


def test_in_production_loopback_pages_are_foreign_pages() -> None:
    house = make_house(base_url="https://shop.example", production=True)
    host = {"Host": "shop.example"}

    assert house.post(request("ping"), host).status == 200
    assert house.post(request("ping"), host | {"Origin": "https://shop.example"}).status == 200
    assert house.post(request("ping"), host | {"Origin": "http://localhost:6535"}).status == 403


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:6535", True),
        ("LOCALHOST:1", True),
        ("127.0.0.1:6535", True),
        ("[::1]:6535", True),
        ("evil.example", False),
        ("evil.example:6535", False),
        ("localhost.evil.example", False),
        ("localhost@evil.example", False),
        ("[::1", False),
    ],
)
def test_a_rebound_name_is_refused_whatever_its_port(house: House, host: str, *, known: bool) -> None:
    assert (house.post(request("ping"), {"Host": host}).status == 200) is known


def test_a_cookie_opens_nothing(house: House) -> None:
    answer = house.post(LIST, {"Authorization": None, "Cookie": "countersign=alice; session=alice"})

    assert answer.status == 401


def test_what_breaks_inside_is_said_with_a_reference_only(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.door.answer = RuntimeError("SELECT secret FROM cs_token; password=hunter2")

    with caplog.at_level(logging.ERROR):
        answer = house.modern("tools/call", {"name": "orders_list"})

    assert (answer.status, answer.error["code"], answer.json["id"]) == (200, -32603, 7)
    assert answer.error["data"] == {"code": "internal", "reference": answer.headers["x-request-id"]}
    assert b"hunter2" not in answer.raw
    assert "unhandled RuntimeError" in caplog.text


def test_a_busy_house_is_503_and_a_broken_bearer_check_lets_nobody_in(house: House) -> None:
    house.door.answer = Unavailable()
    busy = house.modern("tools/call", {"name": "orders_list"})
    house.bearer.broken = RuntimeError("database gone")
    broken = house.modern("tools/call", {"name": "orders_list"})

    assert (busy.status, busy.error["data"]["code"]) == (503, "unavailable")
    assert (broken.status, broken.error["code"]) == (500, -32603)
    assert len(house.door.calls) == 1


def test_the_surface_stands_on_the_wire_library_without_the_sdks_client_and_server() -> None:
    program = "import sys, mcp_provider.routes; print(sorted(m for m in sys.modules if m.split('.')[0] == 'mcp'))"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ast.literal_eval(found.stdout) == []
