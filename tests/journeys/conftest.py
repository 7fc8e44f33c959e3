"""The deployed bakery, for the journeys through an application of its own."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.journeys.bakery import BAKERY, GUIDE, PYTHON, Application, Payments, blocks_of, write_blocks


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
