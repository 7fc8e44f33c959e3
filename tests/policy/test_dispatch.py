"""The one door: reads run, writes wait for a person and then run once, everything is on record."""

import threading
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select, update

from flows.arguments import InvalidArguments
from flows.caller import Role
from flows.confine import unconfined
from flows.envelope import Envelope, Status
from flows.models import run
from flows.operation import Rule
from flows.registry import Registry, UnknownFlow
from policy.dispatch import Call
from policy.models import audit, confirmation
from policy.refusals import SENTENCE
from tests.policy.house import (
    CANARY,
    FLOWS,
    SHOP,
    AlreadyRefunded,
    House,
    agent,
    open_house,
    orders_refund,
    person_named,
)

pytestmark = pytest.mark.db
BOT = agent(client="bot")


def events(house: House) -> list[tuple[str, str | None]]:
    """Give (event, code) of every call on record, sorted: with the clock stopped they have no order in time."""
    house.door  # noqa: B018 - makes the writer
    house.writer.flush(5)
    rows = house.rows(select(audit.c.event, audit.c.code).where(audit.c.event.like("call.%")))
    return sorted((row["event"], row["code"]) for row in rows)


def code(envelope: Envelope) -> str | None:
    return envelope.refusal.code if envelope.refusal else None


def test_a_read_runs_at_once_and_is_on_record(house):
    answer = house.call("orders.list")

    assert (answer.status, answer.result) == (Status.DONE, {"orders": ["1042"]})
    house.writer.flush(5)
    [found] = house.rows(select(audit))
    assert (found["event"], found["flow_id"], found["run_id"]) == ("call.done", "orders.list", answer.run_id)


def test_a_write_runs_once_after_its_person_approved(house):
    asked = house.call(tool="orders_refund")
    token = {"confirm_token": asked.waiting.confirm_token, "confirmation": "CONFIRM"}
    early = house.call(**token)
    house.approve(asked.waiting.confirmation_id)

    done, again = house.call(**token), house.call(**token)

    assert asked.status is Status.CONFIRMATION_REQUIRED
    assert asked.waiting.summary == 'Refund 45.00 EUR of order "1042"'
    assert (early.status, early.waiting) == (Status.CONFIRMATION_PENDING, asked.waiting)
    assert (done.status, done.result, done.unconfirmed) == (Status.DONE, {"refund": "1042"}, False)
    assert (again.status, code(again)) == (Status.REFUSED, "confirmation_spent")
    assert (again.run_id, again.refusal.run_id, again.refusal.outcome) == (done.run_id, done.run_id, Status.DONE)
    assert SHOP.refunds == ["1042"]
    assert events(house) == [
        ("call.done", None),
        ("call.refused", "confirmation_spent"),
        ("call.waiting", "confirmation_pending"),
        ("call.waiting", "confirmation_required"),
    ]


def test_a_bare_retry_after_the_approval_runs_nothing(house):
    house.confirmed()

    answer = house.call()

    assert answer.status is Status.CONFIRMATION_APPROVED
    assert SHOP.refunds == []


def test_asking_before_the_call_is_the_same_question_and_never_runs(house):
    asked = house.call(ask_only=True, reason="a broken lid")
    bare = house.call()
    house.approve(asked.waiting.confirmation_id)
    token = {"confirm_token": asked.waiting.confirm_token, "confirmation": "CONFIRM"}
    still = house.call(ask_only=True, **token)
    done = house.call(**token)

    assert asked.status is Status.CONFIRMATION_REQUIRED
    assert bare.waiting.confirmation_id == asked.waiting.confirmation_id
    assert still.status is Status.CONFIRMATION_APPROVED
    assert done.status is Status.DONE


def test_a_read_needs_no_confirmation_and_asking_for_one_runs_nothing(house):
    answer = house.call("orders.list", ask_only=True)

    assert code(answer) == "confirmation_not_needed"
    assert events(house) == [("call.refused", "confirmation_not_needed")]


