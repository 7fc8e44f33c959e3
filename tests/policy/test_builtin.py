"""The manifest names what could be granted and where; the two general tools are declared for any client."""

import jsonschema
import pytest

from flows.caller import Role
from flows.schema import output_schema
from policy.builtin import ACTION_TOOLS, policy_flows
from tests.policy.house import FLOWS, House, agent, open_house, settings_for


@pytest.fixture
def house(database_url):
    """A house whose registry holds the manifest as well."""
    made: list[House] = []
    built_in = policy_flows(lambda: made[0].registry, lambda: made[0].scopes, settings_for(database_url))
    made.append(open_house(database_url, flows=(*built_in, *FLOWS)))
    yield made[0]
    made[0].close()


def manifest(house: House, scopes: set[str], **call):
    principal = agent(
        scopes=frozenset({"mcp:manifest:read", *scopes}),
        role=call.pop("role", Role.OPERATOR),
        client=call.pop("client", "claude"),
    )
    answer = house.call("manifest.get", principal=principal, args=call)
    jsonschema.validate(answer.result, output_schema(house.registry.get("manifest.get").result))
    return {entry["flowId"]: entry for entry in answer.result["flows"]}


def test_it_names_every_flow_that_the_role_could_be_given_and_where_to_get_it(house):
    found = manifest(house, {"mcp:flows:read", "mcp:action:invoke"})

    assert set(found) == {"manifest.get", "orders.refund", "orders.list", "orders.tag"}
    assert found["orders.refund"] == {
        "flowId": "orders.refund",
        "tool": "orders_refund",
        "title": "Refund an order",
        "summary": "Refund a paid order.",
        "effects": ["write:orders", "send:email"],
        "scope": "mcp:action:invoke orders:refund",
        "rule": "human",
        "version": 1,
        "granted": False,
        "grantUrl": "http://localhost:6535/connections/gr_1?add=orders:refund",
    }
    assert found["orders.list"]["granted"] is True
    assert not found["orders.list"].keys() & {"grantUrl", "rule", "unconfirmed"}


def test_a_viewer_isnt_told_of_what_no_consent_could_give(house):
    assert set(manifest(house, set(), role=Role.VIEWER)) == {"manifest.get", "orders.list"}


def test_a_call_that_no_person_confirms_is_marked(house):
    trusted, other = manifest(house, set(), client="bot"), manifest(house, set())

    assert (trusted["orders.tag"]["rule"], trusted["orders.tag"]["unconfirmed"]) == ("client", True)
    assert other["orders.tag"]["rule"] == "human"
    assert "unconfirmed" not in other["orders.tag"]


@pytest.mark.parametrize(
    ("query", "found"),
    [("REFUND", {"orders.refund"}), ("order refund", {"orders.refund"}), ("tag put", {"orders.tag"}), ("zebra", set())],
)
def test_a_query_finds_flows_by_all_its_words(house, query, found):
    assert set(manifest(house, set(), query=query)) == found


def test_without_its_scope_the_manifest_is_closed(house):
    answer = house.call("manifest.get", principal=agent(scopes=frozenset({"mcp:flows:read"})), args={})

    assert answer.refusal.code == "insufficient_scope"


def test_the_general_tools_have_plain_schemas_and_say_what_they_are_not_for():
    for tool in ACTION_TOOLS:
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert not schema.keys() & {"oneOf", "anyOf", "allOf", "$ref"}
        assert "Not for" in tool.description
    assert [tool.name for tool in ACTION_TOOLS] == ["action_invoke", "action_confirm"]
