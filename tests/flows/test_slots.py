"""A flow's slots: as many as it declares, given back at its end, and free again when their worker is gone."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import insert

from core.clock import to_us
from flows import models
from flows.envelope import Status
from flows.slots import AllTaken
from tests.flows.house import House, add, get_counter

pytestmark = pytest.mark.db
once = replace(get_counter, id="counter.once", at_once=1)
add_once = replace(add, id="counter.add_once", at_once=1)


def take(house: House, flow_id: str) -> None:
    """Take a slot for half a minute, as another worker does."""
    until = to_us(house.clock.now() + timedelta(seconds=30))
    with house.database.write() as connection:
        connection.execute(insert(models.slot), {"run_id": "run_other", "flow_id": flow_id, "until": until})


def test_a_run_gives_its_slot_back_however_it_ends(house: House) -> None:
    done = [house.read(once).status for _ in range(2)]
    failed = [house.write(add_once, {"by": 101}).status for _ in range(2)]

    assert (done, failed) == ([Status.DONE] * 2, [Status.FAILED] * 2)
    assert house.count(models.slot) == 0


def test_without_a_slot_nothing_begins(house: House) -> None:
    confirmation_id = house.confirm()
    take(house, once.id)
    with pytest.raises(AllTaken):
        house.read(once)
    with house.database.write() as connection:
        connection.execute(models.slot.update().values(flow_id=add_once.id))
    with pytest.raises(AllTaken):
        house.write(add_once, {"by": 1}, confirmation_id=confirmation_id)

    assert house.count(models.run) == 0
    assert house.confirmation_state(confirmation_id) == "approved"
    assert house.count(models.slot) == 1


def test_the_slot_of_a_worker_that_is_gone_is_free_in_time(house: House) -> None:
    take(house, once.id)
    house.clock.forward(seconds=31)

    assert house.read(once).status is Status.DONE
    assert house.count(models.slot) == 0


def test_another_flow_has_slots_of_its_own_and_most_have_no_limit(house: House) -> None:
    take(house, add_once.id)

    assert house.read(once).status is Status.DONE
    assert house.read(get_counter).status is Status.DONE
