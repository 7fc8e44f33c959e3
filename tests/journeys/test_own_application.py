"""An application of its own: what README.md and docs/flows.md show is installed, served and used as it stands.

The bakery (tests/own_application) is the guide's example; the README's shop is served from its working directory.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from flows.faults import FaultRule
from tests.support.agent import Agent, connect
from tests.support.browser import FormBrowser
from tests.support.process import guarded, stop
from tests.support.raw_mcp import send
from tests.support.server import CHEAPEST_ARGON2, CLI, REPO, clean_environment
from tests.support.waiting import free_port, wait_until

BAKERY = REPO / "tests" / "own_application"
GUIDE, README = REPO / "docs" / "flows.md", REPO / "README.md"
NAMED = re.compile(r"^```python\n(# ([\w/]+\.py)\n.*?)^```$", re.M | re.S)
SHELL = re.compile(r"^```sh\n(export COUNTERSIGN_DATABASE_URL.*?)^```$", re.M | re.S)
PYTHON = [sys.executable, "-P"]  # like a console script: the working directory is not on the path by itself
COUNTERSIGN = [*PYTHON, *CLI[1:]]
ADMIN, PASSWORD = "admin@localhost", "a password of the admin"
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


def blocks_of(document: Path) -> dict[str, str]:
    """Return the files that a document shows, by name."""
    return {match[2]: match[1] for match in NAMED.finditer(document.read_text())}


def write_blocks(document: Path, folder: Path) -> None:
    """Write the files that a document shows into a folder."""
    for name, block in blocks_of(document).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block)
        if path.parent.name not in ("migrations", "tests"):
            (path.parent / "__init__.py").touch()


@dataclass
class Application:
    """A folder in which commands are run, and their environment."""

    folder: Path
    settings: dict[str, str]
    port: int = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment."""
        own = {
            "COUNTERSIGN_PORT": str(self.port),
            "COUNTERSIGN_ARGON2": CHEAPEST_ARGON2,
            "COUNTERSIGN_ADMIN_PASSWORD": PASSWORD,
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return clean_environment() | own | {"PATH": path, "PYTHONUNBUFFERED": "1"} | self.settings

    def run(self, *command: str) -> str:
        """Run a command to its end and return what it printed; fail with it otherwise."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def serving(self, *command: str) -> Iterator[FormBrowser]:
        """Run a command that serves; give a browser in which the administrator has signed in and replaced nothing."""
        log = self.folder / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                guarded(list(command)), cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
        try:
            wait_until("the application", lambda: process.poll() is not None or self._is_ready(), seconds=60)
            assert process.poll() is None, log.read_text()
            browser = FormBrowser(f"http://localhost:{self.port}")
            browser.sign_in(ADMIN, PASSWORD)
            yield browser
        finally:
            stop(process)

    def _is_ready(self) -> bool:
        try:
            return send("GET", f"http://127.0.0.1:{self.port}/readyz", seconds=5).status == 200
        except OSError:
            return False


class Payments:
    """A payment service on loopback: pays back once a key, declines the payment `pay_poor`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        payments = self

        class Handler(BaseHTTPRequestHandler):
            """Takes refunds."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                payments.requests.append((self.headers["Idempotency-Key"], asked))
                body = json.dumps({"reference": f"ref_{len(payments.requests)}"}).encode()
                self.send_response(402 if asked["payment"] == "pay_poor" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def payments() -> Iterator[Payments]:
    """The payment service, while a test runs."""
    service = Payments()
    thread = threading.Thread(target=service.server.serve_forever, daemon=True)
    thread.start()
    yield service
    service.server.shutdown()
    service.server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bakery of the guide, installed: the folder to look for it in."""
    source, target = tmp_path_factory.mktemp("bakery") / "source", tmp_path_factory.mktemp("installed")
    shutil.copytree(BAKERY, source)
    write_blocks(GUIDE, source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def bakery(installed: Path, new_database_url: Callable[[Path], str], tmp_path: Path, payments: Payments) -> Application:
    """A deployment of the installed bakery: a folder with its migrations, and a database with its tables and ours."""
    folder = tmp_path / "deployed"
    shutil.copytree(BAKERY / "migrations", folder / "migrations")
    shutil.copy(BAKERY / "alembic.ini", folder)
    (folder / "migrations" / "env.py").write_text(blocks_of(GUIDE)["migrations/env.py"])
    settings = {
        "COUNTERSIGN_FLOWS": "bakery.flows",
        "COUNTERSIGN_DATABASE_URL": new_database_url(folder),
        "COUNTERSIGN_INSTANCE": str(folder / "instance"),
        "PAYMENTS_URL": f"http://127.0.0.1:{payments.server.server_port}",
        "PYTHONPATH": str(installed),
    }
    application = Application(folder, settings)
    application.run(*PYTHON, "-m", "alembic", "upgrade", "head")
    engine = create_engine(settings["COUNTERSIGN_DATABASE_URL"])
    order = text("INSERT INTO bakery_order VALUES (:number, 'bo@example.test', :cake, 2850, 0, :payment, :no)")
    with engine.begin() as connection:
        connection.execute(order, {"number": 7, "cake": "Sachertorte", "payment": "pay_1", "no": False})
        connection.execute(order, {"number": 8, "cake": "Linzer", "payment": "pay_poor", "no": False})
    engine.dispose()
    return application


def confirmed(agent: Agent, browser: FormBrowser, tool: str, **arguments: Any) -> Any:
    """Ask, let the person approve, call again."""
    asked = agent.call(tool, arguments)
    assert asked.status == "confirmation_required", asked
    browser.approve(asked["confirmUrl"])
    return agent.call(tool, arguments | {"confirmToken": asked["confirmToken"], "confirmation": "CONFIRM"})


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
        mail = wait_until("the mail", lambda: [path.read_text() for path in outbox.glob("*.eml")])

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