def test_a_token_alone_runs_exactly_the_confirmed_call(house):
    token = house.confirmed(args={"order_id": "7", "amount": 3})["confirm_token"]

    wrong = house.invoke_held(agent(), token, "yes")
    foreign = house.invoke_held(agent("bob"), token, "CONFIRM")
    done = house.invoke_held(agent(), token, "CONFIRM")
    again = house.invoke_held(agent(), token, "CONFIRM")

    assert [code(answer) for answer in (wrong, foreign, done, again)] == [
        "confirmation_phrase", "confirmation_mismatch", None, "confirmation_spent",
    ]  # fmt: skip
    assert SHOP.refunds == ["7"]


def test_a_token_alone_is_bound_to_the_scopes_of_its_tool(house):
    token = house.confirmed()["confirm_token"]
    narrowed = agent(scopes=frozenset({"mcp:action:invoke"}))

    assert code(house.invoke_held(narrowed, token, "CONFIRM")) == "insufficient_scope"
    assert code(house.door.ask_status(narrowed, house.call().waiting.confirmation_id)) == "insufficient_scope"
    assert SHOP.refunds == []


def test_rights_are_looked_at_again_when_the_token_is_spent(house):
    token = house.confirmed()

    lost_scope = house.call(principal=agent(scopes=frozenset({"mcp:flows:read"})), **token)
    lost_role = house.call(principal=agent(role=Role.VIEWER), **token)

    assert [code(lost_scope), code(lost_role)] == ["insufficient_scope", "not_allowed"]
    assert SHOP.refunds == []


def test_a_flow_that_changed_doesnt_run_under_an_old_approval(house):
    token = house.confirmed()
    house.registry = Registry((replace(orders_refund, version=2), *FLOWS[1:]))
    house.confirmations = house.confirmations_of(house.registry, house.settings)
    del house.door

    assert code(house.call(**token)) == "confirmation_mismatch"
    assert code(house.invoke_held(agent(), token["confirm_token"], "CONFIRM")) == "confirmation_expired"
    assert SHOP.refunds == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"confirm_token": None}, "confirmation_missing"),
        ({"confirmation": None}, "confirmation_phrase"),
        ({"confirmation": "confirm"}, "confirmation_phrase"),
        ({"confirm_token": "cs_ct_x"}, "confirmation_mismatch"),
        ({"args": {"order_id": "1043"}}, "confirmation_mismatch"),
        ({"principal": agent(grant="gr_2")}, "confirmation_mismatch"),
    ],
)
def test_token_phrase_arguments_and_principal_must_all_match(house, changes, expected):
    answer = house.call(**(house.confirmed() | changes))

    assert (answer.status, code(answer)) == (Status.REFUSED, expected)
    assert SENTENCE in answer.refusal.message
    assert SHOP.refunds == []


def test_what_cant_be_done_is_refused_before_a_person_is_bothered(house):
    house.door  # noqa: B018 - resets the shop
    SHOP.refunded.add("1042")

    answer = house.call()

    assert (code(answer), answer.refusal.message) == ("already_refunded", AlreadyRefunded.public)
    assert house.rows(select(confirmation)) == []


def test_a_denial_reaches_the_agent_with_its_note(house):
    house.deny(house.call().waiting.confirmation_id, "Ask the customer first.")

    answer = house.call()

    assert code(answer) == "confirmation_denied"
    assert "Ask the customer first." in answer.refusal.message


def test_a_failed_run_keeps_its_confirmation_spent_and_tells_why(house):
    token = house.confirmed()
    SHOP.fails = AlreadyRefunded()

    failed, again = house.call(**token), house.call(**token)

    assert (failed.status, code(failed)) == (Status.FAILED, "already_refunded")
    assert (code(again), again.refusal.outcome) == ("confirmation_spent", Status.FAILED)
    assert again.refusal.run_id == failed.run_id
    assert SHOP.refunds == ["1042"]


