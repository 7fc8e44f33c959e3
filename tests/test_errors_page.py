"""docs/errors.md: every code on the wire and in the terminal is in it, and every refusal has the shape of design D9."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from authlib.oauth2 import OAuth2Error

import app
import auth
from cli.errors import all_codes, classes, page
from mcp_provider.messages import NAMES
from tests.auth.served import Served
from tests.journeys.shop import REFUND, proof_of
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth, mcp_for
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, VERA, Instance

ROOT = Path(app.__file__).parent
LAYERS = ("core", "flows", "policy", "auth", "mcp_provider", "web", "cli", "migrations")
KNOWN = {one.code for one in all_codes()}
ONLY_IN_THE_AUDIT = {"by_client"}
REFERENCE = re.compile("[0-9a-f]{16}")


def sources() -> Iterator[Path]:
    for layer in LAYERS:
        yield from (path for path in (ROOT / layer).rglob("*.py") if "catalogue" not in path.parts)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_is_what_the_code_gives() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == page() + "\n", "run `make docs`"


def test_every_code_says_what_it_means_and_what_to_do() -> None:
    lacking = [one.code for one in all_codes() if not (one.meaning.strip(".") and one.remedy)]
    assert lacking == []


def test_every_class_of_refusals_is_on_the_page_in_its_own_words() -> None:
    own = [found for found in classes() if "code" in vars(found) and found.__name__ != "RpcError"]

    assert [found.__name__ for found in own if found.code not in KNOWN] == []
    wordless = [found.__name__ for found in own if not vars(found).get("remedy")]
    assert sorted(wordless) == ["AppError", "FlowError"]  # cli/codes.py has their words: flows inherit from the second


# --- nothing in the code is missing -----------------------------------------------------------------------------------


def literal_codes(path: Path) -> Iterator[tuple[str, int]]:
    """Give the codes that stand in a file as text where a code belongs."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            found = [word.value for word in node.keywords if word.arg == "code"]
            found += node.args[:1] if name in ("Refusal", "Refused") else node.args[1:2] if name == "json_error" else []
            prefix = "confirmation_" if (name, path.name) == ("_refusal", "refusals.py") else ""
            found += node.args[:1] if prefix else []
            yield from ((prefix + one.value, node.lineno) for one in found if _is_text(one))
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (
                (value.value, node.lineno)
                for key, value in pairs
                if isinstance(key, ast.Constant) and key.value in ("code", "error") and _is_text(value)
            )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_literal_code_is_on_the_page() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line} {code}"
        for path in sources()
        for code, line in literal_codes(path)
        if code not in KNOWN | ONLY_IN_THE_AUDIT
    }
    assert found == set()


def test_the_search_for_literal_codes_finds_them() -> None:
    found = {code for path in sources() for code, _ in literal_codes(path)}
    assert {"confirmation_denied", "insufficient_scope", "access_denied", "temporarily_unavailable"} <= found


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{found.name}")


def test_every_error_of_oauth_that_we_use_is_on_the_page() -> None:
    used = {
        value.error
        for module in modules_of(auth)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, OAuth2Error) and value is not OAuth2Error
    }
    assert "invalid_grant" in used
    assert used - KNOWN == set()


def test_every_number_of_json_rpc_has_a_name_on_the_page() -> None:
    assert set(NAMES.values()) - KNOWN == set()


# --- what really comes over HTTP --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    with Served(new_instance()) as one:
        yield one


@pytest.fixture(scope="module")
def alice(served: Served) -> RawMcp:
    return _agent(served, ALICE, tick=(REFUND,))


def _agent(served: Served, person: Any, **more: Any) -> RawMcp:
    browser = FormBrowser(served.base_url)
    browser.sign_in(person.email, person.password)
    return mcp_for(browser, **more)


def check(code: str, facts: dict[str, Any], sentence: str) -> None:
    """Hold one refusal to the shape of D9."""
    assert facts["code"] == code, facts
    assert code in KNOWN
    assert sentence.endswith((".", "…")), sentence
    assert REFERENCE.fullmatch(facts["reference"])


def refused_by_rpc(answer: RawAnswer) -> tuple[str, dict[str, Any]]:
    return answer.error["message"], answer.error["data"]


