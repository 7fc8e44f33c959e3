"""Handshake, discovery and lists in every revision, each answer held against the SDK's schema of that revision."""

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp_types.methods import validate_server_result

from mcp_provider.shapes import SERVER_VERSION
from tests.mcp_provider.house import (
    LEGACY,
    LEGACY_VERSIONS,
    META,
    MODERN,
    House,
    make_house,
    many_flows,
)

EVERY_VERSION = (*LEGACY_VERSIONS, MODERN)
MODERN_ONLY = {"resultType", "ttlMs", "cacheScope", "inputRequests"}
READER = {"Authorization": "Bearer reader"}


def ask(house: House, version: str, method: str, params: dict[str, Any] | None = None, **headers: str | None) -> Any:
    answer = (
        house.modern(method, params, headers)
        if version == MODERN
        else house.legacy(method, params, headers, version=version)
    )
    assert answer.status == 200, answer.raw
    validate_server_result(method, version, answer.result)
    assert version == MODERN or not MODERN_ONLY & answer.result.keys()
    return answer.result


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    assert project["project"]["version"] == SERVER_VERSION


@pytest.mark.parametrize(
    ("asked", "given"), [*((v, v) for v in LEGACY_VERSIONS), (MODERN, LEGACY), ("1900-01-01", LEGACY), ("", LEGACY)]
)
def test_the_handshake_agrees_on_a_legacy_version(house: House, asked: str, given: str) -> None:
    answer = house.initialize(asked, {"sampling": {}})

    assert answer.result["protocolVersion"] == given
    assert answer.result["serverInfo"]["name"] == "countersign"
    assert ("title" in answer.result["serverInfo"]) is (given >= "2025-06-18")
    assert ("icons" in answer.result["serverInfo"]) is (given >= "2025-11-25")
    assert ("completions" in answer.result["capabilities"]) is (given >= "2025-03-26")
    assert answer.result["capabilities"].keys() - {"completions"} == {"tools", "prompts", "resources"}
    assert "alice@example.test" in answer.result["instructions"]
    assert all("!" <= sign <= "~" for sign in answer.headers["mcp-session-id"])
    validate_server_result("initialize", given, answer.result)


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": LEGACY, "capabilities": None, "clientInfo": {"name": "t", "version": "1"}},
        {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": "me"},
    ],
)
def test_a_handshake_of_another_shape_is_refused(house: House, params: Any) -> None:
    answer = house.legacy("initialize", params)

    assert (answer.status, answer.error["code"]) == (200, -32602)
    assert "pydantic" not in answer.error["message"].lower()
    assert "mcp-session-id" not in answer.headers


def test_a_session_is_a_memory_of_one_client_and_person_and_of_a_limited_time(house: House) -> None:
    session = house.initialize("2025-06-18", {"sampling": {}}).headers["mcp-session-id"]

    def fields_of_a_tool(**headers: str | None) -> set[str]:
        given = {"MCP-Protocol-Version": None, "Mcp-Session-Id": session} | headers
        return set(house.legacy("tools/list", headers=given).result["tools"][0])

    assert "outputSchema" in fields_of_a_tool()
    assert "outputSchema" in fields_of_a_tool(**{"MCP-Protocol-Version": MODERN})
    assert "outputSchema" not in fields_of_a_tool(Authorization="Bearer bob")
    assert "outputSchema" not in fields_of_a_tool(**{"Mcp-Session-Id": session[:-1] + "x"})
    house.clock.time += timedelta(days=31)
    assert "outputSchema" not in fields_of_a_tool()


def test_a_session_id_stays_short_whatever_is_declared(house: House) -> None:
    capabilities: dict[str, Any] = {f"x{number}" * 50: {} for number in range(300)} | {
        f"c{number}": {} for number in range(300)
    }

    assert len(house.initialize(LEGACY, capabilities).headers["mcp-session-id"]) < 1000


def test_discovery_names_what_is_there(house: House) -> None:
    result = ask(house, MODERN, "server/discover")

    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"] == {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
    assert result["_meta"][META + "serverInfo"]["name"] == "countersign"
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert "alice@example.test" in result["instructions"]


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "subscriptions/listen",
        "foo/bar",
        "",
        "__init__",
    ],
)
def test_unknown_methods_are_404_in_the_modern_era_only(house: House, method: str) -> None:
    modern = house.modern(method)

    assert (modern.status, modern.error["code"], modern.json["id"]) == (404, -32601, 7)
    if method not in ("initialize", "ping"):
        legacy = house.legacy(method)
        assert (legacy.status, legacy.error["code"]) == (200, -32601)


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_ping_is_answered_before_and_after_the_handshake(house: House, version: str) -> None:
    assert house.legacy("ping", version=version).json == {"jsonrpc": "2.0", "id": 7, "result": {}}


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_tool_has_the_fields_that_its_revision_knows(house: House, version: str) -> None:
    expected = {"name", "description", "inputSchema"}
    expected |= {"annotations"} if version >= "2025-03-26" else set()
    expected |= {"title", "outputSchema", "securitySchemes", "_meta"} if version >= "2025-06-18" else set()

    for tool in ask(house, version, "tools/list")["tools"]:
        assert set(tool) == expected
        if "annotations" in tool:
            hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
            assert set(tool["annotations"]) == hints | (set() if "title" in tool else {"title"})