def test_a_repeated_wish_is_answered_without_a_token(house):
    token = house.confirmed()

    first = house.call(request_id="wish-1", **token)
    again, bare = house.call(request_id="wish-1", **token), house.call(request_id="wish-1")
    other = house.call(request_id="wish-1", args={"order_id": "2"})
    foreign = house.call(request_id="wish-1", principal=agent("bob"))

    assert first.status is Status.DONE
    assert not first.replayed
    for replay in (again, bare):
        assert (replay.status, replay.run_id, replay.result) == (Status.DONE, first.run_id, {"refund": "1042"})
        assert replay.replayed
    assert code(other) == "request_id_conflict"
    assert foreign.status is Status.CONFIRMATION_REQUIRED
    assert SHOP.refunds == ["1042"]


@pytest.mark.parametrize("request_id", ["", "x" * 129, "a\0b", "a\nb", "\ud800"])
def test_a_request_id_is_short_and_printable(house, request_id):
    with pytest.raises(InvalidArguments):
        house.call(request_id=request_id)


def test_an_unknown_flow_and_bad_arguments_are_said_and_recorded_without_what_was_sent(house):
    with pytest.raises(UnknownFlow):
        house.call("x" * 5000)
    with pytest.raises(InvalidArguments):
        house.call(args={"order_id": 7, "card": CANARY})

    assert events(house) == [("call.refused", "invalid_arguments"), ("call.refused", "unknown_flow")]
    assert CANARY not in repr(house.rows(select(audit)))


def test_who_may_not_call_a_flow_learns_nothing_of_its_arguments(house):
    answer = house.call(principal=agent(scopes=frozenset()), args={"nonsense": True})

    assert code(answer) == "insufficient_scope"


def test_a_surface_stops_a_held_call_once_it_knows_the_flow_and_nothing_is_spent(house):
    token = house.confirmed()["confirm_token"]
    stopped, seen = Envelope(Status.REFUSED), []

    answer = house.door.invoke_held(agent(), token, "CONFIRM", stop=lambda flow: seen.append(flow.id) or stopped)

    assert (answer, seen, SHOP.refunds) == (stopped, ["orders.refund"], [])
    assert house.invoke_held(agent(), token, "CONFIRM").status is Status.DONE


def test_asking_how_it_stands_follows_it_to_its_outcome(house):
    waiting = house.call().waiting
    token = {"confirm_token": waiting.confirm_token, "confirmation": "CONFIRM"}

    pending = house.door.ask_status(agent(), waiting.confirmation_id)
    house.approve(waiting.confirmation_id)
    approved = house.door.ask_status(agent(), waiting.confirmation_id)
    done = house.call(**token)
    told = house.door.ask_status(agent(), waiting.confirmation_id)
    foreign = house.door.ask_status(agent("bob"), waiting.confirmation_id)

    assert [pending.status, approved.status] == [Status.CONFIRMATION_PENDING, Status.CONFIRMATION_APPROVED]
    assert [pending.tool, approved.tool] == ["orders_refund", "orders_refund"]
    assert (told.status, told.run_id) == (Status.DONE, done.run_id)
    assert code(foreign) == "confirmation_mismatch"


def test_rule_client_goes_live_by_action_confirm_and_says_that_no_person_confirmed(house):
    asked = house.call("orders.tag", principal=BOT)
    token = {"confirm_token": asked.waiting.confirm_token, "confirmation": "CONFIRM"}
    early = house.call("orders.tag", principal=BOT, **token)
    live = house.door.ask_status(BOT, asked.waiting.confirmation_id)
    done = house.call("orders.tag", principal=BOT, **token)

    assert [asked.status, early.status] == [Status.CONFIRMATION_REQUIRED, Status.CONFIRMATION_PENDING]
    assert (live.status, live.unconfirmed) == (Status.CONFIRMATION_APPROVED, True)
    assert (done.status, done.unconfirmed) == (Status.DONE, True)
    [row] = house.rows(select(audit).where(audit.c.event == "call.done"))
    assert orjson.loads(row["detail"])["unconfirmed"] is True


