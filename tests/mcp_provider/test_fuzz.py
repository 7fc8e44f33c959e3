"""Whatever is sent to the whole application's `/mcp`: never a 5xx, never HTML, never a word of what went wrong inside.

For about 20 seconds in `make test`, for ten minutes in `make test-long`.
"""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from policy.builtin import ACTION_TOOLS
from tests.auth.served import Served
from tests.support.raw_mcp import LEGACY, META, MODERN
from tests.support.server import ALICE

pytestmark = pytest.mark.fuzz
EXAMPLES = int(os.environ.get("COUNTERSIGN_TEST_FUZZ", "600"))
SCOPES = ("mcp:manifest:read", "mcp:schema:read", "mcp:effects:read", "mcp:traces:read", "mcp:flows:read")
WRITES = ("mcp:action:invoke", "orders:refund")
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN, "1900-01-01", "", "v9", f"{LEGACY}, {LEGACY}")
METHODS = (
    "initialize", "ping", "tools/list", "tools/call", "server/discover", "prompts/list", "prompts/get",
    "resources/list", "resources/read", "resources/templates/list",
    "completion/complete", "logging/setLevel", "notifications/cancelled",
    "notifications/initialized", "subscriptions/listen", "tasks/get", "nonsense", "",
)  # fmt: skip
TOOLS = (
    "orders_list", "orders_get", "orders_refund", "reports_sales", "manifest_get", "schema_get", "effects_get",
    "traces_list", "traces_get", "stock_adjust", *(tool.name for tool in ACTION_TOOLS), "nonsense", "",
)  # fmt: skip
NAMES = (
    "name", "arguments", "cursor", "_meta", "uri", "protocolVersion", "capabilities", "clientInfo", "requestId", "ref",
    "argument", "level", "order_id", "reason", "limit", "flowId", "args", "tool", "confirmToken", "confirmation",
    "confirmationId", "runId", "status", "first_day", "last_day", "sku", "change", "progressToken", "inputResponses",
    "requestState", META + "protocolVersion", META + "clientCapabilities", META + "logLevel",
)  # fmt: skip
WORDS = (
    "orders.refund",
    "1042",
    "2026-03-01",
    "CONFIRM",
    "cs_ct_" + "A" * 43,
    "run_" + "0" * 32,
    "\x00",
    "é\u202e",
    "../..",
    "a" * 300,
)
NUMBERS = (0, -1, 1, 20, 200, 201, 1042, 2**31, 2**53, 2**63, -(2**63), 0.5, 1e308)

words = st.one_of(st.sampled_from((*WORDS, *TOOLS, *VERSIONS)), st.text(max_size=20))
scalars = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(), st.floats(allow_nan=False), words
)
members = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(members, inner, max_size=4), max_leaves=8
)
objects = st.dictionaries(members, values, max_size=5)
arguments = st.one_of(
    st.fixed_dictionaries({}, optional={name: values for name in NAMES if not name.startswith(META)}),
    st.sampled_from((
        {"order_id": 1042}, {"order_id": 1042, "reason": "broken"}, {"flowId": "orders.refund"}, {"limit": 5},
        {"first_day": "2026-03-01", "last_day": "2026-03-31"}, {"sku": "CUP-BLUE", "change": 1, "reason": "found"},
        {"tool": "orders_refund", "args": {"order_id": 1042, "reason": "broken"}, "reason": "x"}, {}, None, [], "x",
        {"flowId": "orders.get", "args": {"order_id": 1042}},
    )),
)  # fmt: skip
ODD_HEADERS = (
    *(("MCP-Protocol-Version", version) for version in VERSIONS),
    *(("Accept", value) for value in ("text/event-stream", "*/*", "text/html", "application/json;q=0", "")),
    *(("Content-Type", f"application/json; charset={name}") for name in ("utf-8", "x")), ("Content-Type", "text/plain"),
    ("Mcp-Method", "tools/list"), ("Mcp-Name", "=?base64?x?="), ("Mcp-Name", "=?base64?b3JkZXJzX2dldA==?="),
    ("Mcp-Session-Id", "dead"), ("Mcp-Session-Id", "a.b.c"), ("Content-Encoding", "gzip"),
    ("Origin", "https://evil.example"), ("Origin", "http://localhost:6274"), ("Origin", "null"),
)  # fmt: skip
raw_bodies = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        (
            b"",
            b"[" * 5000,
            b'{"a":' * 3000,
            b"[]",
            b"[1]",
            b"null",
            b"1e999",
            b'{"id":NaN}',
            b"\xff\xfe{}",
            b'{"id":1,"id":2}',
        )
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Any, dict[str, str]]:
    """Give a message with its headers, both as they should be but for a few places."""
    version = draw(st.sampled_from((MODERN, MODERN, LEGACY, LEGACY, *VERSIONS)))
    method = draw(st.sampled_from(("tools/call", "tools/call", *METHODS)))
    params: dict[str, Any] = draw(objects) if method != "tools/list" else {}
    if method == "tools/call":
        params = {"name": draw(st.sampled_from(TOOLS)), "arguments": draw(arguments)}
    found = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    found["MCP-Protocol-Version"] = version
    if version == MODERN:
        params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        found |= {"Mcp-Method": method, "Mcp-Name": str(params.get("name", params.get("uri", "")))}
    message: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    for _ in range(draw(st.sampled_from((0, 0, 1, 1, 2)))):
        places = [one for one in (message, params, params.get("_meta")) if isinstance(one, dict)]
        draw(st.sampled_from(places))[draw(members)] = draw(values)
    for name in draw(st.lists(st.sampled_from(("jsonrpc", "id", "params", "method")), max_size=1)):
        message[name] = draw(values)
    for name, value in draw(st.lists(st.sampled_from(ODD_HEADERS), max_size=1)):
        found[name] = value
    whole = draw(st.sampled_from((*[message] * 8, [message], [message, message])))
    return whole, {name: value for name, value in found.items() if value.isascii() and value.isprintable()}


@pytest.fixture(scope="module")
def client(new_instance: Any) -> Iterator[Any]:
    """A way in with the token of a person who may write."""
    served = Served(new_instance())
    issued = served.parts.local.issue("fuzz", ALICE.email, (*SCOPES, *WRITES), timedelta(days=1))
    browser = served.parts.flask.test_client()

    def post(body: bytes, given: dict[str, str]) -> Any:
        return browser.post("/mcp", data=body, headers={"Authorization": f"Bearer {issued.token}", **given})

    yield post
    served.stop()


def check(answer: Any) -> None:
    event(f"status {answer.status_code}")
    body = answer.get_data()
    assert answer.status_code < 500, body[:500]
    for inside in (b"Traceback", b"<html", b"<!doctype", b"pydantic", b"sqlalchemy", b"sqlite3", b"site-packages"):
        assert inside not in body.lower(), body[:500]
    if not body:
        assert answer.status_code == 202
        return
    kind = answer.headers["Content-Type"]
    assert kind in ("application/json", "text/event-stream")
    if kind == "application/json":
        said = json.loads(body)
        assert isinstance(said, dict | list)
        assert not (isinstance(said, dict) and said.get("error", {}).get("code") == -32603), said


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
@given(data=st.data())
def test_whatever_is_almost_a_message_is_answered_in_its_words(client, data):
    message, headers = data.draw(requests())

    check(client(json.dumps(message).encode(), headers))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES // 4)
@given(body=raw_bodies, version=st.sampled_from(VERSIONS))
def test_whatever_is_no_message_is_refused_in_json(client, body, version):
    check(client(body, {"Content-Type": "application/json", "MCP-Protocol-Version": version}))
