"""Messages leave after commit, and a message that fails is tried again."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from flows.outbox import CLAIM, FIRST_RETRY, MOST_TRIES, Outbox, Sent
from tests.flows.house import House, Letters, SetClock, add, open_house
from tests.support.waiting import wait_until

pytestmark = pytest.mark.db


@pytest.fixture
def run_id(house: House) -> str:
    """A run that left one message."""
    return house.write(add).run_id or ""


def one(house: House, run_id: str) -> Sent:
    (sent,) = house.outbox.of_run(run_id)
    return sent


def test_a_message_is_delivered_once_under_its_own_id(house: House, run_id: str) -> None:
    assert (house.outbox.deliver_due(), house.outbox.deliver_due()) == (1, 0)

    (mail,) = house.letters.got
    assert (mail.to, mail.subject, mail.text) == ("ada@example.test", "Added", "1 more")
    assert mail.message_id.startswith("msg_")
    assert (one(house, run_id).status, one(house, run_id).ended_at) == ("sent", house.clock.now())


def test_a_failed_run_sends_nothing(house: House) -> None:
    house.write(add, {"by": 101})

    assert house.outbox.deliver_due() == 0
    assert house.letters.got == []


@pytest.mark.parametrize("refusal", [OSError("550 ada@example.test unknown"), ValueError("header")])
def test_a_message_that_fails_is_tried_again_later_and_given_up_in_the_end(
    house: House, clock: SetClock, run_id: str, refusal: Exception
) -> None:
    house.letters.refusal = refusal
    waited = FIRST_RETRY
    for tried in range(1, MOST_TRIES):
        assert house.outbox.deliver_due() == 0
        seen = one(house, run_id)
        assert (seen.status, seen.attempts, seen.due_at) == ("waiting", tried, clock.now() + waited)
        assert seen.problem == type(refusal).__name__  # the server's words may hold addresses
        clock.forward(seconds=waited.total_seconds() - 1)
        assert house.outbox.deliver_due() == 0
        assert one(house, run_id).attempts == tried
        clock.forward(seconds=1)
        waited *= 2
    assert house.outbox.deliver_due() == 0

    assert (one(house, run_id).status, one(house, run_id).attempts) == ("failed", MOST_TRIES)
    house.letters.refusal = None
    clock.forward(days=1)
    assert house.outbox.deliver_due() == 0


def test_what_somebody_claimed_and_never_finished_is_taken_up_after_the_claim(
    house: House, clock: SetClock, run_id: str
) -> None:
    house.letters.refusal = KeyboardInterrupt()  # as a kill in the middle of a delivery
    with pytest.raises(KeyboardInterrupt):
        house.outbox.deliver_due()
    house.letters.refusal = None

    assert house.outbox.deliver_due() == 0
    clock.forward(seconds=CLAIM.total_seconds())
    assert house.outbox.deliver_due() == 1
    assert one(house, run_id).attempts == 2


def test_two_processes_never_deliver_one_message_twice(house: House) -> None:
    for _ in range(30):
        house.write(add)
    letters = [Letters(), Letters()]
    boxes = [Outbox(house.database, house.ids, house.clock, each) for each in letters]

    def deliver(box: Outbox) -> None:
        while box.deliver_due():
            pass

    threads = [threading.Thread(target=deliver, args=(box,)) for box in boxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ids = [mail.message_id for each in letters for mail in each.got]
    assert (len(ids), len(set(ids))) == (30, 30)


@pytest.fixture
def live(database_url: str, tmp_path: Path) -> Iterator[House]:
    """A house by the real clock."""
    with open_house(database_url, tmp_path, SystemClock()) as made:
        yield made


def test_the_thread_delivers_does_its_chores_and_outlives_a_failing_one(
    live: House, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[int] = []

    def chore() -> None:
        rounds.append(1)
        raise RuntimeError("no")

    live.outbox.start(chore)
    live.outbox.start(chore)  # every request says so
    live.write(add)

    wait_until("the mail", lambda: live.letters.got)
    wait_until("another round", lambda: len(rounds) > 1)
    assert [thread.name for thread in threading.enumerate()].count("outbox") == 1
    assert "a round of the outbox thread failed" in caplog.text


def test_closing_delivers_what_is_due(live: House) -> None:
    live.write(add)
    live.outbox.start()
    live.write(add)

    live.outbox.close()

    assert len(live.letters.got) == 2


def test_only_a_message_that_failed_is_sent_again(house: House, clock: SetClock, run_id: str) -> None:
    house.letters.refusal = OSError("down")
    message = one(house, run_id)

    def again(of_run: str = run_id, message_id: str = message.id) -> bool:
        with house.database.write() as connection:
            return house.outbox.send_again(connection, of_run, message_id)

    assert not again(), "it is still being tried"
    for _ in range(MOST_TRIES):
        house.outbox.deliver_due()
        clock.forward(days=1)
    assert one(house, run_id).status == "failed"
    assert not again(of_run="run_other")
    assert not again(message_id="msg_other")

    house.letters.refusal = None
    assert again()
    assert (one(house, run_id).status, one(house, run_id).attempts) == ("waiting", 0)
    assert (house.outbox.deliver_due(), again()) == (1, False)
    assert house.letters.got[0].message_id == message.id, "the receiver recognises it"
