"""SQLite has one writer lock: who can't have it in time is refused, and nothing ran."""

from sqlalchemy import event

from tests.policy.house import SHOP, agent


def test_a_busy_database_is_a_refusal_and_nothing_ran(house):
    token = house.confirmed()
    house.database.writing.dispose()
    event.listen(house.database.writing, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout=1"))

    with house.database.write():
        answers = [house.call(), house.call(**token), house.call(confirmation="CONFIRM")]
        answers.append(house.door.ask_status(agent(), "cf_" + "0" * 32))
        answers.append(house.invoke_held(agent(), token["confirm_token"], "CONFIRM"))

    assert [answer.refusal.code for answer in answers] == ["unavailable"] * 5
    assert SHOP.refunds == []
