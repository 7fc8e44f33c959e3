"""The recipes in deploy/ that are not run here: what can be checked without systemd, Caddy or a container engine."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib

import pytest

import app
from cli.main import command_line
from core.settings import SECRET_FILE, load_settings
from tests.support.missing import skip_or_fail
from tests.support.server import REPO

DEPLOY = REPO / "deploy"
UNIT = DEPLOY / "countersign.service"
INSTALLED = "/srv/countersign/venv/bin/countersign"


def instructions() -> list[tuple[str, str]]:
    """Return the container file's instructions and their words, continued lines joined."""
    text = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def last(name: str) -> str:
    return [words for found, words in instructions() if found == name][-1]


def test_the_unit_is_one_that_systemd_takes(tmp_path):
    if shutil.which("systemd-analyze") is None:
        skip_or_fail("systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(INSTALLED, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_of_the_unit_and_the_container_exists():
    commands = [line.split(INSTALLED, 1)[1] for line in UNIT.read_text("utf-8").splitlines() if INSTALLED in line]
    commands.append(" ".join(json.loads(last("CMD"))))
    group = command_line(app.build)

    assert len(commands) == 3
    for words in map(shlex.split, commands):
        known = {option for one in group.commands[words[0]].params for option in one.opts}
        assert set(words[1:]) <= known


def test_the_unit_gives_the_server_longer_to_end_than_it_takes(tmp_path):
    seconds = int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text("utf-8"), re.MULTILINE)[1])
    settings = load_settings({"COUNTERSIGN_SECRET_KEYS": "k" * 43}, folder=tmp_path)

    assert seconds > settings.call_deadline.total_seconds() + 10


def test_the_container_runs_as_nobody_special_on_a_read_only_root():
    environment = dict(re.findall(r"(COUNTERSIGN_\w+)=(\S+)", last("ENV")))
    uid = last("USER")

    assert uid.isdigit()
    assert int(uid) > 0
    assert environment == {"COUNTERSIGN_BIND": "0.0.0.0", "COUNTERSIGN_INSTANCE": last("VOLUME")}
    assert json.loads(last("ENTRYPOINT")) == ["countersign"]
    assert "/readyz" in last("HEALTHCHECK")


def test_the_container_is_built_from_what_is_there_and_from_every_package():
    copied = [words.split()[:-1] for name, words in instructions() if name == "COPY" and "--from" not in words]
    sources = {source for words in copied for source in words}
    packages = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    admitted = (DEPLOY / "Containerfile.dockerignore").read_text().split()

    assert [source for source in sources if not (REPO / source).exists()] == []
    assert {name.rstrip("*") for name in packages} <= sources
    assert {f"!{source}" for source in sources} <= set(admitted)
    assert not {".env", "instance", SECRET_FILE} & sources


@pytest.mark.parametrize("name", ["nginx.conf", "nginx-subpath.conf", "Caddyfile", "Caddyfile-subpath"])
def test_each_proxy_goes_to_where_the_server_listens_by_default(name, tmp_path):
    settings = load_settings({"COUNTERSIGN_SECRET_KEYS": "k" * 43}, folder=tmp_path)

    assert f"127.0.0.1:{settings.port}" in (DEPLOY / name).read_text("utf-8")
