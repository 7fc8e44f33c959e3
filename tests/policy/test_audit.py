"""Audit rows: whole, in the transaction they describe, without anything secret."""

import pytest
from sqlalchemy import select

from core.logs import reference
from policy.models import audit
from tests.policy.house import agent

pytestmark = pytest.mark.db


def test_a_row_names_its_caller_and_the_request(house):
    token = reference.set("ref_1")
    try:
        row = house.audit.row("call.done", caller=agent().caller, flow_id="orders.list", detail={"tool": "orders_list"})
    finally:
        reference.reset(token)
    with house.database.write() as connection:
        house.audit.write(connection, row)

    [found] = house.rows(select(audit))
    assert found["id"].startswith("au_")
    assert (found["event"], found["surface"], found["operator_id"], found["client_id"], found["grant_id"]) == (
        "call.done", "mcp", "op_alice", "claude", "gr_1",
    )  # fmt: skip
    assert (found["flow_id"], found["detail"], found["reference"]) == ("orders.list", '{"tool":"orders_list"}', "ref_1")


def test_every_row_has_every_column_so_that_they_can_be_written_in_groups(house):
    assert house.audit.row("sign_in.done").keys() == {column.name for column in audit.columns}


def test_a_row_goes_with_the_transaction_that_it_describes(house):
    def write_and_fail():
        with house.database.write() as connection:
            house.audit.write(connection, house.audit.row("call.done", caller=agent().caller))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()

    assert house.rows(select(audit)) == []


def test_a_field_that_is_no_column_is_a_mistake(house):
    with pytest.raises(TypeError):
        house.audit.row("call.done", token="x")
