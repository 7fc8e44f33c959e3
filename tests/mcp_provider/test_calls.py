"""A tool's call: what reaches the door, and what the door's answer becomes in each revision."""

from datetime import UTC, datetime
from typing import Any

import jsonschema
import orjson
import pytest
from mcp_types.methods import validate_server_result

from core.errors import AppError
from flows.arguments import InvalidArguments
from flows.envelope import Envelope, Refusal, Status, Waiting
from flows.registry import UnknownFlow
from tests.mcp_provider.house import LEGACY, LEGACY_VERSIONS, MODERN, House, summary_write
from tests.support.raw_mcp import RawAnswer

EVERY_VERSION = (*LEGACY_VERSIONS, MODERN)
URL = "http://localhost:6535/confirmations/cf_1"
WAITING = Waiting(
    "cf_1", URL, "cs_ct_secret", datetime(2026, 11, 30, 12, 15, tzinfo=UTC), "Refund 45.00 EUR of order 1042."
)
TEACHING = (
    f"NOT executed yet. Ask the person to open {URL} and approve: Refund 45.00 EUR of order 1042. After that call "
    'orders_refund again with the same arguments, confirmToken and confirmation="CONFIRM".'
)
SCOPE = Refusal(
    "insufficient_scope",
    "This connection lacks orders:refund for orders.refund.",
    rule="scope",
    missing_scopes=("orders:refund",),
    grantable=True,
    remedy="Ask the person.",
    grant_url="http://localhost:6535/connections/gr_alice?add=orders:refund",
)


def call(house: House, tool: str, arguments: Any = ..., version: str = MODERN, **meta: Any) -> RawAnswer:
    params = {"name": tool} if arguments is ... else {"name": tool, "arguments": arguments}
    if version == MODERN:
        return house.modern("tools/call", params, **meta)
    return house.legacy("tools/call", params, version=version)


def schema_of(house: House, tool: str) -> dict[str, Any]:
    tools = house.modern("tools/list").result["tools"]
    return next(dict(found["outputSchema"]) for found in tools if found["name"] == tool)


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_read_tool_gives_its_flows_result(house: House, version: str) -> None:
    result = call(house, "orders_list", {"limit": 5}, version).result

    assert orjson.loads(result["content"][0]["text"]) == {"orders": ["1042"]}
    assert result.get("structuredContent") == ({"orders": ["1042"]} if version >= "2025-06-18" else None)
    assert result["isError"] is False
    assert ("resultType" in result) is (version == MODERN)
    validate_server_result("tools/call", version, result)


@pytest.mark.parametrize("arguments", [..., None, {}])
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_no_arguments_are_an_empty_object(house: House, version: str, arguments: Any) -> None:
    call(house, "orders_list", arguments, version)

    assert [(made.flow_id, made.arguments, made.tool) for made in house.door.calls] == [
        ("orders.list", {}, "orders_list")
    ]


@pytest.mark.parametrize("arguments", [[], "x", 5, True, [{}]])
@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_arguments_of_another_kind_are_invalid_params(house: House, version: str, arguments: Any) -> None:
    answer = call(house, "orders_list", arguments, version)

    assert (answer.status, answer.error["code"]) == (200, -32602)
    assert house.door.calls == []


@pytest.mark.parametrize("name", ["nothing", "", "orders.list", "__init__", "ACTION_INVOKE"])
def test_an_unknown_tool_is_invalid_params(house: House, name: str) -> None:
    modern, legacy = call(house, name, {}), call(house, name, {}, LEGACY)

    assert (modern.status, modern.error["code"]) == (200, -32602)
    assert (legacy.status, legacy.error["code"]) == (200, -32602)
    assert house.door.refused == [(name, "unknown_tool", None)] * 2


@pytest.mark.parametrize("params", [None, {}, {"name": None}, {"name": 5}, {"name": ["orders_list"]}])
def test_a_call_without_a_name_is_invalid_params(house: House, params: Any) -> None:
    answer = house.legacy("tools/call", params)

    assert (answer.status, answer.error["code"]) == (200, -32602)
    assert "pydantic" not in answer.error["message"].lower()


def test_the_reserved_arguments_go_beside_the_flows_own(house: House) -> None:
    given = {"order_id": 7, "confirmToken": "cs_ct_x", "confirmation": "CONFIRM", "requestId": "wish-1"}
    call(house, "orders_refund", given)
    (made,) = house.door.calls

    assert made.arguments == {"order_id": 7}
    assert (made.confirm_token, made.confirmation, made.request_id) == ("cs_ct_x", "CONFIRM", "wish-1")
    assert not made.ask_only


def test_a_read_tool_has_no_reserved_arguments(house: House) -> None:
    call(house, "orders_list", {"confirmToken": "x"})

    assert house.door.calls[0].arguments == {"confirmToken": "x"}  # refused by the flow's closed schema


