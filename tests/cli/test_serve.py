"""`countersign serve`: from nothing to a running server, again without loss, and clear words when it can't."""

import os
import pty
import socket
import sqlite3
import stat

import pytest

from tests.support.browser import FormBrowser
from tests.support.waiting import wait_until


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def _password_hashes(instance):
    with sqlite3.connect(instance.folder / "countersign.db") as connection:
        rows = connection.execute("SELECT email, password_hash FROM cs_operator").fetchall()
    connection.close()
    return dict(rows)


def test_serve_makes_everything_that_is_missing(fresh, serve):
    serving = serve(fresh)

    assert mode_of(fresh.folder) == 0o700
    assert mode_of(fresh.folder / "secret-key") == 0o600
    assert mode_of(fresh.folder / "countersign.db") == 0o600
    assert list(_password_hashes(fresh)) == ["admin@localhost"]
    address = f"http://localhost:{serving.port}/mcp"
    printed = serving.printed()
    for line in (
        f"claude mcp add --transport http countersign {address}",
        f"codex mcp add countersign --url {address}",
        f'code --add-mcp \'{{"name":"countersign","type":"http","url":"{address}"}}\'',
    ):
        assert line in printed


def test_without_a_terminal_the_first_password_goes_to_a_file_of_its_own(fresh, serve):
    serving = serve(fresh)
    file = fresh.folder / "first-password"

    assert mode_of(file) == 0o600
    assert str(file) in serving.printed()
    assert file.read_text().strip() not in serving.printed()


def test_with_a_terminal_the_first_password_is_shown_there_only(fresh, serve):
    ours, theirs = pty.openpty()
    serving = serve(fresh, terminal=theirs)
    os.close(theirs)
    shown = wait_until("the password", lambda: os.read(ours, 4096).decode())
    os.close(ours)
    password = shown.split(": ", 1)[1].split()[0]

    assert len(password) == 20
    assert password not in serving.printed()
    assert not (fresh.folder / "first-password").exists()


def test_the_first_password_signs_in_once_and_has_to_be_replaced(fresh, serve):
    serving = serve(fresh)
    password = (fresh.folder / "first-password").read_text().strip()
    page = FormBrowser(f"http://localhost:{serving.port}").sign_in("admin@localhost", password)

    assert page.url.endswith("/password")


def test_a_given_admin_password_is_used_and_shown_nowhere(fresh, serve):
    serving = serve(fresh, COUNTERSIGN_ADMIN_PASSWORD="given-by-the-deployer")
    FormBrowser(f"http://localhost:{serving.port}").sign_in("admin@localhost", "given-by-the-deployer")

    assert not (fresh.folder / "first-password").exists()
    assert "given-by-the-deployer" not in serving.printed()


def test_a_second_serve_loses_nothing(fresh, serve):
    serve(fresh).stop()
    key, people = (fresh.folder / "secret-key").read_bytes(), _password_hashes(fresh)
    with sqlite3.connect(fresh.folder / "countersign.db") as connection:
        connection.execute("UPDATE shop_product SET stock = 7 WHERE sku = 'CUP-BLUE'")
    connection.close()

    serve(fresh)

    assert (fresh.folder / "secret-key").read_bytes() == key
    assert _password_hashes(fresh) == people
    with sqlite3.connect(fresh.folder / "countersign.db") as connection:
        stock = connection.execute("SELECT stock FROM shop_product WHERE sku = 'CUP-BLUE'").fetchone()
    connection.close()
    assert stock == (7,)


def test_a_busy_port_is_said_before_anything_is_made(fresh):
    with socket.create_server(("127.0.0.1", int(fresh.settings["COUNTERSIGN_PORT"]))):
        done = fresh.run("serve", check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("countersign: port_busy: ")
    assert "COUNTERSIGN_PORT" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not fresh.folder.exists()


def test_a_second_serve_beside_a_running_one_disturbs_nothing(fresh, serve):
    serving = serve(fresh)
    done = fresh.run("serve", check=False)

    assert (done.returncode, done.stderr.split(":")[1].strip()) == (1, "port_busy")
    assert serving.process.poll() is None


@pytest.mark.parametrize("damage", [b"", b"short\n", b"\xff\xfe\x00", b"k" * 43 + b"\nx\n"])
def test_a_damaged_key_file_stops_the_start_and_stays_as_it_is(fresh, damage):
    fresh.folder.mkdir(mode=0o700)
    key = fresh.folder / "secret-key"
    key.write_bytes(damage)
    done = fresh.run("serve", check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("countersign: settings_invalid: ")
    assert str(key) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert key.read_bytes() == damage


@pytest.mark.parametrize("words", [["serve"], ["secrets", "init"]])
def test_an_instance_folder_that_cannot_be_written_is_said_in_one_line(fresh, words):
    fresh.folder.write_text("a file is in the way")
    done = fresh.run(*words, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("countersign: instance_unwritable: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_database_that_is_none_is_said_in_one_line(fresh):
    fresh.folder.mkdir(mode=0o700)
    (fresh.folder / "countersign.db").write_bytes(b"this is no database, whatever its name says " * 100)
    done = fresh.run("serve", check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("countersign: database_unavailable: ")
    assert "Traceback" not in done.stderr


def test_in_production_serve_makes_no_key(fresh):
    done = fresh.run("serve", check=False, env={"COUNTERSIGN_BASE_URL": "https://app.example.test"})

    assert done.returncode == 1
    assert "countersign secrets init" in done.stderr
    assert not (fresh.folder / "secret-key").exists()


def test_in_production_serve_does_not_migrate(fresh):
    settings = {"COUNTERSIGN_BASE_URL": "https://app.example.test"}
    fresh.run("secrets", "init", env=settings)
    done = fresh.run("serve", check=False, env=settings)

    assert done.returncode == 1
    assert "→ countersign db upgrade" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("countersign: not_ready: 1 fault")
    assert not (fresh.folder / "countersign.db").exists()
