"""One confirm token over HTTP: one call, once, for its principal, with its arguments, after a person said yes."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.browser import FormBrowser
from tests.support.oauth import mcp_for
from tests.support.raw_mcp import RawAnswer, RawMcp, send
from tests.support.server import ALICE, BOB, ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db
ROUNDS = 100
SKU = "FILTER-100"
WRITES = ("orders:refund", "stock:adjust")
SENTENCE = "write tool requires fresh human confirmation"


@pytest.fixture(scope="module")
def alice(server: ServerProcess) -> tuple[RawMcp, FormBrowser]:
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    return mcp_for(browser, tick=WRITES), browser


def ask(agent: RawMcp, reason: str, change: int = 1) -> dict[str, Any]:
    asked = agent.call("stock_adjust", {"sku": SKU, "change": change, "reason": reason}).data
    assert asked["status"] == "confirmation_required", asked
    return dict(asked)


def spend(agent: RawMcp, token: str, reason: str, change: int = 1) -> RawAnswer:
    arguments = {"sku": SKU, "change": change, "reason": reason, "confirmToken": token, "confirmation": "CONFIRM"}
    return agent.call("stock_adjust", arguments)


def refused_with(answer: RawAnswer) -> str:
    assert answer.data["status"] == "refused", answer.data
    assert answer.result["isError"] is True
    assert SENTENCE in answer.data["refusal"]["message"]
    assert answer.data["refusal"]["confirmVia"] == "action_confirm"
    return str(answer.data["refusal"]["code"])


def stock_of(agent: RawMcp, browser: FormBrowser, reason: str) -> int:
    """Read the stock by the only flow that tells it: a confirmed change by nothing."""
    asked = ask(agent, reason, change=0)
    browser.approve(asked["confirmUrl"])
    return int(spend(agent, asked["confirmToken"], reason, change=0).data["result"]["stock"])


def test_two_parallel_calls_with_one_token_run_once(alice: tuple[RawMcp, FormBrowser], server: ServerProcess) -> None:
    agent, browser = alice
    before = stock_of(agent, browser, "before the race")
    barrier = threading.Barrier(2)

    def race(token: str, reason: str) -> dict[str, Any]:
        barrier.wait(30)
        return dict(spend(agent, token, reason).data)

    outcomes = []
    with ThreadPoolExecutor(2) as threads:
        for number in range(ROUNDS):
            asked = ask(agent, f"race {number}")
            browser.approve(asked["confirmUrl"])
            tries = [threads.submit(race, asked["confirmToken"], f"race {number}") for _ in range(2)]
            outcomes.append([one.result(60) for one in tries])

    for pair in outcomes:
        won = [one for one in pair if one["status"] == "done"]
        lost = [one for one in pair if one["status"] != "done"]
        assert len(won) == len(lost) == 1, pair
        assert lost[0]["status"] == "running" or lost[0]["refusal"]["code"] == "confirmation_spent"
        assert lost[0]["runId"] == won[0]["runId"]
    assert stock_of(agent, browser, "after the race") == before + ROUNDS
    assert len(server.worker_pids()) == 2


def test_a_token_runs_nothing_too_early_with_other_arguments_or_twice(alice: tuple[RawMcp, FormBrowser]) -> None:
    agent, browser = alice
    asked = ask(agent, "one call")
    token = asked["confirmToken"]

    assert spend(agent, token, "one call").data["status"] == "confirmation_pending"
    browser.approve(asked["confirmUrl"])
    assert refused_with(spend(agent, token, "another reason")) == "confirmation_mismatch"
    assert refused_with(spend(agent, token, "one call", change=2)) == "confirmation_mismatch"
    assert refused_with(spend(agent, "cs_ct_" + "x" * 43, "one call")) == "confirmation_mismatch"
    arguments = {"sku": SKU, "change": 1, "reason": "one call"}
    assert refused_with(agent.call("stock_adjust", arguments | {"confirmToken": token})) == "confirmation_phrase"
    assert refused_with(agent.call("stock_adjust", arguments | {"confirmation": "CONFIRM"})) == "confirmation_missing"
    lower = arguments | {"confirmToken": token, "confirmation": "confirm"}
    assert refused_with(agent.call("stock_adjust", lower)) == "confirmation_phrase"
    assert agent.call("stock_adjust", arguments).data["status"] == "confirmation_approved"

    done = spend(agent, token, "one call").data
    again = spend(agent, token, "one call")

    assert done["status"] == "done"
    assert refused_with(again) == "confirmation_spent"
    assert again.data["runId"] == done["runId"]
    text = again.result["content"][0]["text"]
    assert done["runId"] in text
    assert "don't ask again" in text.lower()


def test_key_order_and_spelled_out_defaults_are_the_same_call(alice: tuple[RawMcp, FormBrowser]) -> None:
    agent, browser = alice
    order = agent.call("orders_list", {"status": "shipped", "limit": 1}).data["orders"][0]
    plain = {"order_id": order["number"], "reason": "same call"}
    asked = agent.call("orders_refund", plain).data
    browser.approve(asked["confirmUrl"])
    spelled = {"confirmation": "CONFIRM", "reason": "same call", "amount": None, "order_id": order["number"]}

    assert agent.call("orders_refund", spelled | {"confirmToken": asked["confirmToken"]}).data["status"] == "done"


def test_another_principals_token_is_unknown(alice: tuple[RawMcp, FormBrowser], server: ServerProcess) -> None:
    agent, browser = alice
    asked = ask(agent, "mine alone")
    browser.approve(asked["confirmUrl"])
    other_grant = mcp_for(browser, tick=WRITES)
    bobs = FormBrowser(server.base_url)
    bobs.sign_in(BOB.email, BOB.password)

    for foreign in (other_grant, mcp_for(bobs, tick=WRITES)):
        assert refused_with(spend(foreign, asked["confirmToken"], "mine alone")) == "confirmation_mismatch"
        held = foreign.call("action_invoke", {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"})
        assert refused_with(held) == "confirmation_mismatch"
        status = foreign.call("action_confirm", {"confirmationId": asked["confirmationId"]})
        assert refused_with(status) == "confirmation_mismatch"
    assert spend(agent, asked["confirmToken"], "mine alone").data["status"] == "done"


@pytest.mark.parametrize("path", ["", "/status", "/approve", "/decision"])
def test_no_bearer_token_reads_or_decides_a_confirmation(alice: tuple[RawMcp, FormBrowser], path: str) -> None:
    agent, _ = alice
    asked = ask(agent, f"bearer {path}")
    headers = [("Authorization", f"Bearer {agent.token}"), ("Content-Type", "application/x-www-form-urlencoded")]

    for method in ("GET", "POST", "PUT"):
        body = b"decision=approve&password=" + ALICE.password.encode() if method != "GET" else None
        answer = send(method, asked["confirmUrl"] + path, headers, body)
        assert answer.status in (302, 303, 400, 401, 403, 404, 405), (method, path)
        assert "CUP-BLUE" not in answer.raw.decode(errors="replace")
    assert spend(agent, asked["confirmToken"], f"bearer {path}").data["status"] == "confirmation_pending"


def test_a_session_cookie_opens_nothing_at_mcp(alice: tuple[RawMcp, FormBrowser], server: ServerProcess) -> None:
    _, browser = alice
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies)
    assert cookies
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    for more in ([], [("Authorization", f"Bearer {cookies.split('=', 1)[1]}")]):
        answer = send("POST", server.mcp_url, [("Cookie", cookies), ("Content-Type", "application/json"), *more], body)

        assert answer.status == 401
        assert "result" not in answer.json


def test_an_expired_confirmation_runs_nothing(server_factory: Callable[..., ServerProcess]) -> None:
    server = server_factory(COUNTERSIGN_CONFIRMATION_APPROVED_SECONDS="1")
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    agent = mcp_for(browser, tick=WRITES)
    asked = ask(agent, "late")
    browser.approve(asked["confirmUrl"])

    def is_over() -> bool:
        status = agent.call("action_confirm", {"confirmationId": asked["confirmationId"]})
        return bool(status.data["status"] == "refused")

    wait_until("the end of its time", is_over)

    assert refused_with(spend(agent, asked["confirmToken"], "late")) == "confirmation_expired"
    assert ask(agent, "late")["confirmationId"] != asked["confirmationId"]