def test_errors_of_mcp_carry_code_sentence_and_reference(served: Served, alice: RawMcp) -> None:
    legacy = alice.as_version("2025-06-18")
    seen = {
        "parse_error": legacy.post(b"{", legacy.headers("x", {})),
        "invalid_request": legacy.post(b"{}", legacy.headers("x", {})),
        "method_not_found": legacy.request("no/such"),
        "invalid_params": legacy.request("tools/call", {"name": 5}),
        "unknown_tool": legacy.call("no_such"),
        "unknown_prompt": legacy.request("prompts/get", {"name": "no_such"}),
        "unknown_resource": legacy.request("resources/read", {"uri": "file:///etc/passwd"}),
        "invalid_cursor": legacy.request("tools/list", {"cursor": "x"}),
        "header_mismatch": alice.call("orders_list", headers={"Mcp-Name": "other"}),
        "unsupported_protocol_version": alice.as_version("2026-07-28").request(
            "tools/list",
            {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}},
            headers={"MCP-Protocol-Version": "2099-01-01"},
        ),
    }
    for code, answer in seen.items():
        sentence, data = refused_by_rpc(answer)
        check(code, data, sentence)


def test_a_missing_right_says_which_and_where_it_is_given(served: Served) -> None:
    answer = _agent(served, ALICE).call("orders_refund", {"order_id": "1042", "reason": "x"})

    sentence, data = refused_by_rpc(answer)
    check("insufficient_scope", data, sentence)
    assert (answer.status, data["rule"]) == (403, "scope")
    assert data["missingScopes"]
    assert data["grantUrl"].startswith(served.base_url)
    assert data["remedy"]


def test_refusals_of_tools_carry_code_sentence_and_reference(served: Served, alice: RawMcp) -> None:
    order = alice.call("orders_list", {"status": "paid"}).data["orders"][0]
    arguments = {"order_id": order["number"], "reason": "damaged"}
    token = alice.call("orders_refund", arguments).data["confirmToken"]
    viewer = _agent(served, VERA)
    seen = {
        "confirmation_missing": alice.call("orders_refund", {**arguments, "confirmation": "CONFIRM"}),
        "confirmation_phrase": alice.call("orders_refund", {**arguments, "confirmToken": token}),
        "confirmation_mismatch": alice.call("orders_refund", {**arguments, **proof_of("cs_ct_" + "x" * 43)}),
        "invalid_arguments": alice.call("orders_refund", {"order_id": 5}),
        "not_allowed": viewer.call("orders_refund", arguments),
    }
    for code, answer in seen.items():
        refusal = answer.data["refusal"]
        check(code, refusal, refusal["message"])
        assert answer.result["isError"] is True
    assert seen["not_allowed"].data["refusal"]["rule"] == "role"
    assert seen["confirmation_missing"].data["refusal"]["confirmVia"] == "action_confirm"


def test_a_refused_read_carries_them_in_its_second_text(alice: RawMcp) -> None:
    for arguments, tool, code in (
        ({"limit": 0}, "orders_list", "invalid_arguments"),
        ({"runId": "run_x"}, "traces_get", "unknown_run"),
    ):
        sentence, facts = (part["text"] for part in alice.call(tool, arguments).result["content"])
        check(code, json.loads(facts), sentence)


def test_addresses_for_programs_answer_json_with_code_sentence_and_reference(served: Served) -> None:
    client = RawOAuth(served.base_url)
    client.register()
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    url = served.base_url
    seen = {
        "unauthorized": send("POST", f"{url}/mcp", body=b"{}"),
        "invalid_token": send("POST", f"{url}/mcp", [("Authorization", "Bearer cs_at_x")], b"{}"),
        "not_found": send("GET", f"{url}/oauth/nothing"),
        "method_not_allowed": send("GET", f"{url}/oauth/token"),
        "invalid_request": send("POST", f"{url}/oauth/token", [("Content-Type", "application/json")], b"{}"),
        "unsupported_grant_type": client.post_form(
            "/oauth/token", {"grant_type": "password", "client_id": client.client_id}
        ),
        "invalid_client": RawOAuth(url, "cl_unknown").refresh("x"),
        "invalid_grant": client.refresh("cs_rt_x"),
        "invalid_target": client.refresh("cs_rt_x", resource="https://elsewhere.example/mcp"),
        "invalid_redirect_uri": client.register(redirect_uris=["javascript:alert(1)"]),
        "invalid_client_metadata": client.register(token_endpoint_auth_method=5),
        "too_large": send("POST", f"{url}/oauth/token", form, b"x" * 1_000_001),
    }
    for code, answer in seen.items():
        body = answer.json
        check(code, {**body, "code": body["error"]}, body["error_description"])
    assert seen["too_large"].json["remedy"] == "Send less at a time."


def test_a_page_shows_the_code_and_the_reference(served: Served) -> None:
    browser = FormBrowser(served.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    text = browser.open("/runs/run_nothing").text

    assert "not_found" in text
    assert REFERENCE.search(text)


def test_a_command_says_its_code_before_the_colon(new_instance: Callable[[], Instance]) -> None:
    done = new_instance().run("operator", "disable", "nobody@example.test", check=False)

    code, _, sentence = done.stderr.removeprefix("countersign: ").partition(": ")
    assert (code, done.returncode) == ("not_found", 1)
    assert sentence.strip().endswith(".")
