"""The MCP endpoint under attack, over HTTP: everything that isn't exactly a request of a known person runs nothing."""

import json
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
from sqlalchemy import create_engine, text

from tests.support.browser import FormBrowser
from tests.support.raw_mcp import LEGACY, META, MODERN, RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, VERA, Person, ServerProcess

READS = "mcp:manifest:read mcp:schema:read mcp:effects:read mcp:traces:read mcp:flows:read"
WRITES = f"{READS} mcp:action:invoke orders:refund stock:adjust"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN)
JSON = ("Content-Type", "application/json")
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
Caller = Callable[..., RawMcp]


@pytest.fixture(scope="module")
def caller(server: ServerProcess) -> Caller:
    """A function that gives a raw caller with a token of its own: `caller(ALICE, READS)`."""
    made: dict[tuple[str, str], str] = {}

    def make(person: Person = ALICE, scope: str = WRITES, version: str = MODERN) -> RawMcp:
        key = (person.email, scope)
        if key not in made:
            words = ("token", "issue", "--name", f"wire-{len(made)}", "--operator", person.email, "--scope", scope)
            made[key] = server.instance.run(*words).stdout.split()[0]
        return RawMcp(server.mcp_url, made[key], version=version)

    return make


def bearer(raw: RawMcp) -> tuple[str, str]:
    return ("Authorization", f"Bearer {raw.token}")


def refused_as_json(answer: RawAnswer) -> None:
    """Whatever is refused is refused in JSON, with a reference and without internals."""
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in answer.raw.decode()
    assert "pydantic" not in answer.raw.decode().lower()
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["x-request-id"] in answer.raw.decode()


# C08: the challenge


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD", "DELETE", "PUT"])
@pytest.mark.parametrize(
    ("credentials", "error"),
    [
        ([], None),
        (["Basic xyz"], None),
        (["Bearer garbage"], "invalid_token"),
        (["Bearer "], "invalid_token"),
        (["Bearer"], "invalid_token"),
        (["Bearer {good}, Bearer {good}"], "invalid_token"),
        (["Bearer {good}", "Bearer {good}"], "invalid_token"),
        (["Bearer garbage", "Bearer {good}"], "invalid_token"),
        (["{good}"], None),
        (["Bearer {good}x"], "invalid_token"),
    ],
)
def test_without_exactly_one_good_token_there_is_only_a_challenge(
    server: ServerProcess, caller: Caller, method: str, credentials: list[str], error: str | None
) -> None:
    good = caller().token
    headers = [("Authorization", value.format(good=good)) for value in credentials]
    answer = send(method, server.mcp_url, [*headers, JSON], LIST if method == "POST" else None)

    assert answer.status == 401
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert challenge.count("resource_metadata=") == challenge.count('scope="') == 1
    assert f'resource_metadata="{server.base_url}/.well-known/oauth-protected-resource/mcp"' in challenge
    assert ('error="invalid_token"' in challenge) is (error is not None)
    assert good is not None
    assert good not in challenge + answer.raw.decode()
    if method == "HEAD":
        assert answer.raw == b""
    else:
        refused_as_json(answer)


def test_the_scheme_is_read_in_any_case(server: ServerProcess, caller: Caller) -> None:
    answer = send("POST", server.mcp_url, [("Authorization", f"bearer {caller().token}"), JSON], LIST)

    assert answer.result["tools"]


@pytest.mark.parametrize("place", ["access_token={}", "token={}", "Authorization=Bearer%20{}"])
def test_a_token_in_the_address_is_no_token(server: ServerProcess, caller: Caller, place: str) -> None:
    url = f"{server.mcp_url}?{place.format(caller().token)}"

    assert send("POST", url, [JSON], LIST).status == 401


def test_a_session_cookie_opens_nothing(server: ServerProcess) -> None:
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies)
    assert cookies

    for origin in ([], [("Origin", server.base_url)]):
        assert send("POST", server.mcp_url, [("Cookie", cookies), JSON, *origin], LIST).status == 401


