"""The page on which a person decides: what it shows, what it takes, and what it refuses."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.caller import Role
from flows.envelope import Envelope, Status
from policy.principal import Principal
from tests.support.html import NotOnPage, Page
from tests.web.house import PASSWORD, REFUND, House, Reader, path_of

REFUND_CALL = {"order_id": 1042, "reason": "The lid was broken"}
NO_EFFECT = "Nothing was changed"


@pytest.fixture
def alice(house: House) -> Reader:
    return house.reader()


@pytest.fixture
def agent(house: House, alice: Reader) -> Principal:
    return house.agent(alice, REFUND, name="Helper", registered=True)


@pytest.fixture
def asked(house: House, agent: Principal) -> Envelope:
    return house.call(agent, "orders.refund", says="The customer wrote to us", **REFUND_CALL)


def state_of(house: House, agent: Principal, asked: Envelope) -> Status:
    """Tell how the call stands for its agent."""
    return house.spend(agent, asked, "orders.refund", **REFUND_CALL).status


def test_the_page_says_who_asks_what_happens_and_until_when(alice: Reader, asked: Envelope) -> None:
    page = alice.open(path_of(asked))

    assert asked.waiting is not None
    assert page.all("h1")[0].text() == f"{asked.waiting.summary}?"
    for words in (
        "Helper on your behalf",
        "Name not verified · its answers go to agent.example",
        "The agent’s own words (not checked) The customer wrote to us",
        "Changes orders",
        "Sends e-mail",
        "The lid was broken",
        "Waits for you · 15 min left",
        "Nothing has happened yet",
    ):
        assert words in page.text, page.text


def test_looking_changes_nothing(house: House, alice: Reader, agent: Principal, asked: Envelope) -> None:
    for path in (path_of(asked), f"{path_of(asked)}?decision=approve&password={PASSWORD}"):
        alice.open(path)
        alice.browser.head(path)

    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


def test_foreign_text_is_shown_as_text_and_nothing_of_it_is_hidden(
    house: House, alice: Reader, agent: Principal
) -> None:
    hostile = "<script>alert(1)</script> safe\u202etxt.exe\u200b " + "and so on. " * 40 + "THE END"
    asked = house.call(agent, "orders.refund", order_id=1042, reason=hostile[:500], amount=100)

    page = alice.open(path_of(asked))

    assert [node.attrs.get("src", "") for node in page.all("script")] == ["/static/times.js", "/static/decision.js"]
    assert "<script>alert(1)</script> safe" in page.text
    assert "\u202e" not in page.body
    assert "\u200b" not in page.body
    assert "202e" in page.text.lower()
    assert page.text.count("THE END") == 1
    assert page.all("pre")[0].attrs["tabindex"] == "0"


@pytest.mark.parametrize("password", [None, "", "wrong", PASSWORD.upper()])
def test_without_the_right_password_nothing_is_approved_and_the_note_is_kept(
    house: House, alice: Reader, agent: Principal, asked: Envelope, password: str | None
) -> None:
    page = alice.open(path_of(asked))
    proof = {} if password is None else {"password": password}

    answer = alice.press(page, "Approve", note="Only this once", **proof)

    assert answer.status == 403
    assert NO_EFFECT in answer.text
    assert answer.control("Your password").attrs["aria-invalid"] == "true"
    assert "value" not in answer.control("Your password").attrs
    assert answer.control("Note to the agent").text() == "Only this once"
    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


def test_the_fifth_wrong_password_ends_the_session_and_nothing_is_approved(
    house: House, alice: Reader, asked: Envelope
) -> None:
    page = alice.open(path_of(asked))
    answers = [alice.sent(page, "Approve", password=f"guess {number}") for number in range(6)]

    right = alice.sent(page, "Approve", password=PASSWORD)

    assert [answer.status_code for answer in answers] == [403] * 5 + [303]
    assert right.status_code == 303
    assert right.headers["Location"].startswith("/login")


def test_after_approve_the_page_says_that_it_isnt_done_yet_and_then_what_came_of_it(
    house: House, alice: Reader, agent: Principal, asked: Envelope
) -> None:
    approved = alice.press(alice.open(path_of(asked)), "Approve", password=PASSWORD)
    done = house.spend(agent, asked, "orders.refund", **REFUND_CALL)
    outcome = alice.open(path_of(asked))

    assert "Approved. Not done yet: it runs when Helper calls again, until 09:51 UTC" in approved.text
    assert approved.link("Refresh")
    with pytest.raises(NotOnPage):
        approved.button("Approve")
    assert done.status is Status.DONE
    assert "Done. It ran once" in outcome.text
    assert outcome.link("See the run").attrs["href"] == f"/runs/{done.run_id}"
    assert "The full arguments were erased" in outcome.text


def test_deny_takes_no_password_and_hands_on_the_note(
    house: House, alice: Reader, agent: Principal, asked: Envelope
) -> None:
    page = alice.press(alice.open(path_of(asked)), "Deny", note="Ask the warehouse\r\nfirst")

    assert "Denied at" in page.text
    assert "Ask the warehouse first" in page.text
    refusal = house.spend(agent, asked, "orders.refund", **REFUND_CALL).refusal
    assert refusal is not None
    assert refusal.code == "confirmation_denied"


@pytest.mark.parametrize(
    "decisions", [("Approve", "Deny", "decided before: approved"), ("Deny", "Approve", "before: denied")]
)
def test_a_second_tab_that_decides_otherwise_is_told_so_and_changes_nothing(
    house: House, alice: Reader, agent: Principal, asked: Envelope, decisions: tuple[str, str, str]
) -> None:
    first, second, says = decisions
    one, other = alice.open(path_of(asked)), alice.open(path_of(asked))
    alice.press(one, first, password=PASSWORD)
    before = alice.open(path_of(asked)).text

    answer = alice.press(other, second, password=PASSWORD)

    assert answer.status == 409
    assert says in answer.text
    assert "changed nothing" in answer.text
    assert alice.open(path_of(asked)).text == before


def test_a_double_click_is_no_fault(alice: Reader, asked: Envelope) -> None:
    page = alice.open(path_of(asked))
    alice.press(page, "Approve", password=PASSWORD)

    again = alice.press(page, "Approve", password=PASSWORD)

    assert again.status == 200
    assert "Approved. Not done yet" in again.text
    assert NO_EFFECT not in again.text


def test_too_late_decides_nothing(house: House, alice: Reader, asked: Envelope) -> None:
    page = alice.open(path_of(asked))
    house.clock.move(minutes=15)

    answer = alice.press(page, "Approve", password=PASSWORD)
    later = alice.open(path_of(asked))

    assert answer.status == 409
    assert "The time to decide was over" in answer.text
    assert "Nobody decided before" in later.text
    with pytest.raises(NotOnPage):
        later.button("Approve")


def test_an_approval_that_nobody_used_says_that_nothing_happened(house: House, alice: Reader, asked: Envelope) -> None:
    alice.press(alice.open(path_of(asked)), "Approve", password=PASSWORD)
    house.clock.move(minutes=10)

    assert "did not call again" in alice.open(path_of(asked)).text


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.REVIEWER, Role.ADMIN, Role.VIEWER])
def test_another_persons_and_no_ones_confirmation_are_the_same_page(
    house: House, asked: Envelope, alice: Reader, role: Role
) -> None:
    stranger = house.reader("bob@example.test", role)
    unknown = f"/confirmations/cf_{'0' * 32}"

    foreign, none = stranger.open(path_of(asked)), stranger.open(unknown)

    assert foreign.status == none.status == 403
    assert foreign.body == none.body
    assert "This is not yours" in foreign.text
    assert stranger.browser.get(f"{path_of(asked)}/status").status_code == 403
    assert stranger.browser.get(f"{path_of(asked)}/status").text == stranger.browser.get(f"{unknown}/status").text


def test_another_person_cannot_decide_with_their_own_password(
    house: House, alice: Reader, agent: Principal, asked: Envelope
) -> None:
    stranger = house.reader("bob@example.test", Role.ADMIN)
    token = next(n for n in stranger.open("/").all("input") if n.attrs.get("name") == "csrf").attrs["value"]

    for decision in ("approve", "deny"):
        fields = [("csrf", token), ("decision", decision), ("password", PASSWORD)]
        assert stranger.post(path_of(asked), fields).status_code == 403
    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


@pytest.mark.parametrize("csrf", [[], [""], ["guess"], ["own", "own"], ["of another session"]])
def test_a_form_of_no_session_decides_nothing(
    house: House, alice: Reader, agent: Principal, asked: Envelope, csrf: list[str]
) -> None:
    page = alice.open(path_of(asked))
    other = house.reader("bob@example.test")
    words = {"own": _csrf(page), "of another session": _csrf(other.open("/"))}

    for decision in ("approve", "deny"):
        fields = [("decision", decision), ("password", PASSWORD), *(("csrf", words.get(c, c)) for c in csrf)]
        assert alice.post(path_of(asked), fields).status_code == 403
    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


@pytest.mark.parametrize("decision", [[], [""], ["yes"], ["Approve"], ["approve", "deny"], ["approve", "approve"]])
def test_only_one_plain_decision_counts(
    house: House, alice: Reader, agent: Principal, asked: Envelope, decision: list[str]
) -> None:
    answer = alice.press(alice.open(path_of(asked)), "Approve", decision=decision, password=PASSWORD)

    assert answer.status == 400
    assert "Press Approve or Deny" in answer.text
    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


def test_a_note_that_is_too_long_is_refused_and_kept(
    house: House, alice: Reader, agent: Principal, asked: Envelope
) -> None:
    answer = alice.press(alice.open(path_of(asked)), "Deny", note="n" * 501)

    assert answer.status == 400
    assert answer.control("Note").text() == "n" * 501
    assert answer.link("The note is longer than 500 characters").attrs["href"] == "#note"
    assert state_of(house, agent, asked) is Status.CONFIRMATION_PENDING


def test_the_same_call_again_is_warned_of_above_approve(house: House, alice: Reader, agent: Principal) -> None:
    part: dict[str, Any] = {"order_id": 1042, "reason": "One cup of two", "amount": 100}
    asked = house.call(agent, "orders.refund", **part)
    alice.press(alice.open(path_of(asked)), "Approve", password=PASSWORD)
    done = house.spend(agent, asked, "orders.refund", **part)
    again = house.call(agent, "orders.refund", **part)

    page = alice.open(path_of(again))

    assert page.link("the same call").attrs["href"] == f"/runs/{done.run_id}"
    assert page.body.index("You already ran") < page.body.index(">Approve<")


def test_the_status_says_when_something_changed_and_no_more(alice: Reader, asked: Envelope) -> None:
    before = alice.browser.get(f"{path_of(asked)}/status")
    alice.press(alice.open(path_of(asked)), "Approve", password=PASSWORD)
    after = alice.browser.get(f"{path_of(asked)}/status")

    assert (orjson.loads(before.data)["stands"], orjson.loads(after.data)["stands"]) == ("pending", "approved")
    assert set(orjson.loads(before.data)) == {"stands", "expiresAt", "runId"}
    assert before.headers["Cache-Control"] == "no-store"


def test_who_isnt_signed_in_signs_in_and_comes_back(house: House, alice: Reader, asked: Envelope) -> None:
    stranger = Reader(house.app.test_client(), alice.email)

    login = stranger.open(path_of(asked))
    page = stranger.press(login, "Sign in", email=alice.email, password=PASSWORD)

    assert asked.waiting is not None
    assert asked.waiting.summary not in login.text
    assert f"{asked.waiting.summary}?" in page.text


def test_on_https_a_fresh_sign_in_is_proof_enough_and_an_old_one_is_not(database_url: str, tmp_path: Path) -> None:
    house = House(database_url, tmp_path, "https://console.example.test")
    try:
        alice = house.reader()
        agent = house.agent(alice, REFUND)
        fresh, old = (house.call(agent, "orders.refund", order_id=1042, reason=r, amount=100) for r in ("one", "two"))

        approved = alice.press(alice.open(path_of(fresh)), "Approve")
        house.clock.move(minutes=10, seconds=1)
        page = alice.open(path_of(old))
        refused = alice.press(page, "Approve")

        assert "Approved. Not done yet" in approved.text
        assert page.control("Your password")
        assert refused.status == 403
        assert "Nothing was changed" in refused.text
    finally:
        house.close()


def _csrf(page: Page) -> str:
    return next(node for node in page.all("input") if node.attrs.get("name") == "csrf").attrs["value"]
