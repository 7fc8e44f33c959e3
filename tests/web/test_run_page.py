"""A run's page: what to do about an unknown one, what was not confirmed by a person, and messages that never left."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from flows.caller import Role
from flows.catalogue.tables import Order
from flows.effects import calls, writes
from flows.models import outbox
from flows.operation import Params, Result, flow
from flows.world import World
from policy.models import confirmation
from tests.support.html import Page
from tests.web.house import PASSWORD, REFUND, House, Reader, path_of


def refund(house: House, reader: Reader) -> str:
    """Take one refund through question, approval and run; give the run's id."""
    agent = house.agent(reader, REFUND)
    waiting = house.call(agent, "orders.refund", order_id=1042, reason="broken")
    reader.press(reader.open(path_of(waiting)), "Approve", password=PASSWORD)
    done = house.spend(agent, waiting, "orders.refund", order_id=1042, reason="broken")
    assert done.run_id is not None
    return done.run_id


def change(house: House, table: Any, where: Any, **values: Any) -> None:
    with house.parts.database.write() as connection:
        connection.execute(update(table).where(where).values(**values))


def fail_message(house: House, run_id: str) -> str:
    change(house, outbox, outbox.c.run_id == run_id, status="failed", attempts=8, problem="OSError", ended_at=1)
    (message,) = house.parts.outbox.of_run(run_id)
    return message.id


def messages(house: House, run_id: str) -> list[str]:
    return [one.status for one in house.parts.outbox.of_run(run_id)]


def has_left_again(house: House, run_id: str) -> bool:
    return messages(house, run_id) in (["waiting"], ["sent"])  # the outbox thread may have been quick


def csrf_of(page: Page) -> str:
    return next(node.attrs["value"] for node in page.all("input") if node.attrs.get("name") == "csrf")


def send_again(reader: Reader, page: Page, run_id: str, message_id: str, csrf: str | None = None) -> int:
    token = csrf if csrf is not None else csrf_of(page)
    return int(reader.post(f"/runs/{run_id}/messages/{message_id}", [("csrf", token)]).status_code)


def test_a_message_that_failed_says_so_and_is_sent_again_by_a_button(house: House, alice: Reader) -> None:
    run_id = refund(house, alice)
    fail_message(house, run_id)

    page = alice.open(f"/runs/{run_id}")
    assert "It could not be delivered in 8 tries (OSError)." in page.text
    after = alice.press(page, "Send again")

    assert after.url == f"/runs/{run_id}"
    assert has_left_again(house, run_id)
    assert "Send again" not in after.text


def test_only_its_own_person_or_an_administrator_sends_a_message_again(house: House, alice: Reader) -> None:
    run_id = refund(house, alice)
    message_id = fail_message(house, run_id)
    bob, rita = house.reader("bob@example.test"), house.reader("rita@example.test", Role.REVIEWER)
    ada = house.reader("ada@example.test", Role.ADMIN)

    assert send_again(bob, bob.open("/connections"), run_id, message_id) == 404
    seen = rita.open(f"/runs/{run_id}")
    assert "Send again" not in seen.text
    assert send_again(rita, seen, run_id, message_id) == 403
    assert messages(house, run_id) == ["failed"]

    assert send_again(ada, ada.open(f"/runs/{run_id}"), run_id, message_id) == 303
    assert has_left_again(house, run_id)


def test_sending_again_takes_a_form_of_this_session_and_a_failed_message_of_this_run(
    house: House, alice: Reader
) -> None:
    run_id = refund(house, alice)
    page = alice.open(f"/runs/{run_id}")
    (message,) = house.parts.outbox.of_run(run_id)
    assert send_again(alice, page, run_id, message.id) == 409, "it is on its way"

    fail_message(house, run_id)
    assert send_again(alice, page, run_id, message.id, csrf="") == 403
    assert send_again(alice, page, run_id, "msg_" + "0" * 32) == 409
    assert send_again(alice, page, "run_" + "0" * 32, message.id) == 404
    for run, message_id in (("%00", message.id), (run_id, "%00")):  # PostgreSQL takes no NUL
        assert send_again(alice, page, run, message_id) == 404
    assert messages(house, run_id) == ["failed"]


def test_what_no_person_confirmed_says_so(house: House, alice: Reader) -> None:
    run_id = refund(house, alice)
    assert "Not confirmed by a person" not in alice.open(f"/runs/{run_id}").text

    change(house, confirmation, confirmation.c.run_id == run_id, decided_by=None)

    assert "Not confirmed by a person" in alice.open(f"/runs/{run_id}").text


@pytest.fixture
def alice(house: House) -> Reader:
    return house.reader()


class Nothing(Params):
    """No arguments."""


class Paid(Result):
    """It is paid."""


@flow(
    id="orders.pay_out",
    title="Pay out",
    effects=[writes("orders", Order), calls("payments", reconcile="Look for the key at the bank.")],
    asks="Pay out",
)
def pay_out(_params: Nothing, world: World) -> Paid:
    """Pay, where nobody answers."""

    def nobody(_key: str) -> None:
        raise TimeoutError

    world.call("payments", nobody)
    return Paid()


@pytest.fixture
def paying_house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """The application with a flow that calls somebody who doesn't answer."""
    made = House(database_url, tmp_path, catalogue=[pay_out])
    yield made
    made.close()


def test_an_unknown_run_says_what_to_do(paying_house: House) -> None:
    alice = paying_house.reader()
    agent = paying_house.agent(alice, "mcp:action:invoke")
    waiting = paying_house.call(agent, "orders.pay_out")
    alice.press(alice.open(path_of(waiting)), "Approve", password=PASSWORD)
    ended = paying_house.spend(agent, waiting, "orders.pay_out")

    assert ended.status == "unknown"
    page = alice.open(f"/runs/{ended.run_id}")
    assert f"Look at payments: key {ended.run_id}-1, not known whether it took place." in page.text
    assert "Look for the key at the bank." in page.text
    told = paying_house.call(agent, "traces.get", runId=ended.run_id).result
    assert told is not None
    assert told["reconcile"].startswith("Look at payments")
    effects = paying_house.call(agent, "effects.get", flowId="orders.pay_out").result
    assert effects is not None
    assert {"verb": "call", "target": "payments"} in effects["declared"]
    assert [(one["verb"], one["target"]) for one in effects["seen"]] == [("call", "payments")]
