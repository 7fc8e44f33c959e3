"""Ways of asking that must not become ways of approving, flooding or wearing a person down (design D4), over HTTP."""

from typing import Any

import pytest

from tests.support.browser import FormBrowser
from tests.support.oauth import mcp_for
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, ServerProcess

pytestmark = pytest.mark.db
SENTENCE = "write tool requires fresh human confirmation"
WRITES = ("orders:refund", "stock:adjust")


@pytest.fixture(scope="module")
def browser(server: ServerProcess) -> FormBrowser:
    made = FormBrowser(server.base_url)
    made.sign_in(ALICE.email, ALICE.password)
    return made


@pytest.fixture
def agent(browser: FormBrowser) -> RawMcp:
    """An agent with a grant of its own, so that nobody else's questions count against it."""
    return mcp_for(browser, tick=WRITES)


def adjust(reason: str, **more: Any) -> dict[str, Any]:
    return {"sku": "FILTER-100", "change": 1, "reason": reason, **more}


def code_of(data: dict[str, Any]) -> str:
    assert data["status"] == "refused", data
    assert SENTENCE in data["refusal"]["message"]
    assert data["refusal"]["confirmVia"] == "action_confirm"
    return str(data["refusal"]["code"])


def test_asking_however_often_and_by_whatever_tool_approves_nothing(agent: RawMcp) -> None:
    asked = agent.call("action_confirm", {"tool": "stock_adjust", "args": adjust("ask"), "reason": "please"}).data
    by_id = {"confirmationId": asked["confirmationId"]}
    answers = [agent.call("action_confirm", by_id).data for _ in range(3)]
    answers.append(agent.call("action_invoke", {"flowId": "stock.adjust", "args": adjust("ask")}).data)
    answers.append(agent.call("stock_adjust", adjust("ask")).data)
    token = {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"}
    early = [agent.call("action_invoke", token).data, agent.call("stock_adjust", adjust("ask", **token)).data]

    assert {answer["confirmationId"] for answer in answers} == {asked["confirmationId"]}
    assert [answer["status"] for answer in answers] == ["confirmation_pending"] * 3 + ["confirmation_required"] * 2
    assert [answer["status"] for answer in early] == ["confirmation_pending"] * 2
    assert [answer["confirmToken"] for answer in early] == [asked["confirmToken"]] * 2


@pytest.mark.parametrize("extra", [{"approve": True}, {"decision": "approve"}, {"password": ALICE.password}])
def test_no_argument_of_action_confirm_approves(agent: RawMcp, extra: dict[str, Any]) -> None:
    asked = agent.call("stock_adjust", adjust(f"extra {extra}")).data

    refused = agent.call("action_confirm", {"confirmationId": asked["confirmationId"], **extra}).data
    after = agent.call("action_confirm", {"confirmationId": asked["confirmationId"]}).data

    assert refused["refusal"]["code"] == "invalid_arguments"
    assert after["status"] == "confirmation_pending"


def test_a_token_alone_runs_the_confirmed_call_and_no_other(agent: RawMcp, browser: FormBrowser) -> None:
    asked = agent.call("stock_adjust", adjust("by token alone")).data
    browser.approve(asked["confirmUrl"])
    token = {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"}

    other = agent.call("action_invoke", token | {"flowId": "stock.adjust", "args": adjust("another")}).data
    done, again = agent.call("action_invoke", token).data, agent.call("action_invoke", token).data

    assert code_of(other) == "confirmation_mismatch"
    assert done["status"] == "done"
    assert code_of(again) == "confirmation_spent"
    assert (again["runId"], again["refusal"]["outcome"]) == (done["runId"], "done")


def test_a_no_holds_for_every_way_of_asking_again(agent: RawMcp, browser: FormBrowser) -> None:
    asked = agent.call("stock_adjust", adjust("no")).data
    browser.deny(asked["confirmUrl"], note="Count the shelf first.")
    token = {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"}

    answers = [
        agent.call("stock_adjust", adjust("no")).data,
        agent.call("stock_adjust", adjust("no", **token)).data,
        agent.call("action_invoke", token).data,
        agent.call("action_invoke", {"flowId": "stock.adjust", "args": adjust("no")}).data,
        agent.call("action_confirm", {"tool": "stock_adjust", "args": adjust("no"), "reason": "really"}).data,
        agent.call("action_confirm", {"confirmationId": asked["confirmationId"]}).data,
    ]

    assert [code_of(answer) for answer in answers] == ["confirmation_denied"] * 6
    assert all("Count the shelf first." in answer["refusal"]["message"] for answer in answers)


def test_an_agent_cannot_bury_its_person_in_questions(agent: RawMcp) -> None:
    statuses = [agent.call("stock_adjust", adjust(f"flood {number}")).data["status"] for number in range(10)]

    assert statuses == ["confirmation_required"] * 10
    assert code_of(agent.call("stock_adjust", adjust("one more")).data) == "too_many_confirmations"
    assert agent.call("stock_adjust", adjust("flood 3")).data["status"] == "confirmation_required"


def test_polling_never_costs_the_token_that_was_handed_out_first(agent: RawMcp, browser: FormBrowser) -> None:
    asked = agent.call("stock_adjust", adjust("patience")).data
    for _ in range(12):
        newest = agent.call("action_confirm", {"confirmationId": asked["confirmationId"]}).data
    browser.approve(asked["confirmUrl"])

    token = {"confirmation": "CONFIRM", "confirmToken": newest["confirmToken"]}
    looked = agent.call("action_invoke", {"confirmToken": newest["confirmToken"], "confirmation": "no"}).data
    done = agent.call("stock_adjust", adjust("patience", confirmation="CONFIRM", confirmToken=asked["confirmToken"]))
    spent = agent.call("stock_adjust", adjust("patience", **token)).data

    assert code_of(looked) == "confirmation_phrase"
    assert done.data["status"] == "done"
    assert code_of(spent) == "confirmation_spent"


def test_hidden_characters_in_arguments_dont_bend_the_sentence(agent: RawMcp, browser: FormBrowser) -> None:
    asked = agent.call("stock_adjust", adjust("\u202ebackwards\u2066 \u200b")).data

    browser.open_signed_in(asked["confirmUrl"])

    for hidden in "\u202e\u2066\u200b":
        assert hidden not in asked["summary"]
        assert hidden not in browser.page.text