@pytest.mark.parametrize("name", ["confirmToken", "confirmation", "requestId"])
@pytest.mark.parametrize("value", [5, True, [], {"a": 1}, ""])
def test_reserved_arguments_of_a_wrong_type_reach_nobody(house: House, name: str, value: Any) -> None:
    result = call(house, "orders_refund", {"order_id": 7, name: value}).result

    assert result["isError"] is True
    assert result["content"][0]["text"] == f"{name} must be text."
    assert result["structuredContent"]["refusal"]["code"] == "invalid_arguments"
    assert house.door.calls == []
    assert house.door.refused == [("orders_refund", "invalid_arguments", "orders.refund")]


def test_a_call_that_waits_teaches_how_to_go_on(house: House) -> None:
    house.door.answer = Envelope(Status.CONFIRMATION_REQUIRED, waiting=WAITING)

    result = call(house, "orders_refund", {"order_id": 7}).result

    assert result["isError"] is False
    assert result["content"][0]["text"] == TEACHING
    assert orjson.loads(result["content"][1]["text"]) == result["structuredContent"]
    assert result["structuredContent"] == {
        "status": "confirmation_required",
        "confirmationId": "cf_1",
        "confirmUrl": URL,
        "confirmToken": "cs_ct_secret",
        "confirmVia": "action_confirm",
        "expiresAt": "2026-11-30T12:15:00Z",
        "summary": "Refund 45.00 EUR of order 1042.",
    }


def test_an_early_call_is_taught_the_same_and_an_approved_one_that_it_has_not_run(house: House) -> None:
    house.door.answer = Envelope(Status.CONFIRMATION_PENDING, waiting=WAITING)
    pending = call(house, "orders_refund", {"order_id": 7}).result
    house.door.answer = Envelope(Status.CONFIRMATION_APPROVED, waiting=WAITING)
    approved = call(house, "orders_refund", {"order_id": 7}).result

    assert pending["content"][0]["text"] == TEACHING
    assert pending["structuredContent"]["confirmToken"] == "cs_ct_secret"
    assert approved["content"][0]["text"].startswith("Approved, NOT executed yet.")


def test_a_spent_token_tells_first_what_it_paid_for(house: House) -> None:
    spent = Refusal("confirmation_spent", "run_9: done. Don't ask again.", run_id="run_9", outcome=Status.DONE)
    house.door.answer = Envelope(Status.REFUSED, refusal=spent)

    result = call(house, "orders_refund", {"order_id": 7}).result

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("run_9: done.")
    assert (result["structuredContent"]["runId"], result["structuredContent"]["outcome"]) == ("run_9", "done")


OUTCOMES = [
    Envelope(Status.DONE, run_id="run_1", result={"refund_id": "r1"}),
    Envelope(Status.DONE, run_id="run_1", result={"refund_id": "r1"}, replayed=True, unconfirmed=True),
    Envelope(Status.DONE, run_id="run_1"),
    Envelope(Status.RUNNING, run_id="run_1"),
    Envelope(Status.CONFIRMATION_REQUIRED, waiting=WAITING),
    Envelope(Status.CONFIRMATION_PENDING, waiting=WAITING),
    Envelope(Status.CONFIRMATION_APPROVED, waiting=WAITING, unconfirmed=True),
    Envelope(Status.FAILED, run_id="run_1", refusal=Refusal("order_paid_out", "It was paid out.")),
    Envelope(Status.FAILED, run_id="run_1"),
    Envelope(Status.INTERRUPTED, run_id="run_1"),
    Envelope(Status.UNKNOWN, run_id="run_1"),
    Envelope(Status.REFUSED, refusal=Refusal("not_allowed", "No.", rule="role", missing_scopes=("x:y",))),
    Envelope(
        Status.REFUSED, refusal=Refusal("x", "No.", confirm_via="action_confirm", run_id="r", outcome=Status.UNKNOWN)
    ),
]


@pytest.mark.parametrize("envelope", OUTCOMES, ids=lambda envelope: str(envelope.status))
@pytest.mark.parametrize("tool", ["orders_refund", "action_invoke", "action_confirm"])
def test_every_outcome_of_a_write_tool_fits_its_output_schema(house: House, tool: str, envelope: Envelope) -> None:
    arguments = {
        "orders_refund": {"order_id": 7},
        "action_invoke": {"flowId": "orders.refund", "args": {"order_id": 7}},
        "action_confirm": {"tool": "orders_refund", "args": {"order_id": 7}, "reason": "late"},
    }
    house.door.answer = envelope

    for version in EVERY_VERSION:
        result = call(house, tool, arguments[tool], version).result
        assert result["isError"] is envelope.status.is_error
        assert result["content"][0]["text"]
        data = orjson.loads(result["content"][1]["text"])
        jsonschema.validate(data, schema_of(house, tool))
        assert result.get("structuredContent", data) == data
        validate_server_result("tools/call", version, result)