# C33, W40: methods, names, origins, sessions


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "PROPFIND"])
def test_other_methods_are_405_at_once(server: ServerProcess, caller: Caller, method: str) -> None:
    headers = [bearer(caller()), ("Accept", "text/event-stream"), ("Last-Event-ID", "5"), ("Mcp-Session-Id", "dead")]
    answer = send(method, server.mcp_url, headers, seconds=5)

    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


def test_options_needs_no_token_and_tells_nothing(server: ServerProcess) -> None:
    answer = send("OPTIONS", server.mcp_url, [("Origin", "http://localhost:6274")])

    assert (answer.status, answer.raw) == (204, b"")
    assert "access-control-allow-credentials" not in answer.headers


def test_a_slash_at_the_end_is_the_same_address(server: ServerProcess, caller: Caller) -> None:
    assert send("POST", f"{server.mcp_url}/", [bearer(caller()), JSON], LIST).result["tools"]


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("evil.example", "http://evil.example"),
        ("evil.example", None),
        ("localhost.evil.example", None),
        (None, "http://evil.example"),
        (None, "null"),
        (None, "http://localhost.evil.example"),
        (None, "http://localhost:6535@evil.example"),
        (None, "file://"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_a_rebound_name_or_a_foreign_page_gets_nothing(
    server: ServerProcess, caller: Caller, method: str, host: str | None, origin: str | None
) -> None:
    headers = [bearer(caller()), JSON]
    headers += [("Host", host)] if host else []
    headers += [("Origin", origin)] if origin else []

    answer = send(method, server.mcp_url, headers, LIST)

    assert answer.status == 403
    refused_as_json(answer)


@pytest.mark.parametrize("session", ["dead", "x" * 4000, "..", "é".encode().decode("latin-1")])
def test_a_dead_session_id_changes_nothing(server: ServerProcess, caller: Caller, session: str) -> None:
    answer = send("POST", server.mcp_url, [bearer(caller()), JSON, ("Mcp-Session-Id", session)], LIST)

    assert answer.result["tools"]


def test_a_session_id_of_another_person_is_no_session(server: ServerProcess, caller: Caller) -> None:
    session = caller(BOB, READS).initialize("2025-06-18").headers["mcp-session-id"]

    def fields(raw: RawMcp) -> set[str]:
        answer = send("POST", server.mcp_url, [bearer(raw), JSON, ("Mcp-Session-Id", session)], LIST)
        return set(answer.result["tools"][0])

    assert "outputSchema" in fields(caller(BOB, READS))
    assert "outputSchema" not in fields(caller())
    assert send("POST", server.mcp_url, [JSON, ("Mcp-Session-Id", session)], LIST).status == 401


# Bodies


JUNK = [
    b"",
    b" ",
    b"null",
    b"[]",
    b"{}",
    b'"x"',
    b"<html>",
    b"a=b&c=d",
    b"\x00" * 100,
    b"\xff\xfe\xfd",
    b"\xef\xbb\xbf" + LIST,
    LIST.decode().encode("utf-16"),
    LIST[:-1],
    LIST + LIST,
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"[" * 500 + b"]" * 500,
    LIST.replace(b'"id":1', b'"id":1,"id":2'),
    LIST.replace(b'"method"', b'"method":"ping","method"'),
    LIST.replace(b'"id":1', b'"id":' + b"9" * 4000),
    LIST.replace(b'"id":1', b'"id":1e999'),
    LIST.replace(b'"id":1', b'"id":NaN'),
    LIST.replace(b'"id":1', b'"id":"\\ud800"'),
    LIST.replace(b'"id":1', b'"id":null'),
    LIST.replace(b'"id":1', b'"id":{"a":1}'),
    LIST.replace(b'"2.0"', b"2.0"),
    LIST.replace(b'"tools/list"', b'["tools/list"]'),
    b"[" + b",".join([LIST] * 21) + b"]",
    b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]',
]