def test_whoever_asks_later_is_told_as_well_that_no_person_confirmed(house):
    live = house.call("orders.tag", principal=BOT, ask_only=True).waiting
    token = {"confirm_token": live.confirm_token, "confirmation": "CONFIRM"}
    house.call("orders.tag", principal=BOT, request_id="tag-1", **token)

    replay = house.call("orders.tag", principal=BOT, request_id="tag-1")
    told = house.door.ask_status(BOT, live.confirmation_id)

    assert [(answer.status, answer.unconfirmed) for answer in (replay, told)] == [(Status.DONE, True)] * 2


def test_rule_client_is_for_listed_clients_only(house):
    asked = house.call("orders.tag", ask_only=True)
    house.door.ask_status(agent(), asked.waiting.confirmation_id)

    assert house.rows(select(confirmation.c.state, confirmation.c.rule)) == [{"state": "pending", "rule": "human"}]


def test_a_client_that_is_not_listed_any_more_needs_a_person(database_url):
    house = open_house(database_url)
    live = house.call("orders.tag", principal=BOT, ask_only=True)
    token = {"confirm_token": live.waiting.confirm_token, "confirmation": "CONFIRM"}
    house.close()
    stricter = open_house(database_url, unattended_clients=frozenset())

    assert live.status is Status.CONFIRMATION_APPROVED
    assert code(stricter.call("orders.tag", principal=BOT, **token)) == "confirmation_mismatch"
    assert stricter.call("orders.tag", principal=BOT, ask_only=True).status is Status.CONFIRMATION_REQUIRED
    stricter.close()


def test_a_person_who_approves_a_rule_client_call_has_confirmed_it(house):
    asked = house.call("orders.tag", principal=BOT)
    house.approve(asked.waiting.confirmation_id)

    done = house.call("orders.tag", principal=BOT, confirm_token=asked.waiting.confirm_token, confirmation="CONFIRM")

    assert (done.status, done.unconfirmed) == (Status.DONE, False)


def test_a_secret_and_a_token_stay_out_of_the_record(house):
    token = house.confirmed()
    house.call(**token)

    record = repr(house.rows(select(audit))) + repr(house.rows(select(run))) + repr(house.rows(select(confirmation)))

    assert CANARY not in record
    assert "cs_ct_" not in record
    assert token["confirm_token"] not in repr(Call("orders.refund", {"order_id": CANARY}, **token))


def test_a_run_whose_worker_is_gone_ends_on_record_and_leaves_its_approval(house):
    token = house.confirmed()
    house.call(**token)
    with house.database.write() as connection:  # as a kill between accept and work leaves it
        connection.execute(update(run).values(status="running", ended_at=None))
        connection.execute(update(audit).where(audit.c.event == "call.done").values(event="test.gone"))
    house.clock.move(minutes=1)

    assert house.door.end_overdue() == 1
    assert ("call.interrupted", "interrupted") in events(house)


def test_what_nobody_decided_is_ended_beside_the_runs(house):
    house.call()
    house.clock.move(minutes=15)

    assert house.door.end_overdue() == 1
    assert house.rows(select(confirmation.c.state, confirmation.c.arguments)) == [
        {"state": "expired", "arguments": None}
    ]


def spent_at_once(house: House, tokens: list[dict[str, Any]], principal: Any) -> list[Envelope]:
    barrier = threading.Barrier(len(tokens))
    answers: list[Any] = [None] * len(tokens)

    def spend(number: int) -> None:
        barrier.wait()
        answers[number] = house.call(principal=principal, **tokens[number])

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(len(tokens))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("names", [(None, None), ("a", "b"), ("a", "a")], ids=["one token", "two wishes", "one wish"])
def test_calls_at_the_same_moment_run_once(house, names):
    for number in range(15):
        principal = agent(grant=f"gr_{number}")
        waiting = house.call(principal=principal).waiting
        house.approve(waiting.confirmation_id)
        token = {"confirm_token": waiting.confirm_token, "confirmation": "CONFIRM"}
        wishes = [token | {"request_id": f"{name}{number}" if name else None} for name in names]

        answers = spent_at_once(house, wishes, principal)

        assert len(SHOP.refunds) == number + 1
        ran = [answer for answer in answers if answer.status is Status.DONE and not answer.replayed]
        assert len(ran) == 1
        [other] = [answer for answer in answers if answer is not ran[0]]
        assert other.run_id == ran[0].run_id
        assert other.status in (Status.RUNNING, Status.DONE) or code(other) == "confirmation_spent"
    assert house.rows(select(func.count().label("n")).where(run.c.status == "done")) == [{"n": 15}]