@pytest.mark.parametrize("status", [Status.FAILED, Status.REFUSED, Status.INTERRUPTED, Status.UNKNOWN])
def test_a_read_tool_that_fails_says_a_sentence_and_a_code_and_no_result(house: House, status: Status) -> None:
    house.door.answer = Envelope(status, refusal=Refusal("too_late", "The order is archived."))

    result = call(house, "orders_list").result

    assert result["isError"] is True
    assert result["content"][0]["text"] == "The order is archived."
    assert orjson.loads(result["content"][1]["text"])["code"] == "too_late"
    assert "structuredContent" not in result


@pytest.mark.parametrize(
    ("tool", "version"), [("orders_list", LEGACY), ("orders_list", MODERN), ("orders_refund", MODERN)]
)
def test_invalid_arguments_are_a_result_that_names_the_field(house: House, tool: str, version: str) -> None:
    house.door.answer = InvalidArguments("limit must be a whole number.")

    answer = call(house, tool, {}, version)

    assert answer.status == 200
    assert answer.result["isError"] is True
    assert answer.result["content"][0]["text"] == "limit must be a whole number."
    assert house.door.refused == []  # the door has recorded it


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_scope_that_the_role_could_hold_is_a_challenge(house: House, version: str) -> None:
    house.door.answer = Envelope(Status.REFUSED, refusal=SCOPE)

    answer = call(house, "orders_refund", {"order_id": 7}, version)

    assert answer.status == 403
    assert answer.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')
    assert answer.json["id"] == 7
    assert answer.error["data"]["code"] == "insufficient_scope"
    assert answer.error["data"]["missingScopes"] == ["orders:refund"]
    assert answer.error["data"]["grantUrl"] == SCOPE.grant_url
    assert not -32768 <= answer.error["code"] <= -32000


def test_what_the_role_can_never_hold_is_a_result(house: House) -> None:
    never = Refusal("not_allowed", "The role viewer can't hold this.", rule="role", missing_scopes=("orders:refund",))
    house.door.answer = Envelope(Status.REFUSED, refusal=never)

    answer = call(house, "orders_refund", {"order_id": 7})

    assert (answer.status, answer.result["isError"]) == (200, True)
    assert "www-authenticate" not in answer.headers


def test_a_missing_client_capability_stops_before_the_door(house: House) -> None:
    for tool, arguments in (("summary_write", {}), ("action_invoke", {"flowId": "summary.write"})):
        modern = call(house, tool, arguments)
        legacy = call(house, tool, arguments, LEGACY)

        assert (modern.status, modern.error["code"], modern.json["id"]) == (400, -32021, 7)
        assert modern.error["data"]["requiredCapabilities"] == {"sampling": {}}
        assert (legacy.status, legacy.result["isError"]) == (200, True)
        assert house.door.refused[-2:] == [(tool, "missing_client_capability", "summary.write")] * 2
    assert house.door.calls == []


def test_a_held_call_needs_the_client_capabilities_of_its_flow(house: House) -> None:
    house.door.held_flow = summary_write
    spending = {"confirmToken": "cs_ct_x", "confirmation": "CONFIRM"}

    modern, legacy = (call(house, "action_invoke", spending, version) for version in (MODERN, LEGACY))
    able = call(house, "action_invoke", spending, clientCapabilities={"sampling": {}})

    assert (modern.status, modern.error["code"]) == (400, -32021)
    assert legacy.result["structuredContent"]["refusal"]["code"] == "missing_client_capability"
    assert house.door.refused == [("action_invoke", "missing_client_capability", "summary.write")] * 2
    assert able.result["structuredContent"]["status"] == "done"


@pytest.mark.parametrize(
    "arguments", [{"confirmationId": "cf_1"}, {"tool": "orders_refund", "args": {"order_id": 7}, "reason": "late"}]
)
@pytest.mark.parametrize("status", [Status.CONFIRMATION_PENDING, Status.CONFIRMATION_APPROVED])
def test_action_confirm_names_the_tool_that_runs_the_call(house: House, status: Status, arguments: Any) -> None:
    house.door.answer = Envelope(status, waiting=WAITING, tool="orders_refund")

    text = call(house, "action_confirm", arguments).result["content"][0]["text"]

    assert " call orders_refund again with the same arguments" in text