@pytest.mark.parametrize("version", [None, LEGACY, MODERN])
@pytest.mark.parametrize("body", JUNK, ids=lambda body: repr(body[:24]))
def test_junk_is_a_clear_error(server: ServerProcess, caller: Caller, body: bytes, version: str | None) -> None:
    headers = [bearer(caller()), JSON] + ([("MCP-Protocol-Version", version)] if version else [])

    answer = send("POST", server.mcp_url, headers, body)

    assert answer.status == 400
    assert answer.error["code"] in (-32700, -32600)
    refused_as_json(answer)


def test_a_body_over_the_limit_is_413_and_the_next_call_works(server: ServerProcess, caller: Caller) -> None:
    answer = send("POST", server.mcp_url, [bearer(caller()), JSON], b'{"a":"' + b"x" * 1_100_000 + b'"}')

    assert (answer.status, answer.error["code"]) == (413, -32600)
    refused_as_json(answer)
    assert caller().call("manifest_get").status == 200


def test_a_chunked_body_is_read_and_bounded(server: ServerProcess, caller: Caller) -> None:
    headers = [bearer(caller()), JSON, ("Transfer-Encoding", "chunked")]

    def chunked(body: bytes) -> bytes:
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)

    assert send("POST", server.mcp_url, headers, chunked(LIST)).result["tools"]
    assert send("POST", server.mcp_url, headers, chunked(b" " * 1_100_000)).status == 413


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-7"]
)
def test_what_a_foreign_form_could_send_is_415(server: ServerProcess, caller: Caller, content_type: str | None) -> None:
    headers = [bearer(caller())] + ([("Content-Type", content_type)] if content_type else [])

    answer = send("POST", server.mcp_url, headers, LIST)

    assert answer.status == 415
    refused_as_json(answer)


# Envelopes


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "orders_list")], None),
        ([("mcp-protocol-version", MODERN), ("MCP-METHOD", "tools/call"), ("mcp-name", "  orders_list  ")], None),
        ([("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "orders_refund")], -32020),
        ([("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list"), ("Mcp-Name", "orders_list")], -32020),
        ([("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call")], -32020),
        ([("MCP-Protocol-Version", MODERN), ("Mcp-Name", "orders_list")], -32020),
        ([("Mcp-Method", "tools/call"), ("Mcp-Name", "orders_list")], -32020),
        ([("MCP-Protocol-Version", LEGACY), ("Mcp-Method", "tools/call"), ("Mcp-Name", "orders_list")], -32020),
        ([("MCP_Protocol_Version", MODERN), ("Mcp_Method", "tools/call"), ("Mcp_Name", "orders_list")], -32020),
        (
            [
                ("MCP-Protocol-Version", MODERN),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "orders_refund"),
                ("Mcp-Name", "orders_list"),
            ],
            -32020,
        ),
        (
            [
                ("MCP-Protocol-Version", MODERN),
                ("MCP-Protocol-Version", MODERN),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "orders_list"),
            ],
            -32020,
        ),
    ],
)
def test_headers_that_a_router_may_have_read_must_equal_the_body(
    server: ServerProcess, caller: Caller, headers: list[tuple[str, str]], code: int | None
) -> None:
    raw = caller()
    params = {"name": "orders_list", "arguments": {"limit": 1}, "_meta": raw.meta()}
    body = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params}).encode()

    answer = send("POST", server.mcp_url, [bearer(raw), JSON, *headers], body)

    assert answer.json["id"] == "a"
    assert answer.status == (200 if code is None else 400)
    assert code is None or answer.error["code"] == code


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"clientCapabilities": None}, -32602),
        ({"clientCapabilities": []}, -32602),
        ({"protocolVersion": 5}, -32602),
        ({"protocolVersion": "v999.0.0"}, -32020),
        ({"clientInfo": "me"}, -32602),
    ],
)
def test_an_envelope_that_cant_be_read_reaches_no_tool(caller: Caller, meta: dict[str, Any], code: int) -> None:
    given = {META + name: value for name, value in meta.items()}

    answer = caller().request("tools/call", {"name": "orders_list", "_meta": given})

    assert answer.error["code"] == code
    refused_as_json(answer)


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "notifications/initialized", "nonsense"])
def test_a_notification_runs_nothing_and_is_taken(server: ServerProcess, caller: Caller, method: str) -> None:
    for version in (MODERN, LEGACY):
        answer = caller(version=version).notify(method, {"name": "orders_list", "arguments": {}})
        assert (answer.status, answer.raw, answer.headers["content-length"]) == (202, b"", "0")
        assert "content-type" not in answer.headers
    assert RawMcp(server.mcp_url).notify(method).status == 401


