"""An application of its own: what README.md and docs/flows.md show is installed, served and used as it stands.

The bakery (tests/own_application) is the guide's example; the README's shop is served from its working directory.
"""

import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from flows.faults import FaultRule
from tests.journeys.bakery import (
    BAKERY,
    COUNTERSIGN,
    GUIDE,
    PYTHON,
    README,
    Application,
    Payments,
    blocks_of,
    confirmed,
    write_blocks,
)
from tests.support.agent import connect
from tests.support.waiting import wait_until

SHELL = re.compile(r"^```sh\n(export COUNTERSIGN_DATABASE_URL.*?)^```$", re.M | re.S)
OURS_AND_NOTHING_ELSE = """
import sys
import app
from alembic import command
from core.db import db
from migrations import revisions
parts = app.build()
assert {name for name in db.metadata.tables if not name.startswith("cs_")} == set(), db.metadata.tables
assert [name for name in sys.modules if name.startswith("flows.catalogue.")] == []
with parts.database.write() as connection:
    config = revisions._config(connection)
    config.set_main_option("version_locations", str(revisions.FOLDER / "versions"))  # without the demo shop's
    command.check(config)
"""


@pytest.mark.db
def test_an_installed_application_with_its_own_database_refunds_through_the_official_client(
    bakery: Application, payments: Payments
) -> None:
    with (
        bakery.serving(*COUNTERSIGN, "serve") as browser,
        connect(f"{browser.base_url}/mcp", browser, tick=("orders:refund",)) as agent,
    ):
        tools = {tool.name for tool in agent.tools()}
        listed = agent.call("orders_open")["orders"]
        asked = agent.call("orders_refund", number=7, cents=2850)
        browser.approve(asked["confirmUrl"])
        proof = {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"}
        done = agent.call("orders_refund", number=7, cents=2850, **proof)
        again = agent.call("orders_refund", number=7, cents=2850, **proof)
        declined = confirmed(agent, browser, "orders_refund", number=8, cents=100)
        told = confirmed(agent, browser, "orders_ready", number=7)
        steps = agent.call("traces_get", runId=done["runId"])["steps"]
        outbox = bakery.folder / "instance" / "outbox"
        mail = wait_until("the mail", lambda: [text for path in outbox.glob("*.eml") if (text := path.read_text())])

    assert {"orders_open", "orders_refund", "orders_ready"} <= tools
    assert not {"orders_list", "stock_adjust"} & tools  # the demo shop's
    assert [order["cake"] for order in listed] == ["Sachertorte", "Linzer"]
    assert asked["summary"] == "Pay back 28.50 EUR for Sachertorte to bo@example.test"
    assert (done.status, done["result"]["outcome"]) == ("done", "paid_back")
    assert (again.status, again["runId"]) == ("refused", done["runId"])
    assert declined["result"]["outcome"] == "declined"
    assert told.status == "done"
    assert "Come and get your Sachertorte." in mail[0]
    assert [asked["payment"] for _, asked in payments.requests] == ["pay_1", "pay_poor"]
    assert payments.requests[0] == (f"{done['runId']}-1", {"payment": "pay_1", "cents": 2850})
    assert ("call", "payments") in {(step["verb"], step["target"]) for step in steps}
    check_database(bakery)


def check_database(bakery: Application) -> None:
    """Both migrations live in one database, each sees only its own tables, and the rows are as they should be."""
    engine = create_engine(bakery.settings["COUNTERSIGN_DATABASE_URL"])
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        orders = connection.execute(text("SELECT number, paid_back FROM bakery_order ORDER BY number")).all()
        refunds = connection.execute(text("SELECT order_number, cents, reference FROM bakery_refund")).all()
    engine.dispose()

    assert {name for name in tables if not name.startswith("cs_")} == {
        "alembic_version", "bakery_order", "bakery_refund",
    }  # fmt: skip
    assert "cs_alembic_version" in tables
    assert [tuple(row) for row in orders] == [(7, 2850), (8, 0)]
    assert [tuple(row) for row in refunds] == [(7, 2850, "ref_1")]
    assert "No new upgrade operations" in bakery.run(*PYTHON, "-m", "alembic", "check")
    bakery.run(*PYTHON, "-c", OURS_AND_NOTHING_ELSE)


def test_the_first_flow_of_the_readme_is_served_by_its_commands(tmp_path: Path) -> None:
    write_blocks(README, tmp_path)
    commands = SHELL.search(README.read_text())
    assert commands is not None
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE product (sku VARCHAR PRIMARY KEY, cents INTEGER NOT NULL)")
        database.execute("INSERT INTO product VALUES ('kettle', 4500)")
    database.close()
    script = commands[1].replace("countersign serve", "exec countersign serve")
    shop = Application(tmp_path, {})
    with (
        shop.serving("sh", "-ec", script) as browser,
        connect(f"{browser.base_url}/mcp", browser, tick=("mcp:action:invoke",)) as agent,
    ):
        done = confirmed(agent, browser, "products_price", sku="kettle", cents=4900)

    assert done["result"] == {"cents": 4900}
    assert (tmp_path / "serve.log").read_text().startswith("1 flows, no faults.")
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT cents FROM product").fetchall() == [(4900,)]
    database.close()


def test_the_tests_of_the_guide_pass_as_they_stand(installed: Path, tmp_path: Path) -> None:
    write_blocks(GUIDE, tmp_path)
    shutil.rmtree(tmp_path / "bakery")  # it is installed
    application = Application(tmp_path, {"PYTHONPATH": str(installed)})
    printed = application.run(*PYTHON, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "tests")

    assert re.search(r"^5 passed", printed, re.M), printed


def test_the_guide_shows_the_application_as_it_is() -> None:
    shown = blocks_of(GUIDE)

    assert {"bakery/tables.py", "bakery/orders.py", "bakery/payments.py", "bakery/flows.py"} <= set(shown)
    assert {name: (BAKERY / name).read_text() for name in shown} == shown


def test_the_guide_names_every_rule_once() -> None:
    section = GUIDE.read_text().split("\n## Faults\n")[1]

    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [rule.value for rule in FaultRule]


def test_the_first_flow_has_twenty_lines() -> None:
    lines = blocks_of(README)["shop/flows.py"].splitlines()[1:]

    assert len([line for line in lines if line.strip()]) <= 20