def test_the_list_can_be_read_by_every_client(house: House) -> None:
    tools = ask(house, MODERN, "tools/list")["tools"]

    assert [tool["name"] for tool in tools] == [
        "manifest_get",
        "orders_list",
        "orders_refund",
        "summary_write",
        "action_invoke",
        "action_confirm",
    ]
    for tool in tools:
        assert len(tool["description"]) > 10
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "properties" in schema
            assert not {"oneOf", "anyOf", "allOf", "not", "enum"} & schema.keys()
            assert not {"$ref", "$defs", "x-mcp-header"} & set(_words(schema))


def _words(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(word for part in value.values() for word in _words(part))]
    assert value is not None
    return [word for part in value for word in _words(part)] if isinstance(value, list) else []


def test_annotations_tell_reading_from_changing(house: House) -> None:
    tools = {tool["name"]: tool for tool in ask(house, MODERN, "tools/list")["tools"]}

    def hints(name: str) -> list[bool]:
        found = tools[name]["annotations"]
        return [found[hint] for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")]

    assert hints("orders_list") == [True, False, True, False]
    assert hints("orders_refund") == [False, True, False, True]
    assert hints("action_invoke") == [False, True, False, True]
    assert hints("action_confirm") == [False, False, False, False]


def test_a_write_tool_takes_the_reserved_arguments_and_a_read_tool_does_not(house: House) -> None:
    tools = {tool["name"]: tool for tool in ask(house, MODERN, "tools/list")["tools"]}

    assert {"confirmToken", "confirmation", "requestId"} < set(tools["orders_refund"]["inputSchema"]["properties"])
    assert set(tools["orders_list"]["inputSchema"]["properties"]) == {"limit"}
    assert tools["orders_refund"]["outputSchema"]["required"] == ["status"]


def test_the_list_shows_what_the_grant_may_call(house: House) -> None:
    def names(person: str) -> list[str]:
        tools = ask(house, MODERN, "tools/list", Authorization=f"Bearer {person}")["tools"]
        return [tool["name"] for tool in tools]

    assert names("reader") == ["manifest_get", "orders_list", "summary_write", "action_invoke", "action_confirm"]
    assert "orders_refund" in names("alice")
    assert "orders_refund" not in names("reader")
    role, _ = house.bearer.held["reader"]
    house.bearer.held["reader"] = (role, frozenset())
    assert names("reader") == ["manifest_get", "action_invoke", "action_confirm"]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_absent_and_null_cursors_are_the_first_page_and_all_others_invalid(house: House, version: str) -> None:
    first = ask(house, version, "tools/list")

    assert "nextCursor" not in first
    assert ask(house, version, "tools/list", {"cursor": None}) == first
    assert version == MODERN or house.post({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": None}).result
    cursors: list[Any] = ["", "bogus", 5, {}]
    for bad in cursors:
        answer = (
            house.modern("tools/list", {"cursor": bad})
            if version == MODERN
            else house.legacy("tools/list", {"cursor": bad})
        )
        assert (answer.status, answer.error["code"]) == (200, -32602)


def test_a_long_list_has_pages_that_end_and_belong_to_their_operator() -> None:
    house = make_house(many_flows(450), listed_flows=1000)
    pages = [ask(house, MODERN, "tools/list")]
    while "nextCursor" in pages[-1]:
        pages.append(ask(house, MODERN, "tools/list", {"cursor": pages[-1]["nextCursor"]}))
    names = [tool["name"] for page in pages for tool in page["tools"]]
    second = {"cursor": pages[0]["nextCursor"]}

    assert [len(page["tools"]) for page in pages] == [200, 200, 52]
    assert len(set(names)) == 452
    assert {page["cacheScope"] for page in pages} == {"private"}
    assert house.modern("tools/list", second, {"Authorization": "Bearer bob"}).error["code"] == -32602
    assert house.modern("prompts/list", second).error["code"] == -32602
    house.clock.time += timedelta(hours=2)
    assert house.modern("tools/list", second).error["code"] == -32602


def test_results_say_who_answered_in_the_modern_era(house: House) -> None:
    for method in ("server/discover", "tools/list", "prompts/list"):
        assert ask(house, MODERN, method)["_meta"][META + "serverInfo"]["version"] == SERVER_VERSION