# C38: arguments, rights, and words of errors


@pytest.mark.parametrize(
    ("tool", "arguments", "word"),
    [
        ("orders_list", {"unknown": 1}, "unknown"),
        ("orders_list", {"limit": "5"}, "limit"),
        ("orders_list", {"limit": True}, "limit"),
        ("orders_list", {"limit": 201}, "limit"),
        ("orders_list", {"limit": 0}, "limit"),
        ("orders_list", {"limit": 2**60}, "whole numbers"),
        ("orders_get", {}, "order_id"),
        ("orders_refund", {}, "order_id"),
        ("orders_refund", {"confirmToken": 5}, "confirmtoken"),
        ("orders_refund", {"order_id": 1001, "reason": "x", "requestId": "r" * 129}, "requestid"),
        ("traces_get", {"runId": 5}, "runid"),
        ("action_invoke", {"flowId": "orders.list", "args": {"limit": "5"}}, "limit"),
    ],
)
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_bad_arguments_are_a_sentence_that_names_the_field(
    caller: Caller, version: str, tool: str, arguments: dict[str, Any], word: str
) -> None:
    answer = caller(version=version).call(tool, arguments)
    sentence = answer.result["content"][0]["text"]

    assert (answer.status, answer.result["isError"]) == (200, True)
    assert word in sentence.lower()
    assert len(sentence) < 200
    assert "pydantic" not in answer.raw.decode().lower()
    assert "Traceback" not in answer.raw.decode()


@pytest.mark.parametrize("arguments", [[], "x", 5, True])
def test_arguments_that_are_no_object_are_invalid_params(caller: Caller, arguments: Any) -> None:
    for version in (LEGACY, MODERN):
        answer = caller(version=version).request("tools/call", {"name": "orders_list", "arguments": arguments})
        assert answer.error["code"] == -32602


def test_a_right_that_is_missing_is_a_challenge_before_anything_happens(caller: Caller) -> None:
    for version in (LEGACY, MODERN):
        raw = caller(ALICE, READS, version)
        own = raw.call("orders_refund", {"order_id": 1001, "reason": "x"})
        named = raw.call("action_invoke", {"flowId": "orders.refund", "args": {"order_id": 1001, "reason": "x"}})
        asked = raw.call("action_confirm", {"tool": "orders_refund", "args": {"order_id": 1001, "reason": "x"}})

        for answer in (own, named, asked):
            assert answer.status == 403
            challenge = answer.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in challenge
            assert {"mcp:action:invoke", "orders:refund", "mcp:flows:read"} <= set(challenge.replace('"', " ").split())
            assert answer.error["data"]["code"] == "insufficient_scope"
            assert set(answer.error["data"]["missingScopes"]) == {"mcp:action:invoke", "orders:refund"}
            assert "/connections/" in answer.error["data"]["grantUrl"]


def test_what_a_role_can_never_hold_is_no_challenge(caller: Caller) -> None:
    answer = caller(VERA, READS).call("orders_refund", {"order_id": 1001, "reason": "x"})

    assert (answer.status, answer.result["isError"]) == (200, True)
    assert "www-authenticate" not in answer.headers
    assert answer.data["refusal"]["code"] == "not_allowed"


def test_a_right_is_decided_before_arguments_are_looked_at(caller: Caller) -> None:
    assert caller(ALICE, READS).call("orders_refund", {"nonsense": 1}).status == 403


