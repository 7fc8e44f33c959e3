"""What counts as a message: strict JSON, said once, within bounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_provider.messages import DEEPEST, RpcError, error_message, read_json, result_message

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
).filter(lambda value: "\\ud" not in json.dumps(value))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nul",
        b"{} {}",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":"\x00"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":01}',
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_strict_json_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(RpcError) as refused:
        read_json(raw)

    assert (refused.value.rpc_code, refused.value.http_status) == (-32700, 400)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":1,"id":2}',
        b'{"params":{"name":"orders_list","name":"orders_refund"}}',
        b'[{"a":1,"\\u0061":2}]',
        b'{"id":18446744073709551616}',
        b'{"id":-9223372036854775809}',
        b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2),
        b'{"a":' * (DEEPEST + 2) + b"1" + b"}" * (DEEPEST + 2),
    ],
)
def test_what_readers_could_understand_differently_is_no_request(raw: bytes) -> None:
    with pytest.raises(RpcError) as refused:
        read_json(raw)

    assert (refused.value.rpc_code, refused.value.http_status) == (-32600, 400)


def test_many_shallow_brackets_are_fine() -> None:
    assert read_json(json.dumps([[{}]] * 1000).encode()) == [[{}]] * 1000


@given(VALUES)
def test_everything_else_is_read_as_it_stands(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize("request_id", [0, -1, 2**63, 'a"b', "é", ""])
def test_an_id_comes_back_as_it_came(request_id: int | str) -> None:
    assert json.loads(result_message(request_id, b"{}")) == {"jsonrpc": "2.0", "id": request_id, "result": {}}


def test_an_unknown_id_is_null_or_absent() -> None:
    error = RpcError(-32700, "No.")

    assert json.loads(error_message(None, error, "ref", omit_id=False)) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "No.", "data": {"code": "parse_error", "reference": "ref"}},
    }
    assert "id" not in json.loads(error_message(None, error, None, omit_id=True))
    assert json.loads(error_message(1, error, None, omit_id=True))["id"] == 1