def test_a_declared_client_capability_is_enough(house: House) -> None:
    session = house.initialize(LEGACY, {"sampling": {}}).headers["mcp-session-id"]

    call(house, "summary_write", {}, clientCapabilities={"sampling": {}})
    house.legacy("tools/call", {"name": "summary_write"}, {"Mcp-Session-Id": session})
    call(house, "summary_write", {}, clientCapabilities={"sampling": {"tools": {}}, "other": {}})

    assert len(house.door.calls) == 3


def test_a_missing_scope_is_said_before_a_missing_capability(house: House) -> None:
    role, _ = house.bearer.held["alice"]
    house.bearer.held["alice"] = (role, frozenset())
    house.door.answer = Envelope(Status.REFUSED, refusal=SCOPE)

    assert call(house, "summary_write", {}).status == 403


def test_action_invoke_is_another_name_of_the_flows_call(house: House) -> None:
    given = {"flowId": "orders.refund", "args": {"order_id": 7}, "requestId": "w", "confirmToken": None}
    call(house, "action_invoke", given)
    (made,) = house.door.calls

    assert (made.flow_id, made.arguments, made.tool) == ("orders.refund", {"order_id": 7}, "action_invoke")
    assert (made.confirm_token, made.request_id) == (None, "w")


def test_action_invoke_of_a_read_flow_is_done(house: House) -> None:
    result = call(house, "action_invoke", {"flowId": "orders.list"}).result

    assert result["structuredContent"] == {"status": "done", "runId": "run_1", "result": {"orders": ["1042"]}}


def test_action_invoke_with_a_token_alone_runs_the_held_call(house: House) -> None:
    call(house, "action_invoke", {"confirmToken": "cs_ct_x", "confirmation": "CONFIRM"})
    call(house, "action_invoke", {"confirmToken": "cs_ct_x"})

    assert house.door.held == [("cs_ct_x", "CONFIRM"), ("cs_ct_x", None)]
    assert house.door.calls == []


def test_action_confirm_only_asks(house: House) -> None:
    call(house, "action_confirm", {"tool": "orders_refund", "args": {"order_id": 7}, "reason": "late"})
    call(house, "action_confirm", {"confirmationId": "cf_1"})
    (made,) = house.door.calls

    assert (made.flow_id, made.arguments, made.reason, made.ask_only) == (
        "orders.refund",
        {"order_id": 7},
        "late",
        True,
    )
    assert (made.confirm_token, made.confirmation) == (None, None)
    assert house.door.asked == ["cf_1"]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("action_invoke", {}, "flowId is needed and must be text."),
        ("action_invoke", {"flowId": 5}, "flowId is needed and must be text."),
        ("action_invoke", {"flowId": "orders.list", "args": []}, "args must be an object."),
        ("action_invoke", {"flowId": "orders.list", "limit": 5}, "action_invoke takes only flowId, toolId, args here."),
        ("action_invoke", {"confirmToken": "x", "args": {}}, "flowId is needed and must be text."),
        ("action_invoke", {"confirmToken": "x", "requestId": "w"}, "flowId is needed and must be text."),
        ("action_confirm", {}, "tool is needed and must be text."),
        ("action_confirm", {"tool": "nothing"}, "tool must be the name of a flow's own tool; manifest_get names them."),
        (
            "action_confirm",
            {"tool": "action_invoke"},
            "tool must be the name of a flow's own tool; manifest_get names them.",
        ),
        ("action_confirm", {"tool": "orders_refund", "reason": 5}, "reason is needed and must be text."),
        ("action_confirm", {"tool": "orders_refund", "args": "x"}, "args must be an object."),
        ("action_confirm", {"confirmationId": 5}, "confirmationId is needed and must be text."),
        ("action_confirm", {"confirmationId": "cf_1", "tool": "x"}, "action_confirm takes only confirmationId here."),
        (
            "action_confirm",
            {"tool": "orders_refund", "confirmToken": "x"},
            "action_confirm takes only tool, args, reason here.",
        ),
    ],
)
def test_the_action_tools_say_what_they_take(house: House, tool: str, arguments: Any, sentence: str) -> None:
    result = call(house, tool, arguments).result

    assert (result["isError"], result["content"][0]["text"]) == (True, sentence)
    assert result["structuredContent"]["status"] == "refused"
    assert house.door.calls == []
    assert house.door.refused == [(tool, "invalid_arguments", None)]


def test_an_unknown_flow_is_invalid_params(house: House) -> None:
    house.door.answer = UnknownFlow()

    answer = call(house, "action_invoke", {"flowId": "nothing.here"})

    assert (answer.status, answer.error["code"], answer.error["data"]["code"]) == (200, -32602, "unknown_flow")


def test_other_refusals_of_the_house_keep_their_internals(house: House) -> None:
    house.door.answer = AppError(detail="table cs_token is locked by pid 7")

    answer = call(house, "orders_list")

    assert answer.error["code"] == -32603
    assert b"cs_token" not in answer.raw