def refused_calls(server: ServerProcess) -> list[tuple[str, str]]:
    """Give (code, detail) of every refused call on record, in any order."""
    engine = create_engine(server.instance.database_url)
    try:
        with engine.connect() as connection:
            wanted = text("SELECT code, detail FROM cs_audit WHERE event = 'call.refused'")
            return [(code, detail) for code, detail in connection.execute(wanted)]
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("orders_refund", {"confirmToken": 5}, "invalid_arguments"),
        ("orders_refund", {"confirmation": ["CONFIRM"]}, "invalid_arguments"),
        ("orders_refund", {"requestId": ""}, "invalid_arguments"),
        ("orders_refund", {"requestId": "r" * 129}, "invalid_arguments"),
        ("orders_refund", {"order_id": "x"}, "invalid_arguments"),
        ("action_invoke", {"flowId": "orders.list", "more": 1}, "invalid_arguments"),
        ("action_invoke", {"flowId": "nothing.here"}, "unknown_flow"),
        ("action_confirm", {"tool": "nothing"}, "invalid_arguments"),
        ("orders_drop\u202e" + "x" * 500, {}, "unknown_tool"),
    ],
)
def test_c38_each_refusal_is_on_record_once_and_keeps_no_text_of_the_caller(
    server: ServerProcess, caller: Caller, tool: str, arguments: dict[str, Any], code: str
) -> None:
    before = refused_calls(server)
    caller(version=LEGACY).call(tool, arguments)
    added = list((Counter(refused_calls(server)) - Counter(before)).elements())

    assert [code for code, _ in added] == [code]
    stored = json.loads(added[0][1])["tool"]
    assert stored == tool or (stored.isprintable() and len(stored) <= 48)


# C39: the list


def test_the_list_of_each_revision_can_be_read_by_strict_clients(caller: Caller) -> None:
    for version in VERSIONS:
        tools = caller(version=version).request("tools/list").result
        names = [tool["name"] for tool in tools["tools"]]
        assert "nextCursor" not in tools
        assert names[0] == "manifest_get"
        assert len({name.lower() for name in names}) == len(names)
        assert all(len(name) <= 48 and name.replace("_", "").isalnum() for name in names)
        for tool in tools["tools"]:
            for schema in (tool["inputSchema"], tool.get("outputSchema", {"type": "object", "properties": {}})):
                jsonschema.Draft202012Validator.check_schema(schema)
                assert (schema["type"], "properties" in schema) == ("object", True)
                assert not {"oneOf", "anyOf", "allOf", "not", "enum", "$ref", "$defs"} & schema.keys()
                assert "null" not in json.dumps(schema)


def test_the_default_list_is_short(caller: Caller) -> None:
    answer = caller(ALICE, READS).request("tools/list")
    everything = caller().request("tools/list")

    assert len(answer.raw) / 4 < 6000
    assert len(everything.raw) / 4 < 6000


def test_the_first_tool_answers_without_arguments(caller: Caller) -> None:
    for version in (LEGACY, MODERN):
        raw = caller(ALICE, READS, version)
        first = raw.request("tools/list").result["tools"][0]["name"]
        assert raw.call(first).result["isError"] is False


@pytest.mark.parametrize("cursor", ["", "bogus", 5])
def test_a_made_up_cursor_is_invalid(caller: Caller, cursor: Any) -> None:
    for version in (LEGACY, MODERN):
        assert caller(version=version).request("tools/list", {"cursor": cursor}).error["code"] == -32602


# What a broken client does to everybody else


def test_a_client_that_hangs_up_leaves_the_server_as_it_was(server: ServerProcess, caller: Caller) -> None:
    parts = urlsplit(server.mcp_url)
    before = len(server.log())
    head = f"POST /mcp HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {caller().token}\r\n"
    for _ in range(40):
        with socket.create_connection((parts.hostname, parts.port or 80)) as connection:
            connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode())

    assert caller().call("manifest_get").status == 200
    assert "traceback" not in server.log()[before:].lower()
