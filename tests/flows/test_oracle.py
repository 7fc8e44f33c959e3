"""Every flow of a catalogue touches exactly the tables that it declares, as the database itself says (design D5)."""

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest
from sqlalchemy import Table, insert

from core.db import Database, db
from flows.catalogue import tables as shop
from flows.catalogue.seed import load_shop
from flows.envelope import Status
from flows.loading import load_flows
from flows.operation import Flow
from tests.flows.house import House, caller
from tests.support.oracle import Catalogue, declared_by, neighbours, watching

pytestmark = pytest.mark.db


def open_shop(database: Database, _patch: pytest.MonkeyPatch) -> None:
    tables = [mapper.local_table for mapper in shop.Base.registry.mappers]
    db.metadata.create_all(database.writing, tables=[table for table in tables if isinstance(table, Table)])
    with database.write() as connection:
        load_shop(connection)


def open_bakery(database: Database, patch: pytest.MonkeyPatch) -> None:
    """One cake, and a payment service that pays back and declines by turns."""
    tables = importlib.import_module("bakery.tables")
    tables.Base.metadata.create_all(database.writing)
    order = {"number": 7, "email": "bo@example.test", "cake": "a cake", "paid": 2850, "payment": "pay_7"}
    with database.write() as connection:
        connection.execute(insert(tables.Order), order)
    answers = itertools.cycle(["back_1", None])
    patch.setattr("bakery.payments.pay_back", lambda *_: next(answers))


def name_bakery() -> None:
    """Let the package be imported by its name, without the other names of its folder."""
    spec = importlib.util.spec_from_file_location("bakery", BAKERY, submodule_search_locations=[str(BAKERY.parent)])
    assert spec is not None
    sys.modules.setdefault("bakery", importlib.util.module_from_spec(spec))


BAKERY = Path(__file__).parents[1] / "own_application" / "bakery" / "__init__.py"
name_bakery()
CATALOGUES = {
    "demo": Catalogue(
        modules=tuple(f"flows.catalogue.{name}" for name in ("orders", "customers", "stock", "reports")),
        prepare=open_shop,
        calls={
            "orders.list": [{}, {"status": "paid", "customer_id": 3, "cursor": "o1200"}],
            "orders.get": [{"order_id": 1042}],
            "orders.refund": [{"order_id": 1042, "reason": "damaged", "amount": 100}],
            "customers.search": [{"query": "ada"}],
            "stock.adjust": [{"sku": "CUP-BLUE", "change": -1, "reason": "lost"}],
            "reports.sales": [{"first_day": "2026-01-01", "last_day": "2026-12-31"}],
        },
    ),
    "bakery": Catalogue(
        modules=("bakery.flows",),
        prepare=open_bakery,
        calls={
            "orders.open": [{}],
            "orders.refund": [{"number": 7, "cents": 100}, {"number": 7, "cents": 100}],
            "orders.ready": [{"number": 7}],
        },
    ),
}
FLOWS = [(name, flow.id) for name, catalogue in CATALOGUES.items() for flow in load_flows(catalogue.modules).flows]


def flow_of(catalogue: Catalogue, flow_id: str) -> Flow:
    [found] = [flow for flow in load_flows(catalogue.modules).flows if flow.id == flow_id]
    return found


@pytest.fixture
def catalogue(request: pytest.FixtureRequest) -> Catalogue:
    """The catalogue that the test names."""
    return CATALOGUES[request.param]


@pytest.fixture
def filled(house: House, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> House:
    """The house with the catalogue's own tables."""
    catalogue.prepare(house.database, monkeypatch)
    return house


@pytest.mark.parametrize(("catalogue", "flow_id"), FLOWS, indirect=["catalogue"])
def test_a_flow_touches_exactly_what_it_declares(filled: House, catalogue: Catalogue, flow_id: str) -> None:
    flow = flow_of(catalogue, flow_id)

    with watching(filled.database) as touched:
        for arguments in catalogue.calls[flow_id]:
            ran = (filled.read if flow.only_reads else filled.write)(flow, dict(arguments))
            assert ran.status is Status.DONE, ran.message

    declared = declared_by(flow)
    assert (touched.writes, touched.deletes) == (declared.writes, declared.deletes)
    tied = neighbours(filled.database, touched.writes | touched.deletes) - declared.reads
    assert touched.only_read() - tied == declared.only_read()


@pytest.mark.parametrize(("catalogue", "flow_id"), FLOWS, indirect=["catalogue"])
def test_its_facts_touch_nothing_else(filled: House, catalogue: Catalogue, flow_id: str) -> None:
    flow = flow_of(catalogue, flow_id)

    with watching(filled.database) as touched:
        for arguments in catalogue.calls[flow_id]:
            filled.engine.facts(flow, filled.admit(flow, dict(arguments)).arguments, caller())

    assert touched.writes | touched.deletes == set()
    declared = declared_by(flow)
    assert touched.reads <= declared.reads | declared.writes | declared.deletes


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_flow_of_a_catalogue_is_called(name: str) -> None:
    assert set(CATALOGUES[name].calls) == {flow.id for flow in load_flows(CATALOGUES[name].modules).flows}
