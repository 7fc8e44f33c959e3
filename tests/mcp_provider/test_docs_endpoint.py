"""The documentation's MCP server in both eras, and under attack: it answers this machine's own agents alone."""

import json
from pathlib import Path

import jsonschema
import pytest

from mcp_provider.docs_endpoint import BODY_LIMIT
from tests.mcp_provider.desk import HOST, LEGACY, MODERN, PAGES, PORT, Desk
from tests.mcp_provider.house import META, request

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN)
JSON = {"Content-Type": "application/json"}
PING = json.dumps(request("ping")).encode()


@pytest.fixture(scope="module")
def desk():
    return Desk()


def tools_in(desk, version):
    answer = desk.modern("tools/list") if version == MODERN else desk.legacy("tools/list", version=version)
    return {tool["name"]: tool for tool in answer.result["tools"]}


def refused(answer, status, code):
    """Hold a refusal to JSON with a number and a stable name."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.error["data"]["code"] == code
    assert answer.error["message"].endswith(".")
    return answer


# --- what it offers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_each_revision_lists_two_tools_that_only_read(desk, version):
    tools = tools_in(desk, version)

    assert list(tools) == ["docs_search", "docs_get"]
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert not {"$ref", "anyOf", "oneOf", "allOf", "null"} & set(json.dumps(tool).replace('"', " ").split())
        assert ("outputSchema" in tool) == (version >= "2025-06-18")
        hints = {name: value for name, value in tool.get("annotations", {}).items() if name != "title"}
        assert hints == {} if version < "2025-03-26" else hints == {
            "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
        }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_found_can_be_read(desk, version):
    found = desk.call("docs_search", {"query": "a confirmation"}, version)
    hits = json.loads(found["content"][0]["text"])["results"]
    read = desk.call("docs_get", {"id": hits[0]["id"]}, version)
    section = json.loads(read["content"][0]["text"])

    assert hits[0]["title"] == "Connect a client › On this machine"
    assert "asks for confirmations by itself" in hits[0]["snippet"]
    assert section["text"].startswith("## On this machine\n\nClaude Code")
    assert section["nextId"] == "connect#a-terminal"
    assert (found["isError"], read["isError"]) == (False, False)
    schemas = {name: tool.get("outputSchema") for name, tool in tools_in(desk, version).items()}
    for tool, answer, data in (("docs_search", found, {"results": hits}), ("docs_get", read, section)):
        assert answer.get("structuredContent", data) == data
        assert ("structuredContent" in answer) == (version >= "2025-06-18")
        if schemas[tool]:
            jsonschema.validate(data, schemas[tool])


def test_a_page_is_read_to_its_end(desk):
    text, section_id = "", "connect"
    while section_id:
        section = desk.call("docs_get", {"id": section_id})["structuredContent"]
        text, section_id = text + section["text"] + "\n\n", section.get("nextId")

    assert text.split() == PAGES[0].text.split()


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_the_handshake_of_older_revisions(desk, version):
    answer = desk.initialize(version)

    assert answer.result["protocolVersion"] == version
    assert answer.result["capabilities"] == {"tools": {}}
    assert answer.result["serverInfo"]["name"] == "countersign-docs"
    assert ("title" in answer.result["serverInfo"]) == (version >= "2025-06-18")
    assert "docs_search" in answer.result["instructions"]
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
    assert desk.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).status == 202
    assert desk.legacy("ping", version=version, headers=session).result == {}
    assert set(desk.legacy("tools/list", version=version, headers=session).result) == {"tools"}


def test_an_unknown_revision_is_answered_with_the_newest_that_has_a_handshake(desk):
    assert desk.initialize("2099-01-01").result["protocolVersion"] == LEGACY
    refused(desk.legacy("ping", version="2099-01-01"), 400, "invalid_params")
    refused(desk.legacy("ping", version="1999-01-01"), 400, "invalid_request")


def test_a_client_that_upgraded_its_header_alone_keeps_the_revision_of_its_handshake(desk):
    session = desk.initialize(LEGACY).headers["mcp-session-id"]

    assert desk.legacy("ping", version=MODERN, headers={"Mcp-Session-Id": session}).result == {}
    refused(desk.legacy("ping", version=MODERN, headers={"Mcp-Session-Id": "x"}), 400, "invalid_params")


def test_the_newest_revision_discovers_and_may_keep_what_it_was_told(desk):
    found = desk.modern("server/discover").result
    listed = desk.modern("tools/list").result
    called = desk.call("docs_search", {"query": "nginx"})

    assert found["supportedVersions"] == [MODERN]
    for result in (found, listed, called):
        assert result["resultType"] == "complete"
        assert result["_meta"][META + "serverInfo"]["name"] == "countersign-docs"
    for result in (found, listed):
        assert result["cacheScope"] == "public"
        assert result["ttlMs"] > 0
    assert "ttlMs" not in called


@pytest.mark.parametrize(
    "method", ["resources/list", "prompts/list", "logging/setLevel", "nonsense", "server/discover"]
)
def test_a_method_that_is_not_there_is_said_as_each_revision_wants_it(desk, method):
    refused(desk.legacy(method), 200, "method_not_found")
    if method != "server/discover":
        refused(desk.modern(method), 404, "method_not_found")
    refused(desk.modern("ping"), 404, "method_not_found")


def test_the_envelope_of_the_newest_revision_is_held(desk):
    refused(desk.modern("tools/list", clientCapabilities=None), 400, "invalid_params")
    refused(desk.modern("tools/list", headers={"Mcp-Method": "tools/call"}), 400, "header_mismatch")
    call = {"name": "docs_get", "arguments": {"id": "connect"}}
    refused(desk.modern("tools/call", call, headers={"Mcp-Name": "docs_search"}), 400, "header_mismatch")
    unknown = desk.modern("tools/list", headers={"MCP-Protocol-Version": "v999"}, protocolVersion="v999")
    assert refused(unknown, 400, "unsupported_protocol_version").error["data"]["supported"] == [MODERN]


def test_lists_of_messages_are_of_one_revision_alone(desk):
    messages = [
        request("ping", request_id=1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/list", request_id=2),
        request("nonsense", request_id=3),
    ]
    answers = desk.post(messages, {"MCP-Protocol-Version": "2025-03-26"}).json

    assert [(one["id"], "result" in one) for one in answers] == [(1, True), (2, True), (3, False)]
    assert desk.post(messages[1:2], {"MCP-Protocol-Version": "2025-03-26"}).status == 202
    refused(desk.post(messages, {"MCP-Protocol-Version": LEGACY}), 400, "invalid_request")
    for wrong in ([], [messages[0]] * 21, [request("initialize", {})]):
        refused(desk.post(wrong, {"MCP-Protocol-Version": "2025-03-26"}), 400, "invalid_request")


def test_what_needs_no_answer_gets_none(desk):
    for answer in (
        desk.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        desk.post({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ):
        assert (answer.status, answer.raw) == (202, b"")
        assert "content-type" not in answer.headers


def test_health_is_told_to_everybody_here(desk):
    answer = desk.open("GET", "/health", {})

    assert answer.json == {"status": "ok", "version": "0.1.0"}
    assert desk.open("HEAD", "/health", {}).raw == b""
    assert refused(desk.open("POST", "/health", {}), 405, "invalid_request").headers["allow"] == "GET, HEAD"


# --- what tools refuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("docs_search", {}, "query is missing"),
        ("docs_search", {"query": ""}, "query must have at least 1"),
        ("docs_search", {"query": "x" * 501}, "query must have at most 500"),
        ("docs_search", {"query": 5}, "query must be a text"),
        ("docs_search", {"query": ["nginx"]}, "query must be a text"),
        ("docs_search", {"query": None}, "query must be a text"),
        ("docs_search", {"query": "x", "limit": 0}, "limit must be at least 1"),
        ("docs_search", {"query": "x", "limit": 51}, "limit must be at most 50"),
        ("docs_search", {"query": "x", "limit": "10"}, "limit must be a whole number"),
        ("docs_search", {"query": "x", "limit": True}, "limit must be a whole number"),
        ("docs_search", {"query": "x", "folder": "/etc"}, "folder is not a parameter"),
        ("docs_get", {}, "id is missing"),
        ("docs_get", {"id": "x" * 201}, "id must have at most 200"),
    ],
)
def test_wrong_arguments_are_named(desk, tool, arguments, named):
    answer = desk.call(tool, arguments)
    sentence, facts = (item["text"] for item in answer["content"])

    assert answer["isError"] is True
    assert "structuredContent" not in answer
    assert sentence.startswith(named)
    assert json.loads(facts)["code"] == "bad_request"


@pytest.mark.parametrize(
    "section_id",
    ["../../etc/passwd", "/etc/passwd", "connect/../deploy", "decisions/../connect", "connect\0", "connect.md",
     "Connect", "%63onnect", "connect#", "file:///etc/passwd", "decisions", ".", "connect' OR 1=1 --"],
)  # fmt: skip
def test_an_id_is_looked_up_and_never_a_path(desk, section_id, monkeypatch):
    def no_file(*_args, **_named):
        raise AssertionError("a request reads no files")

    monkeypatch.setattr(Path, "open", no_file)
    monkeypatch.setattr(Path, "read_text", no_file)
    answer = desk.call("docs_get", {"id": section_id})

    assert answer["isError"] is True
    assert json.loads(answer["content"][1]["text"])["code"] == "not_found"


def test_another_tool_and_another_page_of_the_list_are_no_such_thing(desk):
    refused(desk.modern("tools/call", {"name": "docs_delete"}), 200, "unknown_tool")
    refused(desk.modern("tools/list", {"cursor": "x"}), 200, "invalid_cursor")
    refused(desk.legacy("tools/call", {"name": 5}), 200, "invalid_params")


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "title:", "*", "\0", "'; DROP TABLE section; --", "💥", "x" * 500]
)
def test_a_query_is_words_and_breaks_nothing(desk, query):
    assert isinstance(desk.search(query), list)
    assert desk.search("nginx") == ["deploy"]


# --- who may call -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"LocalHost:{PORT}", HOST, f"[::1]:{PORT}"])
def test_it_answers_by_the_loopback_names_with_its_port(desk, host):
    assert desk.open("GET", "/health", {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "127.0.0.1", "[::1]", "localhost:6535", "127.0.0.1:80", f"evil.example:{PORT}", "evil.example",
     f"localhost.evil.example:{PORT}", f"localhost:{PORT}.evil.example", f"{HOST},evil.example", f"evil.example,{HOST}",
     f"user@localhost:{PORT}", f"localhost:{PORT}/", f"127.0.0.2:{PORT}", f"0.0.0.0:{PORT}", f"x.localhost:{PORT}",
     f"localhost.:{PORT}", f" {HOST}", f"2130706433:{PORT}"],
)  # fmt: skip
@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("GET", "/health"), ("OPTIONS", "/mcp"), ("GET", "/x")])
def test_by_any_other_name_it_answers_nobody(desk, host, method, path):
    answer = refused(desk.open(method, path, {**JSON, "Host": host}, PING), 403, "invalid_request")

    assert "access-control-allow-origin" not in answer.headers


def test_without_a_host_it_answers_nobody(desk):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/health"}
    told = []
    desk.endpoint(environ, lambda status, headers: told.append(status))

    assert told == ["403 Forbidden"]


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "http://localhost.evil.example", "http://127.0.0.1@evil.example", "file://",
     "http://evil.example:6536", "chrome-extension://abcdefgh", "http://[::1", "http://localhost:x", "localhost"],
)  # fmt: skip
@pytest.mark.parametrize(("method", "path"), [("POST", "/mcp"), ("OPTIONS", "/mcp"), ("GET", "/health")])
def test_a_page_from_elsewhere_gets_nothing(desk, origin, method, path):
    answer = refused(desk.open(method, path, {**JSON, "Origin": origin}, PING), 403, "invalid_request")

    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_this_machine_may_call(desk):
    page = {"Origin": "http://localhost:6274"}
    asked = desk.open("OPTIONS", "/mcp", {**page, "Access-Control-Request-Method": "POST"})
    answer = desk.open("POST", "/mcp", {**JSON, **page}, PING)

    assert (asked.status, asked.headers["access-control-allow-methods"]) == (204, "POST, OPTIONS")
    assert "MCP-Protocol-Version" in asked.headers["access-control-allow-headers"]
    assert answer.result == {}
    assert answer.headers["access-control-allow-origin"] == "*"
    assert not {"access-control-allow-credentials", "access-control-allow-private-network"} & set(asked.headers)


# --- what comes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "TRACE", "NONSENSE"])
def test_only_post_is_answered(desk, method):
    assert refused(desk.open(method, "/mcp", {}), 405, "invalid_request").headers["allow"] == "POST, OPTIONS"


def test_other_addresses_do_not_exist(desk):
    for path in ("/", "/sse", "/mcp/x", "/docs/connect", "/.well-known/oauth-protected-resource", "//health"):
        refused(desk.open("POST", path, JSON, PING), 404, "invalid_request")
    assert desk.open("POST", "/mcp/", JSON, PING).result == {}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": ""}, 415),
        ({**JSON, "Content-Encoding": "gzip"}, 415),
        ({**JSON, "Accept": "text/event-stream"}, 406),
        ({**JSON, "Accept": "text/html"}, 406),
        ({"Content-Type": "application/json; charset=UTF-8", "Accept": "*/*"}, 200),
        ({"Content-Type": "Application/JSON", "Accept": "application/json, text/event-stream"}, 200),
    ],
)
def test_only_json_is_taken_and_given(desk, headers, status):
    assert desk.open("POST", "/mcp", headers, PING).status == status


class Unread:
    """A body that nobody may ask for."""

    def read(self, _size):
        raise AssertionError("it was read")


@pytest.mark.parametrize("length", [str(BODY_LIMIT + 1), "9" * 5000, "99999999999999999999"])
def test_a_huge_body_is_refused_unread(desk, length):
    environ = {"CONTENT_LENGTH": length, "wsgi.input": Unread()}

    refused(desk.open("POST", "/mcp", JSON, **environ), 413, "invalid_request")


@pytest.mark.parametrize(
    "environ",
    [{"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "-1"}, {"CONTENT_LENGTH": "1_0"}, {"CONTENT_LENGTH": "5, 5"},
     {"CONTENT_LENGTH": "\u0665"}, {"HTTP_TRANSFER_ENCODING": "chunked"}],
)  # fmt: skip
def test_a_body_of_unknown_length_is_refused_unread(desk, environ):
    refused(desk.open("POST", "/mcp", JSON, **{"wsgi.input": Unread()} | environ), 411, "invalid_request")


def test_a_short_body_is_not_read_as_a_whole_one(desk):
    refused(desk.open("POST", "/mcp", JSON, PING, CONTENT_LENGTH=str(len(PING) + 1)), 400, "invalid_request")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 10_000, b'{"a":1,"a":2}', b"NaN", b"null", b"5", b'"x"', b"{}"]
)
def test_what_is_no_message_is_said_in_json(desk, body):
    answer = desk.open("POST", "/mcp", JSON, body, CONTENT_LENGTH=str(len(body)))

    assert answer.status == 400
    assert answer.error["data"]["code"] in ("parse_error", "invalid_request")
