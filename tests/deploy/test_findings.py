"""What `serve --production` finds: each fault and each warning by itself, and nothing is made."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import app
from cli import serve
from cli.findings import Finding
from cli.machine import file_system
from cli.main import command_line
from cli.production import find_all
from core.settings import read_settings
from tests.support.server import Instance
from tests.support.waiting import free_port

URL = "https://app.example.test"


@pytest.fixture
def ready(new_instance: Callable[[], Instance]) -> Instance:
    """An instance that can be served: key, tables, people."""
    instance = new_instance()
    instance.folder.chmod(0o700)
    return instance


def found_in(instance: Instance, **settings: str) -> list[Finding]:
    """Look at the instance with these settings, as `serve --production` does before it binds."""
    base = {"ENV": "production", "BASE_URL": URL, "TRUSTED_PROXIES": "1", "SMTP_URL": "smtp://127.0.0.1"}
    base |= {"INSTANCE": str(instance.folder), "DATABASE_URL": instance.database_url, "WORKERS": "1"}
    given = {f"COUNTERSIGN_{name}": value for name, value in (base | settings).items() if value}
    read, gaps = read_settings(given, folder=instance.folder.parent)
    return find_all(read, gaps, app.build, instance.folder.parent)


def stopping(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.sentence, one.helps) for one in found if one.stops]


def warnings(found: list[Finding]) -> str:
    return "\n".join(f"{one.sentence} {one.helps}" for one in found if not one.stops)


def test_a_prepared_instance_has_no_fault(ready):
    assert stopping(found_in(ready)) == []


def test_everything_is_named_at_once_with_what_helps(tmp_path):
    folder = tmp_path / "instance"
    nothing = Instance(folder, f"sqlite:///{folder / 'countersign.db'}")
    found = stopping(found_in(nothing, BASE_URL="", PORT="x", FLOWS="no.such"))

    helps = [help_ for _, help_ in found]
    assert "COUNTERSIGN_BASE_URL=https://app.example.com" in helps
    assert any("COUNTERSIGN_PORT" in sentence for sentence, _ in found)
    assert helps.count("countersign secrets init") == 1
    assert "countersign db upgrade" in helps
    assert "countersign flows check" in helps
    assert not folder.exists()


@pytest.mark.parametrize("url", ["http://app.example.test", "http://localhost:6535"])
def test_a_base_url_without_https_stops_the_start(ready, url):
    assert any("https" in sentence for sentence, _ in stopping(found_in(ready, BASE_URL=url)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_file_that_others_may_use_stops_the_start(ready, mode):
    key = ready.folder / "secret-key"
    key.chmod(mode)

    assert stopping(found_in(ready)) == [
        (f"Others than its owner may use the secret key file {key}.", f"chmod 600 {key}")
    ]


def test_a_key_file_of_another_user_stops_the_start(ready, monkeypatch):
    monkeypatch.setattr("cli.machine.os.geteuid", lambda: os.getuid() + 1)

    assert stopping(found_in(ready))[0][0].endswith("belongs to another user.")


def test_a_key_that_was_typed_stops_the_start(ready):
    found = stopping(found_in(ready, SECRET_KEYS="secretsecretsecretsecretsecretsecret"))

    assert [sentence.split(":")[0] for sentence, _ in found] == ["A secret key is weak"]


def test_another_revision_stops_the_start(ready):
    empty = Instance(ready.folder, f"sqlite:///{ready.folder / 'empty.db'}")
    (ready.folder / "empty.db").touch(mode=0o600)

    assert [help_ for _, help_ in stopping(found_in(empty))] == ["countersign db upgrade"]


def test_a_database_that_is_not_there_stops_the_start_and_is_not_made(ready):
    missing = ready.folder / "missing.db"
    found = stopping(found_in(Instance(ready.folder, f"sqlite:///{missing}")))

    assert found == [(f"There is no database at {missing}.", "countersign db upgrade")]
    assert not missing.exists()


def test_a_relative_address_is_looked_for_where_the_server_finds_it(ready):
    [(sentence, _)] = stopping(found_in(Instance(ready.folder, "sqlite:///shop.db")))

    assert sentence == f"There is no database at {ready.folder.parent}/shop.db."


def test_a_database_that_does_not_answer_stops_the_start(ready):
    found = stopping(found_in(Instance(ready.folder, "postgresql://127.0.0.1:1/nobody")))

    assert len(found) == 1
    assert found[0][0].startswith("The database can't be used: ")


def test_without_an_administrator_nobody_could_help_the_others(ready):
    ready.run("operator", "disable", "admin@example.test")

    assert stopping(found_in(ready)) == [
        ("There is no administrator.", "countersign operator add you@example.com --role admin")
    ]


def test_an_sqlite_database_on_a_network_stops_the_start(ready, monkeypatch):
    monkeypatch.setattr("cli.machine.file_system", lambda _path: "nfs4")

    assert "network file system (nfs4)" in stopping(found_in(ready))[0][0]


def test_the_innermost_mount_tells_the_kind_of_file_system(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 0:5 / /srv/our\\040data rw shared:1 - nfs4 host:/x rw\n"
        "3 2 0:6 / /srv/our\\040data/local rw - xfs /dev/sdb rw\n"
    )

    assert file_system(Path("/srv/our data/countersign.db"), mounts) == "nfs4"
    assert file_system(Path("/srv/our data/local/a.db"), mounts) == "xfs"
    assert file_system(Path("/srv/our"), mounts) == "ext4"
    assert file_system(Path("/srv"), tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "The demo shop is served"),
        ({"SMTP_URL": ""}, "there is no mail server"),
        ({"TRUSTED_PROXIES": ""}, "COUNTERSIGN_TRUSTED_PROXIES=1"),
        ({"BIND": "0.0.0.0"}, "past the proxy"),
        ({"BASE_URL": "https://localhost:8443"}, "Only programs on this machine"),
        ({"WORKERS": "1000"}, "more workers than cores"),
        ({"ARGON2": "1,8,1"}, "cheap to guess"),
    ],
)
def test_what_only_warns(ready, settings, words):
    found = found_in(ready, **settings)

    assert stopping(found) == []
    assert words in warnings(found)


def test_an_open_folder_and_settings_file_are_warned_of(ready):
    ready.folder.chmod(0o755)
    dotenv = ready.folder.parent / ".env"
    dotenv.touch()
    dotenv.chmod(0o644)
    said = warnings(found_in(ready))

    assert f"chmod 700 {ready.folder}" in said
    assert f"chmod 600 {dotenv}" in said


def test_root_is_warned_of(ready, monkeypatch):
    monkeypatch.setattr("cli.machine.os.geteuid", lambda: 0)

    assert "runs as root" in warnings(found_in(ready))


@pytest.fixture
def run(ready: Instance, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., click.testing.Result]]:
    """A function that runs `countersign serve …` in this process, in a prepared instance; gunicorn is only noted."""
    for name, value in ready.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COUNTERSIGN_BASE_URL", URL)
    monkeypatch.setenv("COUNTERSIGN_PORT", str(free_port()))
    monkeypatch.setenv("COUNTERSIGN_ENV", "")  # `serve` sets it
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ready.folder.parent)
    monkeypatch.setattr(serve, "start_gunicorn", lambda: click.echo("gunicorn starts"))
    umask = os.umask(0o077)
    yield lambda *words: CliRunner().invoke(command_line(app.build), ["serve", *words])
    os.umask(umask)


@pytest.mark.parametrize("words", [(), ("--production",)])
def test_what_is_ready_is_served(run, words):
    done = run(*words)

    assert done.exit_code == 0, done.output
    assert f"Ready to serve {URL}/ (0 faults" in done.output
    assert done.output.endswith("gunicorn starts\n")


def test_a_check_serves_nothing_and_may_be_made_beside_the_running_server(run):
    with socket.create_server(("127.0.0.1", int(os.environ["COUNTERSIGN_PORT"]))):
        done = run("--check")

    assert done.exit_code == 0, done.output
    assert "gunicorn starts" not in done.output


def test_a_busy_port_is_one_of_the_faults(run):
    with socket.create_server(("127.0.0.1", int(os.environ["COUNTERSIGN_PORT"]))):
        done = run("--production")

    assert done.exit_code == 1
    assert "can't be listened on" in done.output
    assert "gunicorn starts" not in done.output


def test_a_socket_that_somebody_listens_on_is_busy_and_one_left_behind_is_not(run, tmp_path, monkeypatch):
    path = tmp_path / "http.sock"
    monkeypatch.setenv("COUNTERSIGN_BIND", f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        busy = run("--production")
    left_behind = run("--production")

    assert (busy.exit_code, left_behind.exit_code) == (1, 0)
    assert f"Somebody listens on {path}" in busy.output


def test_an_address_of_another_machine_cannot_be_listened_on(run, monkeypatch):
    monkeypatch.setenv("COUNTERSIGN_BIND", "192.0.2.1")
    done = run("--production")

    assert done.exit_code == 1
    assert "192.0.2.1 of COUNTERSIGN_BIND" in done.output


def test_production_on_the_command_line_wins_over_the_environment(run, monkeypatch):
    monkeypatch.setenv("COUNTERSIGN_ENV", "development")
    monkeypatch.setenv("COUNTERSIGN_BASE_URL", "http://localhost:1")
    done = run("--production")

    assert done.exit_code == 1
    assert "is not https" in done.output
