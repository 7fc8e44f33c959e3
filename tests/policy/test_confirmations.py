"""The life of a confirmation: asked, joined, decided, spent, ended (design D4)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from core.errors import Forbidden, NotFound
from core.settings import Lifetimes
from flows.caller import Role
from flows.envelope import Refusal, Status
from flows.models import run
from flows.operation import Params, Rule
from flows.registry import Registry
from policy.models import audit, confirm_token, confirmation
from policy.refusals import AlreadyDecided, ConfirmationExpired, ConfirmationSpent, NotYours
from policy.stored import State
from tests.policy.house import CANARY, FLOWS, House, agent, open_house, orders_refund, orders_tag, person_named

pytestmark = pytest.mark.db
ALICE = person_named("alice")


def run_row(house: House, run_id: str, status: str = "done") -> dict:
    row = dict.fromkeys(column.name for column in run.columns)
    row |= {"id": run_id, "flow_id": "orders.refund", "flow_version": 1, "kind": "write", "status": status}
    row |= {"surface": "mcp", "operator_id": "op_alice", "client_id": "claude", "grant_id": "gr_1"}
    return row | {"arguments": "{}", "started_at": 0}


def spend(house: House, asked, run_id: str = "run_1", status: str = "done") -> None:
    with house.database.work() as work:
        house.confirmations.spend(work.connection, asked, run_id)
        work.connection.execute(run.insert(), run_row(house, run_id, status))


def test_a_question_hands_out_an_inert_token_and_what_its_person_needs(house):
    asked = house.ask()

    waiting = asked.waiting
    assert asked.state is State.PENDING
    assert waiting.confirm_url == f"http://localhost:6535/confirmations/{waiting.confirmation_id}"
    assert waiting.confirm_token.startswith("cs_ct_")
    assert (waiting.expires_at - house.clock.now()).total_seconds() == 15 * 60
    assert house.present(waiting.confirm_token).state is State.PENDING


def test_the_same_call_joins_the_open_question_and_gets_a_token_of_its_own(house):
    first, second = house.ask(), house.ask(reason="another")

    assert first.waiting.confirmation_id == second.waiting.confirmation_id
    assert first.waiting.confirm_token != second.waiting.confirm_token
    assert second.waiting.summary == first.waiting.summary


def test_a_reason_given_later_is_shown_and_the_first_one_stays(house):
    asked = house.ask(reason=None)
    house.ask(reason="the customer sent a photo")
    house.ask(reason="something else")

    view = house.confirmations.view(asked.waiting.confirmation_id, ALICE)
    assert view.reason == "the customer sent a photo"


def test_spelled_out_defaults_and_key_order_make_no_other_call(house):
    first = house.ask(raw={"order_id": "1042"})
    second = house.ask(raw={"amount": 4500, "card": CANARY, "order_id": "1042"})

    assert first.waiting.confirmation_id == second.waiting.confirmation_id


@pytest.mark.parametrize(
    "other",
    [{"principal": agent(grant="gr_2")}, {"principal": agent(client="codex")}, {"principal": agent("bob")},
     {"raw": {"order_id": "1043"}}, {"rule": Rule.CLIENT}, {"flow": replace(orders_refund, version=2)}],
    ids=["grant", "client", "operator", "arguments", "rule", "version"],
)  # fmt: skip
def test_another_call_is_another_question(house, other):
    assert house.ask().waiting.confirmation_id != house.ask(**other).waiting.confirmation_id


def test_a_presented_token_comes_back_and_mints_nothing(house):
    token = house.ask().waiting.confirm_token

    again = house.present(token)

    assert again.waiting.confirm_token == token
    assert len(house.rows(select(confirm_token))) == 1


def test_five_tokens_live_and_the_first_ones_and_the_newest_stay(house):
    tokens = [house.ask().waiting.confirm_token for _ in range(9)]

    known = [token for token in tokens if not isinstance(house.present(token), Refusal)]

    assert known == [*tokens[:4], tokens[8]]


def test_approving_gives_ten_minutes_to_spend_it_once(house):
    asked = house.ask()
    house.clock.move(minutes=14)
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)

    spend(house, approved)

    assert approved.state is State.APPROVED
    assert (approved.waiting.expires_at - house.clock.now()).total_seconds() == 600
    spent = house.present(asked.waiting.confirm_token)
    assert (spent.code, spent.run_id, spent.outcome) == ("confirmation_spent", "run_1", Status.DONE)
    assert spent.message.startswith("run_1: done. Don't ask again.")


@pytest.mark.parametrize(("status", "advice"), [("failed", False), ("running", True), ("unknown", True)])
def test_a_spent_token_advises_by_what_became_of_its_run(house, status, advice):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    spend(house, house.present(asked.waiting.confirm_token), status=status)

    refusal = house.present(asked.waiting.confirm_token)

    assert refusal.outcome == status
    assert ("Don't ask again" in refusal.message) is advice


def test_a_bare_retry_after_the_approval_is_told_so_and_can_use_its_new_token(house):
    house.approve(house.ask().waiting.confirmation_id)

    again = house.ask()

    assert again.state is State.APPROVED
    assert house.present(again.waiting.confirm_token).state is State.APPROVED


def test_a_denied_call_is_refused_with_the_note_for_ten_minutes(house):
    asked = house.ask()
    house.deny(asked.waiting.confirmation_id, note="wrong order")

    by_token, bare = house.present(asked.waiting.confirm_token), house.ask()
    house.clock.move(minutes=10)
    later = house.ask()

    assert [by_token.code, bare.code] == ["confirmation_denied"] * 2
    assert "wrong order" in by_token.message
    assert "wrong order" in bare.message
    assert later.waiting.confirmation_id != asked.waiting.confirmation_id


def test_an_undecided_question_lapses_after_fifteen_minutes_and_can_be_asked_again(house):
    asked = house.ask()
    house.clock.move(minutes=15)

    refusal, again = house.present(asked.waiting.confirm_token), house.ask()

    assert refusal.code == "confirmation_expired"
    assert again.waiting.confirmation_id != asked.waiting.confirmation_id
    [row] = house.rows(select(confirmation).where(confirmation.c.id == asked.waiting.confirmation_id))
    assert (row["state"], row["open_key"], row["arguments"]) == ("expired", None, None)


def test_an_approval_lapses_after_ten_minutes(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)
    house.clock.move(minutes=10)

    assert house.present(asked.waiting.confirm_token).code == "confirmation_expired"
    with house.database.work() as work, pytest.raises(ConfirmationExpired):
        house.confirmations.spend(work.connection, approved, "run_1")


def test_asking_frees_a_lapsed_question_without_anybody_else(house):
    old = house.ask()
    house.clock.move(minutes=16)

    new = house.ask()

    assert new.waiting.confirmation_id != old.waiting.confirmation_id


def test_the_clocks_are_settings(database_url):
    lives = Lifetimes(confirmation_undecided=timedelta(minutes=2), confirmation_approved=timedelta(minutes=1))
    house = open_house(database_url, lifetimes=lives)
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)

    assert (asked.waiting.expires_at - house.clock.now()).total_seconds() == 120
    assert (approved.waiting.expires_at - house.clock.now()).total_seconds() == 60
    house.close()


def test_ten_questions_of_a_grant_may_be_open(house):
    for number in range(10):
        house.ask(raw={"order_id": str(number)})

    eleventh, known = house.ask(raw={"order_id": "10"}), house.ask(raw={"order_id": "3"})
    elsewhere = house.ask(principal=agent(grant="gr_2"))
    house.clock.move(minutes=15)
    later = house.ask(raw={"order_id": "10"})

    assert eleventh.code == "too_many_confirmations"
    assert [asked.state for asked in (known, elsewhere, later)] == [State.PENDING] * 3


def test_a_spent_one_frees_its_call_and_the_next_question_says_that_it_ran(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    spend(house, house.present(asked.waiting.confirm_token))
    ran_at = house.clock.now()
    house.clock.move(hours=23)

    again = house.ask(principal=agent(client="codex", grant="gr_9"))
    view = house.confirmations.view(again.waiting.confirmation_id, ALICE)
    house.clock.move(hours=1)
    day_later = house.confirmations.view(house.ask().waiting.confirmation_id, ALICE)

    assert (view.ran_before.run_id, view.ran_before.at) == ("run_1", ran_at)
    assert day_later.ran_before is None


def test_what_failed_did_not_run_before(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    spend(house, house.present(asked.waiting.confirm_token), status="failed")

    view = house.confirmations.view(house.ask().waiting.confirmation_id, ALICE)

    assert view.ran_before is None


def test_a_rolled_back_spend_is_written_again_with_the_failure_even_after_its_time(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)
    house.clock.move(minutes=11)

    with house.database.write() as connection:
        house.confirmations.respend(connection, approved, "run_2")
        house.confirmations.respend(connection, approved, "run_3")

    [row] = house.rows(select(confirmation))
    assert (row["state"], row["run_id"], row["arguments"], row["open_key"]) == ("spent", "run_2", None, None)


@pytest.mark.parametrize("end", ["deny", "spend", "expire"])
def test_an_ended_confirmation_keeps_no_arguments(house, end):
    asked = house.ask()
    confirmation_id = asked.waiting.confirmation_id
    if end == "deny":
        house.deny(confirmation_id)
    elif end == "spend":
        house.approve(confirmation_id)
        spend(house, house.present(asked.waiting.confirm_token))
    else:
        house.clock.move(minutes=15)
        assert house.confirmations.end_overdue() == 1

    [row] = house.rows(select(confirmation))
    assert (row["arguments"], row["open_key"]) == (None, None)
    assert house.confirmations.view(confirmation_id, ALICE).arguments is None


def test_a_person_sees_the_call_in_words_with_secrets_masked(house):
    asked = house.ask()

    view = house.confirmations.view(asked.waiting.confirmation_id, ALICE)
    [listed] = house.confirmations.waiting(ALICE)

    assert view.summary == "Refund 45.00 EUR of order 1042"
    assert view.reason == "a broken lid"
    assert view.flow is not None
    assert view.arguments == [("order id", "1042"), ("amount", "4500"), ("card", "***")]
    assert CANARY not in repr(view)
    assert listed.id == view.id


def test_only_what_is_undecided_and_in_time_waits_for_its_person(house):
    first, second = house.ask(), house.ask(raw={"order_id": "2"})
    house.ask(principal=agent("bob"), raw={"order_id": "3"})
    house.approve(second.waiting.confirmation_id)

    now = [view.id for view in house.confirmations.waiting(ALICE)]
    house.clock.move(minutes=15)

    assert now == [first.waiting.confirmation_id]
    assert house.confirmations.waiting(ALICE) == []


def test_a_second_decision_tells_how_it_stands_and_changes_nothing(house):
    confirmation_id = house.ask().waiting.confirmation_id
    house.approve(confirmation_id)

    for approve in (True, False):
        with pytest.raises(AlreadyDecided) as told:
            house.confirmations.decide(confirmation_id, ALICE, approve=approve, note=None, proof=house.proof())
        assert told.value.state == State.APPROVED

    assert house.confirmations.view(confirmation_id, ALICE).state is State.APPROVED


def test_deciding_after_the_time_is_refused(house):
    confirmation_id = house.ask().waiting.confirmation_id
    house.clock.move(minutes=15)

    with pytest.raises(ConfirmationExpired):
        house.approve(confirmation_id)


def test_a_viewer_decides_nothing(house):
    confirmation_id = house.ask().waiting.confirmation_id

    with pytest.raises(Forbidden):
        house.approve(confirmation_id, by=person_named("alice", Role.VIEWER))


@pytest.mark.parametrize("confirmation_id", ["cf_" + "0" * 32, "", "cf_\0", "x" * 500, "cf_\ud800"])
def test_an_unknown_confirmation_is_not_found(house, confirmation_id):
    with pytest.raises(NotFound):
        house.confirmations.view(confirmation_id, ALICE)
    assert house.confirmations.flow_of(agent(), confirmation_id).code == "confirmation_mismatch"


def test_a_flow_that_changed_ends_its_open_questions(house):
    asked = house.ask()
    changed = Registry((replace(orders_refund, version=2), *FLOWS[1:]))
    newer = house.confirmations_of(changed, house.settings)

    view = newer.view(asked.waiting.confirmation_id, ALICE)

    assert (view.state, view.flow, newer.waiting(ALICE)) == (State.EXPIRED, None, [])
    with pytest.raises(ConfirmationExpired):
        newer.decide(asked.waiting.confirmation_id, ALICE, approve=True, note=None, proof=house.proof())


def test_a_flow_that_changed_without_a_new_version_ends_them_too_and_breaks_no_page(house):
    class RenamedRefund(Params):
        order: str

    asked = house.ask()
    changed = Registry((replace(orders_refund, params=RenamedRefund, asks="Refund {order}"), *FLOWS[1:]))
    newer = house.confirmations_of(changed, house.settings)

    view = newer.view(asked.waiting.confirmation_id, ALICE)

    assert (view.state, view.arguments, newer.waiting(ALICE)) == (State.EXPIRED, None, [])
    assert view.summary == "Refund 45.00 EUR of order 1042"


def test_a_token_alone_gives_back_its_call_while_it_can_run(house):
    asked = house.ask(raw={"order_id": "7", "amount": 3})
    token = asked.waiting.confirm_token

    held = house.confirmations.call_of(agent(), token, "CONFIRM")
    house.deny(asked.waiting.confirmation_id)

    assert (held.flow_id, held.arguments) == ("orders.refund", {"order_id": "7", "amount": 3, "card": CANARY})
    assert house.confirmations.call_of(agent(), token, "CONFIRM").code == "confirmation_denied"


def test_asking_how_it_stands_mints_a_token_and_under_rule_human_approves_nothing(house):
    confirmation_id = house.ask().waiting.confirmation_id

    told = house.confirmations.status(agent(), confirmation_id, Rule.HUMAN)
    house.approve(confirmation_id)
    later = house.confirmations.status(agent(), confirmation_id, Rule.HUMAN)

    assert (told.state, later.state) == (State.PENDING, State.APPROVED)
    assert house.present(told.waiting.confirm_token).state is State.APPROVED


def test_under_rule_client_the_clients_own_question_makes_the_token_live(house):
    options = {"flow": orders_tag, "rule": Rule.CLIENT, "principal": agent(client="bot")}
    bare = house.ask(**options)
    confirmed = house.ask(**options, go_live=True)

    presented = house.present(bare.waiting.confirm_token, **options)

    assert (bare.state, bare.unconfirmed) == (State.PENDING, False)
    assert (confirmed.state, confirmed.unconfirmed) == (State.APPROVED, True)
    assert (presented.state, presented.unconfirmed) == (State.APPROVED, True)
    [row] = house.rows(select(confirmation))
    assert (row["decided_by"], row["rule"]) == (None, "client")
    [approved] = house.rows(select(audit).where(audit.c.event == "confirmation.approved"))
    assert (approved["surface"], approved["detail"]) == ("mcp", '{"unconfirmed":true}')


def test_every_decision_is_on_record_in_its_own_transaction(house):
    confirmation_id = house.ask().waiting.confirmation_id
    house.approve(confirmation_id)

    events = house.rows(select(audit).order_by(audit.c.event))

    assert [(row["event"], row["surface"]) for row in events] == [
        ("confirmation.approved", "console"),
        ("confirmation.opened", "mcp"),
    ]
    assert {row["confirmation_id"] for row in events} == {confirmation_id}
    assert all(row["operator_id"] == "op_alice" and row["grant_id"] == "gr_1" for row in events)


def test_spending_twice_in_turn_is_refused(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)
    spend(house, approved)

    with house.database.work() as work, pytest.raises(ConfirmationSpent):
        house.confirmations.spend(work.connection, approved, "run_2")


def test_another_persons_confirmation_tells_nothing(house):
    confirmation_id = house.ask().waiting.confirmation_id

    for person in (person_named("bob"), person_named("rita", Role.REVIEWER), person_named("root", Role.ADMIN)):
        with pytest.raises(NotYours) as refused:
            house.confirmations.view(confirmation_id, person)
        assert "1042" not in f"{refused.value.public}{refused.value.detail}"


def test_a_spend_checks_version_and_digest_again(house):
    asked = house.ask()
    house.approve(asked.waiting.confirmation_id)
    approved = house.present(asked.waiting.confirm_token)

    for wrong in (replace(approved, flow_version=2), replace(approved, digest="0" * 64)):
        with house.database.work() as work, pytest.raises(ConfirmationExpired):
            house.confirmations.spend(work.connection, wrong, "run_1")

    with house.database.write() as connection:
        connection.execute(update(confirmation).values(state=State.PENDING))
    with house.database.work() as work, pytest.raises(ConfirmationExpired):
        house.confirmations.spend(work.connection, approved, "run_1")
