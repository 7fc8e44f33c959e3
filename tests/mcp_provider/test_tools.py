"""What stands in the tool list beside schemas: icons, the scopes that a tool needs, and how much it all is."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.operation import Source
from mcp_provider.tools import declare
from policy.tool_search import tool_search_flow
from tests.mcp_provider.house import LEGACY, MODERN, House, make_house
from tests.mcp_provider.shop import VERSIONS, Shop, open_shop

HTTPS = "https://app.example.com"
BUDGET = 6_000  # tokens, counted as bytes / 4 (design §6)


def tools_of(house: House, version: str = MODERN) -> dict[str, dict[str, Any]]:
    answer = house.modern("tools/list") if version == MODERN else house.legacy("tools/list", version=version)
    return {tool["name"]: tool for tool in answer.result["tools"]}


def test_each_tool_names_the_scopes_that_it_needs_twice() -> None:
    tools = tools_of(make_house())

    def needed(name: str) -> list[str]:
        assert tools[name]["_meta"] == {"securitySchemes": tools[name]["securitySchemes"]}
        [scheme] = tools[name]["securitySchemes"]
        assert scheme["type"] == "oauth2"
        return list(scheme["scopes"])

    assert needed("orders_list") == ["mcp:flows:read"]
    assert needed("orders_refund") == ["mcp:action:invoke", "orders:refund"]
    assert needed("action_invoke") == needed("action_confirm") == []


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
def test_on_https_each_tool_shows_the_icon_by_its_address_where_the_revision_knows_icons(version: str) -> None:
    tools = tools_of(make_house(base_url=HTTPS), version)

    icon = [{"src": f"{HTTPS}/static/mark.svg"}]
    assert {str(tool.get("icons")) for tool in tools.values()} == {str(icon if version >= "2025-11-25" else None)}


def test_on_plain_http_only_the_server_shows_it_whole() -> None:
    house = make_house()

    [icon] = house.initialize(LEGACY).result["serverInfo"]["icons"]
    discovered = house.modern("server/discover").result["_meta"]["io.modelcontextprotocol/serverInfo"]

    assert icon["src"].startswith("data:image/svg+xml;base64,")
    assert icon["mimeType"] == "image/svg+xml"
    assert discovered["icons"] == [icon]
    assert not any("icons" in tool for tool in tools_of(house).values())
    for method in ("tools/list", "prompts/list"):
        assert "icons" not in house.modern(method).result["_meta"]["io.modelcontextprotocol/serverInfo"]


def test_on_https_the_server_names_where_its_icon_is(shop: Shop) -> None:
    [icon] = make_house(base_url=HTTPS).initialize(LEGACY).result["serverInfo"]["icons"]
    served = shop.house.app.test_client().get("/static/mark.svg", buffered=True)

    assert icon == {"src": f"{HTTPS}/static/mark.svg", "mimeType": "image/svg+xml", "sizes": ["any"]}
    assert (served.status_code, served.mimetype) == (200, "image/svg+xml")


@pytest.mark.parametrize("base_url", ["http://localhost:6535", HTTPS])
def test_the_default_list_stays_within_its_budget(
    base_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_shop(tmp_path, base_url=base_url) as shop:
        agent = shop.agent("ada", "mcp:action:invoke", "orders:refund", "stock:adjust")
        lists = {version: agent.as_version(version).request("tools/list").result["tools"] for version in VERSIONS}
    tokens = {version: len(orjson.dumps(tools)) / 4 for version, tools in lists.items()}
    with capsys.disabled():
        print(f"\ndefault tool list at {base_url}, tokens (bytes / 4): {tokens}")

    assert max(tokens.values()) < BUDGET


DOCUMENTED = re.compile(r"^\| `(\w+)` \| ([^|]+) \| .+ \| (.+) \|$", re.M)


def test_the_page_of_tools_has_each_built_in_one_with_its_arguments_and_scope(shop: Shop) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text().partition("## Resources")[0]
    rows = {tool: (arguments, scope) for tool, arguments, scope in DOCUMENTED.findall(page)}
    registry = shop.house.parts.registry
    built_in = {flow.tool_name: flow for flow in registry if flow.source is Source.BUILTIN}
    declared = {tool["name"]: tool for tool in shop.agent().request("tools/list").result["tools"]}
    large = tool_search_flow(lambda: registry, lambda: shop.house.parts.scopes)  # this shop is too small to have it
    built_in[large.tool_name], declared[large.tool_name] = large, declare(large)

    assert set(rows) == {*built_in, "action_invoke", "action_confirm"}
    for name, (arguments, scope) in rows.items():
        schema = declared[name]["inputSchema"]
        said = {word.strip("`?"): not word.endswith("?`") for word in arguments.split(", ")}
        assert said == {one: one in schema.get("required", ()) for one in schema["properties"]}, name
        if name in built_in:
            [group] = built_in[name].needs
            assert set(scope.strip("`").split(" \\| ")) == group
