"""Starts that can't work: one line that names what helps, an exit status, and no worker that is tried again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import guarded
from tests.support.server import REPO, clean_environment
from tests.support.waiting import free_port

GUNICORN = [sys.executable, "-m", "gunicorn", "app:create_app()"]
BASE_URL = "https://app.example.test"


def start(folder: Path, *, configured: bool = True, **settings: str) -> tuple[int, list[str]]:
    """Run plain gunicorn in `folder` until it ends; return its exit status and what it wrote."""
    if configured:
        (folder / "gunicorn.conf.py").write_text((REPO / "gunicorn.conf.py").read_text())
    given = {f"COUNTERSIGN_{name}": value for name, value in ({"PORT": str(free_port())} | settings).items()}
    environment = clean_environment() | given | {"PYTHONPATH": str(REPO)}
    done = subprocess.run(
        guarded(GUNICORN), cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def with_key(folder: Path) -> Path:
    (folder / "instance").mkdir(mode=0o700)
    key = folder / "instance" / "secret-key"
    key.touch(mode=0o600)
    key.write_text("0123456789abcdefghijklmnopqrstuvwxyz-ABCDEF\n")
    return folder


def refusals(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("countersign: ")]


def test_without_a_key_gunicorn_does_not_start(tmp_path):
    status, lines = start(tmp_path, BASE_URL=BASE_URL)

    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith("countersign: settings_invalid: ")
    assert "countersign secrets init" in lines[0]


def test_in_production_gunicorn_does_not_start_without_its_base_url(tmp_path):
    status, lines = start(with_key(tmp_path), ENV="production")

    assert status == 1
    assert len(lines) == 1
    assert "COUNTERSIGN_BASE_URL is missing" in lines[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "wrong_revision: The database is at another revision than this program. Run `countersign db upgrade`"),
        ({"DATABASE_URL": "postgresql://127.0.0.1:1/nobody"}, "database_unavailable: The database can't be used"),
        ({"FLOWS": "nobody.flows"}, "flow_faults: 1 fault in the flows."),
    ],
)
def test_what_a_worker_meets_at_its_start_ends_the_server_with_one_line(tmp_path, settings, words):
    status, lines = start(with_key(tmp_path), BASE_URL=BASE_URL, **settings)

    assert status == 4
    assert len(refusals(lines)) == 1
    assert words in refusals(lines)[0]
    assert "Traceback" not in "".join(lines)
    assert sum("Booting worker" in line for line in lines) <= 2


def test_a_gunicorn_without_our_configuration_is_told_how_to_get_it(tmp_path):
    status, lines = start(with_key(tmp_path), configured=False, BASE_URL=BASE_URL)

    assert status == 4
    assert refusals(lines)[0].startswith("countersign: server_unconfigured: ")
    assert "Traceback" not in "".join(lines)
