"""Attacks on confirmations: nobody but the right person decides, and nothing is paid for twice (design D4)."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from core.db import is_serialization_failure
from core.errors import AppError, ProofFailed
from flows.caller import Role
from flows.envelope import Refusal
from flows.operation import Rule
from policy.approval import ProofKind
from policy.models import confirm_token, confirmation
from policy.refusals import SENTENCE, AlreadyDecided, NotYours
from policy.stored import State
from tests.policy.house import agent, open_house, orders_tag, person_named

pytestmark = pytest.mark.db
ALICE = person_named("alice")
FOREIGN = {
    "operator": agent("bob"),
    "client": agent(client="codex"),
    "grant": agent(grant="gr_2"),
}


def at_once(count: int, do: Callable[[int], Any]) -> list[Any]:
    """Do it `count` times at the same moment, each in a thread of its own; an AppError is a result."""
    barrier, results = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = do(number)
        except AppError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def approved(house):
    """A confirmation that alice has approved."""
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    return asked


@pytest.mark.parametrize("who", FOREIGN)
@pytest.mark.parametrize("end", ["pending", "approved", "denied", "spent", "expired"])
def test_to_any_other_principal_every_token_is_unknown(house, who, end):
    asked = house.ask()
    confirmation_id = asked.waiting.confirmation_id
    if end in ("approved", "spent"):
        house.approve(confirmation_id)
    if end == "denied":
        house.deny(confirmation_id, "alice's words")
    if end == "spent":
        with house.database.work() as work:
            house.confirmations.spend(work.connection, house.present(asked.waiting.confirm_token), "run_1")
    if end == "expired":
        house.clock.move(hours=1)
    token, foreign = asked.waiting.confirm_token, FOREIGN[who]

    answers = [
        house.present(token, principal=foreign),
        house.confirmations.call_of(foreign, token, "CONFIRM"),
        house.confirmations.status(foreign, confirmation_id, Rule.HUMAN),
        house.confirmations.flow_of(foreign, confirmation_id),
        house.present("cs_ct_made-up", principal=foreign),
    ]

    assert {(answer.code, answer.message) for answer in answers} == {
        ("confirmation_mismatch", f"{SENTENCE}: this is not a confirmation of this call with these arguments.")
    }


@pytest.mark.parametrize(
    "phrase", [None, "", "confirm", "CONFIRM ", " CONFIRM", "CONFIRMED", "CONFIRM\n", "\uff23ONFIRM"]
)
def test_only_the_exact_phrase_opens(house, approved, phrase):
    token = approved.waiting.confirm_token

    assert house.present(token, phrase).code == "confirmation_phrase"
    assert house.confirmations.call_of(agent(), token, phrase).code == "confirmation_phrase"


def test_the_phrase_without_a_token_opens_nothing(house, approved):
    assert house.present(None, "CONFIRM").code == "confirmation_missing"


@pytest.mark.parametrize(
    "raw", [{"order_id": "1043"}, {"order_id": "1042", "amount": 4501}, {"order_id": "1042", "card": "other"}]
)
def test_an_approved_token_is_for_the_confirmed_arguments_only(house, approved, raw):
    assert house.present(approved.waiting.confirm_token, raw=raw).code == "confirmation_mismatch"


def test_an_approved_token_is_for_the_confirmed_flow_only(house, approved):
    assert house.present(approved.waiting.confirm_token, flow=orders_tag).code == "confirmation_mismatch"


@pytest.mark.parametrize("token", ["", "cs_ct_", "x" * 100_000, "cs_ct_\0", "' OR 1=1 --", "cf_", "\ud800"])
def test_junk_for_a_token_is_unknown(house, approved, token):
    assert house.present(token).code == "confirmation_mismatch"


def test_a_digest_from_the_database_is_no_token(house, approved):
    [row] = house.rows(select(confirm_token))

    assert house.present(row["digest"]).code == "confirmation_mismatch"


def test_no_token_is_stored(house, approved):
    stored = repr(house.rows(select(confirm_token))) + repr(house.rows(select(confirmation)))

    assert "cs_ct_" not in stored


def test_every_refusal_says_what_is_needed_and_where(house, approved):
    token = approved.waiting.confirm_token
    refused = [house.present(None), house.present(token, "no"), house.present("cs_ct_x")]
    house.clock.move(hours=1)
    refused.append(house.present(token))
    other = house.ask(raw={"order_id": "9"})
    house.deny(other.waiting.confirmation_id)
    refused.append(house.ask(raw={"order_id": "9"}))

    for refusal in refused:
        assert SENTENCE in refusal.message
        assert refusal.confirm_via == "action_confirm"
    assert [refusal.code.removeprefix("confirmation_") for refusal in refused] == [
        "missing", "phrase", "mismatch", "expired", "denied",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "proof",
    [
        lambda house: None,
        lambda house: house.proof("op_bob"),
        lambda house: house.proof(at=house.clock.now() - timedelta(minutes=11)),
        lambda house: house.proof(at=house.clock.now() + timedelta(seconds=1)),
        lambda house: house.proof(kind=ProofKind.FRESH_SIGN_IN),
    ],
    ids=["none", "another's", "old", "from the future", "a cookie on plain http"],
)
def test_nothing_is_approved_without_a_fresh_proof_of_this_person(house, proof):
    confirmation_id = house.ask().waiting.confirmation_id

    with pytest.raises(ProofFailed):
        house.confirmations.decide(confirmation_id, ALICE, approve=True, note=None, proof=proof(house))

    assert house.confirmations.view(confirmation_id, ALICE).state is State.PENDING


def test_a_fresh_sign_in_is_proof_on_https(database_url):
    house = open_house(database_url, base_url="https://shop.example.test")
    confirmation_id = house.ask().waiting.confirmation_id
    proof = house.proof(kind=ProofKind.FRESH_SIGN_IN)

    house.confirmations.decide(confirmation_id, ALICE, approve=True, note=None, proof=proof)

    assert house.confirmations.view(confirmation_id, ALICE).state is State.APPROVED
    house.close()


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("approve", [True, False])
def test_nobody_decides_for_another(house, role, approve):
    confirmation_id = house.ask().waiting.confirmation_id
    bob = person_named("bob", role)

    with pytest.raises(NotYours):
        house.confirmations.decide(confirmation_id, bob, approve=approve, note=None, proof=house.proof("op_bob"))

    assert house.confirmations.view(confirmation_id, ALICE).state is State.PENDING


def test_under_rule_human_no_way_of_asking_approves(house):
    bot = agent(client="bot")
    asked = house.ask(principal=bot, go_live=True)
    house.confirmations.status(bot, asked.waiting.confirmation_id, Rule.HUMAN)
    house.confirmations.status(bot, asked.waiting.confirmation_id, Rule.CLIENT)

    assert asked.state is State.PENDING
    assert house.present(asked.waiting.confirm_token, principal=bot).state is State.PENDING


def test_what_a_client_approved_is_worth_nothing_when_the_rule_is_raised(house):
    bot = agent(client="bot")
    live = house.ask(principal=bot, flow=orders_tag, rule=Rule.CLIENT, go_live=True)

    raised = house.present(live.waiting.confirm_token, principal=bot, flow=orders_tag, rule=Rule.HUMAN)
    anew = house.ask(principal=bot, flow=orders_tag, rule=Rule.HUMAN, go_live=True)

    assert raised.code == "confirmation_mismatch"
    assert anew.state is State.PENDING
    assert anew.waiting.confirmation_id != live.waiting.confirmation_id


def test_a_person_who_said_no_isnt_asked_again_under_another_client_rule(house):
    bot = agent(client="bot")
    asked = house.ask(principal=bot, flow=orders_tag, rule=Rule.CLIENT)
    house.deny(asked.waiting.confirmation_id, "no tags")

    live = house.ask(principal=bot, flow=orders_tag, rule=Rule.CLIENT, go_live=True)
    told = house.confirmations.status(bot, asked.waiting.confirmation_id, Rule.CLIENT)

    assert (live.code, told.code) == ("confirmation_denied", "confirmation_denied")


def test_a_note_and_a_reason_are_capped_and_hold_nothing_that_breaks_a_database(house):
    asked = house.ask(reason="\0\ud800" + "r" * 5000)
    house.deny(asked.waiting.confirmation_id, "\0\ud800" + "n" * 5000)

    view = house.confirmations.view(asked.waiting.confirmation_id, ALICE)

    assert (view.reason, view.note) == ("r" * 1000, "n" * 500)


def test_asking_at_the_same_moment_opens_one_question(house):
    for number in range(10):
        asked = at_once(4, lambda _, n=number: house.ask(principal=agent(grant=f"gr_{n}")))

        assert len({one.waiting.confirmation_id for one in asked}) == 1
        assert len({one.waiting.confirm_token for one in asked}) == 4


def test_asking_at_the_same_moment_never_opens_an_eleventh(house):
    for number in range(8):
        house.ask(raw={"order_id": str(number)})

    answers = at_once(6, lambda number: house.ask(raw={"order_id": f"more {number}"}))

    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [refusal.code for refusal in refused] == ["too_many_confirmations"] * 4
    assert house.rows(select(func.count().label("open")).select_from(confirmation)) == [{"open": 10}]


def test_asking_at_the_same_moment_never_keeps_a_sixth_token(house):
    asked = house.ask()

    at_once(8, lambda _: house.confirmations.status(agent(), asked.waiting.confirmation_id, Rule.HUMAN))

    assert len(house.rows(select(confirm_token))) == 5


def test_spending_at_the_same_moment_pays_once(house):
    def spend(asked: Any, run_id: str) -> str:
        while True:
            try:
                with house.database.work() as work:
                    house.confirmations.spend(work.connection, asked, run_id)
                return run_id
            except DBAPIError as error:  # PostgreSQL asks for a re-run, which then finds it spent
                if not is_serialization_failure(error):
                    raise

    for number in range(20):
        asked = house.ask(principal=agent(grant=f"gr_{number}"))
        house.approve(asked.waiting.confirmation_id)
        live = replace(asked, state=State.APPROVED)

        paid = at_once(4, lambda rival, live=live, n=number: spend(live, f"run_{n}_{rival}"))

        winners = [result for result in paid if isinstance(result, str)]
        assert [error.code for error in paid if not isinstance(error, str)] == ["confirmation_spent"] * 3
        [row] = house.rows(select(confirmation).where(confirmation.c.id == asked.waiting.confirmation_id))
        assert [row["run_id"]] == winners


def test_approving_and_denying_at_the_same_moment_decides_once(house):
    for number in range(10):
        confirmation_id = house.ask(principal=agent(grant=f"gr_{number}")).waiting.confirmation_id

        def decide(rival: int, confirmation_id: str = confirmation_id) -> str:
            approve = rival % 2 == 0
            house.confirmations.decide(confirmation_id, ALICE, approve=approve, note=None, proof=house.proof())
            return "approved" if approve else "denied"

        results = at_once(4, decide)

        decided = [result for result in results if isinstance(result, str)]
        assert len(decided) == 1
        told = [result for result in results if isinstance(result, AlreadyDecided)]
        assert [error.state for error in told] == decided * 3
        assert house.confirmations.view(confirmation_id, ALICE).state == decided[0]
