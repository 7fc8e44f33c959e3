"""The era of a request and its envelope: our rules, and the SDK's as the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import NAME_BEARING_METHODS, InboundModernRoute, classify_inbound_request, decode_header_value
from mcp_types import CLIENT_CAPABILITIES_META_KEY as CAPABILITIES
from mcp_types import PROTOCOL_VERSION_META_KEY as VERSION

from mcp_provider.messages import RpcError
from mcp_provider.sessions import Session
from mcp_provider.wire import NAME_HEADER_OF, Headers, Request, Terms, batch_allowed, decoded, terms_of

MODERN, LEGACY = "2026-07-28", "2025-11-25"
GOOD = {VERSION: MODERN, CAPABILITIES: {}}
NONE = Headers(None, None, None, None)
SESSION = Session("2025-06-18", frozenset({"sampling"}))


def judge(
    method: str = "tools/list",
    params: dict[str, Any] | None = None,
    headers: Headers = NONE,
    session: Session | None = None,
) -> Terms | RpcError:
    try:
        return terms_of(Request(1, method, params or {}), headers, lambda _: session)
    except RpcError as error:
        return error


def code_of(judged: Terms | RpcError) -> int | str:
    return judged.rpc_code if isinstance(judged, RpcError) else judged.version


def header(
    version: str | None = None, method: str | None = None, name: str | None = None, session: str | None = None
) -> Headers:
    return Headers(version, method, name, session)


@pytest.mark.parametrize(
    ("meta", "headers", "expected"),
    [
        (GOOD, header(MODERN, "tools/list"), MODERN),
        (GOOD, header(None, "tools/list"), -32020),
        (GOOD, header(MODERN, None), -32020),
        (GOOD, header(MODERN, "TOOLS/LIST"), -32020),
        (GOOD, header(f"{MODERN}, {MODERN}", "tools/list"), -32020),
        (GOOD, header(LEGACY, "tools/list"), -32020),
        (None, header(MODERN, "tools/list"), -32602),
        (None, header(MODERN), -32602),
        (None, header("v999.0.0"), -32602),
        (None, header(None, "tools/list"), -32602),
        ({CAPABILITIES: {}}, header(MODERN, "tools/list"), -32602),
        ({VERSION: MODERN}, header(MODERN, "tools/list"), -32602),
        ({VERSION: MODERN, CAPABILITIES: None}, header(MODERN, "tools/list"), -32602),
        ({VERSION: MODERN, CAPABILITIES: []}, header(MODERN, "tools/list"), -32602),
        ({VERSION: None, CAPABILITIES: {}}, header(MODERN, "tools/list"), -32602),
        ({VERSION: 20260728, CAPABILITIES: {}}, header(MODERN, "tools/list"), -32602),
        ({VERSION: "v999.0.0", CAPABILITIES: {}}, header(MODERN, "tools/list"), -32020),
        ({VERSION: "v999.0.0", CAPABILITIES: {}}, header("v999.0.0", "tools/list"), -32022),
        ({VERSION: LEGACY, CAPABILITIES: {}}, header(LEGACY, "tools/list"), -32022),
        ({VERSION: MODERN, CAPABILITIES: {}}, header(LEGACY), -32020),
        ({CAPABILITIES: {}}, NONE, -32602),
    ],
)
def test_a_modern_envelope_holds_or_says_why_not(meta: Any, headers: Headers, expected: int | str) -> None:
    judged = judge(params={} if meta is None else {"_meta": meta}, headers=headers)

    assert code_of(judged) == expected
    assert not isinstance(judged, RpcError) or judged.http_status == 400


@pytest.mark.parametrize(
    ("headers", "session", "expected"),
    [
        (NONE, None, "2025-03-26"),
        (header("2025-06-18"), None, "2025-06-18"),
        (header("2024-11-05"), None, "2024-11-05"),
        (header("1900-01-01"), None, -32600),
        (header("1900-01-01", session="s"), SESSION, -32600),
        (header("2025-11-25, 2025-11-25"), None, "2025-11-25"),
        (header("2025-11-25, 2025-06-18"), None, -32600),
        (header(session="s"), SESSION, "2025-06-18"),
        (header("2025-11-25", session="s"), SESSION, "2025-06-18"),
        (header(MODERN, session="s"), SESSION, "2025-06-18"),
        (header(MODERN, session="dead"), None, -32602),
        (header(MODERN, "tools/list", session="s"), SESSION, -32602),
        (header("v999", session="s"), SESSION, -32602),
        (header("2025-11-25", "tools/list"), None, "2025-11-25"),
        (header("2025-11-25", "tools/list", session="s"), SESSION, "2025-06-18"),
        (header("1900-01-01", "tools/list"), None, -32602),
        (header(None, "tools/list", session="s"), SESSION, -32602),
    ],
)
def test_a_legacy_request_has_the_version_of_its_session_else_of_its_header(
    headers: Headers, session: Session | None, expected: int | str
) -> None:
    assert code_of(judge(headers=headers, session=session)) == expected


@pytest.mark.parametrize(
    "headers", [NONE, header(MODERN, "initialize"), header("1900-01-01"), header(LEGACY, "initialize")]
)
def test_initialize_is_legacy_whatever_the_headers_say(headers: Headers) -> None:
    judged = judge("initialize", headers=headers)

    assert isinstance(judged, Terms)
    assert not judged.modern


def test_a_session_remembers_capabilities() -> None:
    judged = judge(headers=header(session="s"), session=SESSION)

    assert isinstance(judged, Terms)
    assert judged.capabilities == {"sampling"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders_list", MODERN),
        ("=?base64?b3JkZXJzX2xpc3Q=?=", MODERN),
        ("=?base64?b3JkZXJzX2xpc3R=?=", -32020),
        ("=?BASE64?b3JkZXJzX2xpc3Q=?=", -32020),
        ("=?base64?%%%?=", -32020),
        ("=?base64?/w==?=", -32020),
        ("orders_refund", -32020),
        ("orders_list,orders_list", -32020),
        ("", -32020),
        (None, -32020),
    ],
)
def test_the_name_header_equals_the_tool(name: str | None, expected: int | str) -> None:
    params = {"_meta": GOOD, "name": "orders_list"}

    assert code_of(judge("tools/call", params, header(MODERN, "tools/call", name))) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        ("=?base64?IHBhZGRlZCA=?=", " padded "),
        ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        ("caf\xe9", None),
        ("a\tb", None),
        (None, None),
    ],
)
def test_header_values_are_decoded_as_the_revision_says(value: str | None, expected: str | None) -> None:
    assert decoded(value) == expected


@pytest.mark.parametrize(
    ("headers", "session", "allowed"),
    [
        (NONE, None, True),
        (header("2025-03-26"), None, True),
        (header("2025-06-18"), None, False),
        (header(MODERN), None, False),
        (header(None, "tools/list"), None, False),
        (header(session="s"), SESSION, False),
        (header(session="s"), Session("2025-03-26", frozenset()), True),
    ],
)
def test_lists_of_messages_are_of_one_revision(headers: Headers, session: Session | None, *, allowed: bool) -> None:
    assert batch_allowed(headers, lambda _: session) is allowed


def test_the_named_methods_are_those_of_the_sdk() -> None:
    assert dict(NAME_BEARING_METHODS) == NAME_HEADER_OF


WORDS = st.sampled_from(
    [MODERN, LEGACY, "v999.0.0", "tools/list", "tools/call", "orders_list", "=?base64?b3JkZXJz?=", "", "x"]
)
META: st.SearchStrategy[dict[str, Any] | None] = st.none() | st.dictionaries(
    st.sampled_from([VERSION, CAPABILITIES, "other/key"]), WORDS | st.just({}) | st.just([1]), max_size=3
)


@given(
    method=st.sampled_from(["tools/list", "tools/call", "resources/read", "server/discover"]),
    meta=META,
    name=st.none() | WORDS,
    headers=st.tuples(st.none() | WORDS, st.none() | WORDS, st.none() | WORDS),
)
def test_the_ladder_agrees_with_the_sdk_wherever_the_sdk_is_strict(
    method: str, meta: dict[str, Any] | None, name: str | None, headers: tuple[str | None, str | None, str | None]
) -> None:
    params: dict[str, Any] = {} if meta is None else {"_meta": meta}
    if name is not None:
        params |= {"name": name, "uri": name}
    given_headers = dict(zip(("mcp-protocol-version", "mcp-method", "mcp-name"), headers, strict=True))
    wire_headers = {key: value for key, value in given_headers.items() if value is not None}
    found = meta or {}
    readable = isinstance(found.get(VERSION), str) and isinstance(found.get(CAPABILITIES), dict)

    ours = judge(method, params, Headers(*headers, session=None))
    theirs = classify_inbound_request({"method": method, "params": params}, headers=wire_headers)

    if any(key in found for key in (VERSION, CAPABILITIES)):
        if not readable:  # where we are stricter: what is there must also be readable
            assert code_of(ours) == -32602
        elif isinstance(theirs, InboundModernRoute):
            assert code_of(ours) == theirs.protocol_version
        else:
            assert code_of(ours) == theirs.code


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)) | st.just("=?base64?SGVsbG8=?="))
def test_header_values_mean_what_they_mean_to_the_sdk(value: str) -> None:
    assert decoded(value) == decode_header_value(value)