def test_a_second_call_during_the_run_is_told_that_it_runs(house):
    token = house.confirmed()
    answers = []

    def call_again() -> None:
        SHOP.during = lambda: None
        if not house.database.is_sqlite:  # there the run holds the only writer lock, which an audit event waits for
            other = threading.Thread(target=lambda: answers.append(house.call(**token)))
            with unconfined():
                other.start()
            other.join()

    SHOP.during = call_again
    done = house.call(**token)

    assert done.status is Status.DONE
    assert [(answer.status, answer.run_id) for answer in answers] == [(Status.RUNNING, done.run_id)] * len(answers)
    assert SHOP.refunds == ["1042"]


def test_the_rule_of_a_call_is_raised_for_flows_that_the_house_doesnt_trust_to_programs(house):
    asked = house.call(principal=BOT, ask_only=True)

    [row] = house.rows(select(confirmation))
    assert (asked.status, row["rule"]) == (Status.CONFIRMATION_REQUIRED, Rule.HUMAN)
    house.approve(asked.waiting.confirmation_id, by=person_named("alice"))


@pytest.mark.parametrize(
    ("tool", "stored"),
    [
        ("orders_refund", "orders_refund"),
        ("x" * 5000, "x" * 47 + "…"),
        ("a\x00\x1b[31m\u202eb\nc", "a[31mb c"),
        ("\ud800", ""),
    ],
)
def test_what_a_surface_refuses_is_on_record_without_the_callers_text(house, tool, stored):
    house.door.note_refused(agent(), tool, "unknown_tool")

    [found] = house.rows(select(audit))
    assert (found["event"], found["code"], found["operator_id"]) == ("call.refused", "unknown_tool", "op_alice")
    assert orjson.loads(found["detail"]) == {"tool": stored}


@pytest.mark.parametrize("ending", ["another sentence", "facts that fail"])
def test_what_was_approved_and_would_do_something_else_by_now_runs_nothing_and_is_asked_anew(house, ending):
    approved = house.confirmed(request_id="wish")
    if ending == "another sentence":
        SHOP.currency = "USD"
    else:
        SHOP.refunded.add("1042")

    answer = house.call(**approved, request_id="wish")

    assert (answer.status, code(answer), SHOP.refunds) == (Status.REFUSED, "confirmation_changed", [])
    assert SENTENCE in answer.refusal.message
    assert answer.refusal.confirm_via == "action_confirm"
    [ended] = house.rows(select(confirmation))
    assert (ended["state"], ended["open_key"], ended["arguments"], ended["used_at"]) == ("expired", None, None, None)
    assert [row["status"] for row in house.rows(select(run))] == ["refused"]
    assert ("call.refused", "confirmation_changed") in events(house)

    SHOP.refunded.clear()
    again = house.confirmed(request_id="wish")
    assert house.call(**again, request_id="wish").status is Status.DONE
    assert SHOP.refunds == ["1042"]


def test_a_question_that_says_what_is_not_so_any_more_is_replaced(house):
    first = house.call().waiting
    SHOP.currency = "USD"

    second = house.call().waiting

    assert (first.summary, second.summary) == (
        'Refund 45.00 EUR of order "1042"',
        'Refund 45.00 USD of order "1042"',
    )
    states = {row["id"]: row["state"] for row in house.rows(select(confirmation))}
    assert states == {first.confirmation_id: "expired", second.confirmation_id: "pending"}
    assert house.call().waiting.confirmation_id == second.confirmation_id
