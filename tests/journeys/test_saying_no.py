"""What a person refuses doesn't happen: denied, ended, somebody else's, or other than asked."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.journeys.shop import agent_of, ask_for_refund, proof_of, refundable_order, refunds_done
from tests.support.browser import FormBrowser
from tests.support.html import NotOnPage
from tests.support.oauth import RawOAuth
from tests.support.raw_mcp import LEGACY, MODERN, RawMcp
from tests.support.server import ADMIN, ALICE, BOB, RITA, Person, ServerProcess

pytestmark = pytest.mark.db
REFUSED = "write tool requires fresh human confirmation"


def test_a_person_who_cancels_the_consent_gives_nothing(server: ServerProcess) -> None:
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    client = RawOAuth(server.base_url)
    client.register(client_name="Cancelled agent")

    callback = browser.consent(client.authorize_url(), button="Cancel")

    answer = {name: values[0] for name, values in parse_qs(urlsplit(callback).query).items()}
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", client.state, server.base_url)
    assert "code" not in answer
    assert "Cancelled agent" not in browser.open("/connections").text


def test_a_denied_refund_tells_the_agent_why_and_never_runs(server: ServerProcess) -> None:
    with agent_of(ALICE, server) as (agent, browser):
        before = len(refunds_done(agent))
        refund = ask_for_refund(agent, refundable_order(agent, skip=1))
        browser.deny(refund["asked"]["confirmUrl"], note="Ask the warehouse first")

        late = agent.call("orders_refund", refund["confirmed"])
        asked_again = agent.call("orders_refund", refund["plain"])

        for answer in (late, asked_again):
            assert (answer.status, answer["refusal"]["code"]) == ("refused", "confirmation_denied")
            assert "Ask the warehouse first" in answer.text
        assert len(refunds_done(agent)) == before


def test_a_confirmation_fits_only_its_own_call(server: ServerProcess) -> None:
    with agent_of(ALICE, server) as (agent, browser):
        before = len(refunds_done(agent))
        refund = ask_for_refund(agent, refundable_order(agent, skip=2))
        browser.approve(refund["asked"]["confirmUrl"])
        token = refund["asked"]["confirmToken"]

        tries = {
            "confirmation_phrase": refund["plain"] | {"confirmToken": token, "confirmation": "confirm"},
            "confirmation_missing": refund["plain"] | {"confirmation": "CONFIRM"},
            "confirmation_mismatch": refund["confirmed"] | {"reason": "another reason"},
        }
        for code, arguments in tries.items():
            answer = agent.call("orders_refund", arguments)
            assert (answer.is_error, answer.status, answer["refusal"]["code"]) == (True, "refused", code)
            assert REFUSED in answer.text
        forged = agent.call("orders_refund", refund["plain"] | proof_of("cs_ct_" + "A" * 43))
        bare = agent.call("orders_refund", refund["plain"])

        assert forged["refusal"]["code"] == "confirmation_mismatch"
        assert bare.status == "confirmation_approved"
        assert len(refunds_done(agent)) == before
        assert agent.call("orders_refund", refund["confirmed"]).status == "done"


@pytest.mark.parametrize("other", [BOB, RITA, ADMIN], ids=lambda person: person.role)
def test_another_person_is_told_not_yours_and_nothing_else(server: ServerProcess, other: Person) -> None:
    with agent_of(ALICE, server) as (agent, _):
        refund = ask_for_refund(agent, refundable_order(agent, skip=3), reason=f"seen by {other.role}")
        stranger = FormBrowser(server.base_url)
        stranger.sign_in(other.email, other.password)

        page = stranger.open(refund["asked"]["confirmUrl"])

        assert page.status in (403, 404)
        assert "not yours" in page.text.lower()
        assert refund["asked"]["summary"] not in page.text
        assert ALICE.email not in page.text
        with pytest.raises(NotOnPage):
            stranger.submit("Approve")
        assert agent.call("orders_refund", refund["confirmed"]).status == "confirmation_pending"


def test_anothers_agent_cannot_spend_the_token(server: ServerProcess) -> None:
    with agent_of(ALICE, server) as (agent, browser), agent_of(BOB, server) as (other, _):
        refund = ask_for_refund(agent, refundable_order(agent, skip=4))
        browser.approve(refund["asked"]["confirmUrl"])

        stolen = other.call("orders_refund", refund["confirmed"])

        assert (stolen.status, stolen["refusal"]["code"]) == ("refused", "confirmation_mismatch")
        assert "runId" not in stolen.data
        assert agent.call("orders_refund", refund["confirmed"]).status == "done"


def test_ending_a_connection_ends_its_access_at_once(server: ServerProcess) -> None:
    with agent_of(ALICE, server, name="Agent to be ended") as (agent, browser):
        refund = ask_for_refund(agent, refundable_order(agent, skip=5))
        browser.approve(refund["asked"]["confirmUrl"])
        raw = RawMcp(server.mcp_url, agent.access_token)
        assert raw.call("orders_list").status == 200

        browser.open("/connections")
        browser.submit("End access of Agent to be ended")

        for version in (MODERN, LEGACY):
            answers = [raw.as_version(version).call("orders_list") for _ in range(8)]  # both workers
            assert {answer.status for answer in answers} == {401}
            assert 'error="invalid_token"' in answers[0].headers["www-authenticate"]
        assert raw.call("orders_refund", refund["confirmed"]).status == 401
