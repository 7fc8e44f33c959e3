"""`countersign backup` and `restore`: whole or not at all, under load, and nothing that ended lives again."""

import os
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from app import build
from cli.main import command_line
from flows.models import outbox, run
from policy.models import audit, confirmation
from tests.journeys.shop import REFUND, proof_of
from tests.support.browser import FormBrowser
from tests.support.oauth import RawOAuth, mcp_for
from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, Instance, ServerProcess

NewUrl = Callable[[Path], str]


@pytest.fixture
def elsewhere(tmp_path: Path, new_database_url: NewUrl) -> Instance:
    """Another machine: a folder and an empty database."""
    folder = tmp_path / "elsewhere"
    folder.mkdir(mode=0o700)
    return Instance(folder, new_database_url(folder))


@dataclass(frozen=True, slots=True)
class Told:
    """What a command told."""

    returncode: int
    stdout: str
    stderr: str


def run_here(instance: Instance, *words: str, check: bool = True, **env: str) -> Told:
    """Run a command in this process: importing the libraries for each takes seconds."""
    mask = os.umask(0o077)
    try:
        done = CliRunner().invoke(command_line(build), words, env={**instance.environment(), **env})
    finally:
        os.umask(mask)
    told = Told(done.exit_code, done.stdout, done.stderr)
    assert not (check and told.returncode), told
    return told


def rows_of(instance: Instance, statement: Any) -> list[Any]:
    engine = sa.create_engine(instance.database_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return list(connection.execute(statement).all())


def change(instance: Instance, *statements: Any) -> None:
    engine = sa.create_engine(instance.database_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)


def counts_of(instance: Instance) -> dict[str, int]:
    engine = sa.create_engine(instance.database_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        return {name: connection.execute(sa.text(f'SELECT count(*) FROM "{name}"')).scalar_one() for name in names}  # noqa: S608 - names of the inspector


def refund(agent: RawMcp, person: FormBrowser, order: dict[str, Any]) -> dict[str, Any]:
    arguments = {"order_id": order["number"], "reason": "damaged"}
    asked = agent.call("orders_refund", arguments).data
    person.approve(asked["confirmUrl"])
    return dict(agent.call("orders_refund", arguments | proof_of(asked["confirmToken"])).data)


# --- under load, restored elsewhere -----------------------------------------------------------------------------------


@pytest.mark.db
def test_a_backup_under_load_restored_elsewhere_serves_and_verifies(
    server_factory: Callable[..., ServerProcess], elsewhere: Instance, tmp_path: Path
) -> None:
    server = server_factory()
    person, file = FormBrowser(server.base_url), tmp_path / "shop.backup"
    person.sign_in(ALICE.email, ALICE.password)
    client = RawOAuth(server.base_url)
    client.register()
    tokens = client.exchange(client.code_from(person, tick=(REFUND,))).json
    agent = RawMcp(server.mcp_url, tokens["access_token"])
    orders = agent.call("orders_list", {"status": "paid", "limit": 100}).data["orders"]
    arguments = {"order_id": orders[-1]["number"], "reason": "damaged"}
    asked = agent.call("orders_refund", arguments).data
    person.approve(asked["confirmUrl"])  # approved when the backup is made, spent only afterwards
    done, stopped, busy = [refund(agent, person, orders[0])], Event(), Event()

    def write() -> None:
        for order in orders[1:-1]:
            if stopped.is_set():
                break
            done.append(refund(agent, person, order))
            busy.set()

    def read() -> None:
        while not stopped.is_set():
            assert agent.call("orders_list").status == 200

    with ThreadPoolExecutor(3) as pool:
        load = [pool.submit(write), pool.submit(read), pool.submit(read)]
        busy.wait(30)
        before = len(done)
        told = server.instance.run("backup", str(file))
        stopped.set()
        for one in load:
            one.result()
    spent = agent.call("orders_refund", arguments | proof_of(asked["confirmToken"])).data
    server.stop()
    restored = elsewhere.run("restore", str(file))

    assert {one["status"] for one in [*done, spent]} == {"done"}
    assert "secret-key" in told.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "cs_run" in restored.stdout
    elsewhere.run("secrets", "init")
    settings = {"COUNTERSIGN_BASE_URL": server.base_url, "COUNTERSIGN_PORT": str(server.port)}
    with ServerProcess(elsewhere, settings=settings) as second:
        # What was given before the restore gives nothing any more, whatever was taken away meanwhile.
        assert RawMcp(second.mcp_url, tokens["access_token"]).call("orders_list").status == 401
        assert client.refresh(tokens["refresh_token"]).status == 400
        assert "Sign in" in person.open("/runs").text
        person.sign_in(ALICE.email, ALICE.password)
        again = mcp_for(person, tick=(REFUND,))
        runs = again.call("traces_list", {"flowId": "orders.refund", "status": "done", "limit": 200}).data["runs"]
        assert before <= len(runs) <= len(done)
        assert {one["runId"] for one in runs} <= {one["runId"] for one in done}
        refunded = {one["number"]: one["status"] for one in _orders(again)}
        assert refunded[orders[0]["number"]] != "paid"  # a run and what it did stay together
        assert refunded[orders[-1]["number"]] == "paid"
        assert sum(status != "paid" for number, status in refunded.items() if number in _numbers(orders)) == len(runs)
        late = again.call("orders_refund", arguments | proof_of(asked["confirmToken"])).data
        assert late["refusal"]["code"] == "confirmation_mismatch"  # not spendable a second time
        assert refund(again, person, orders[-1])["status"] == "done"


def _orders(agent: RawMcp) -> list[dict[str, Any]]:
    found = [
        agent.call("orders_list", {"status": status, "limit": 100}).data["orders"] for status in ("paid", "refunded")
    ]
    return [order for page in found for order in page]


def _numbers(orders: list[dict[str, Any]]) -> set[str]:
    return {order["number"] for order in orders}


# --- what is ended by a restore ---------------------------------------------------------------------------------------


def _unfinished(instance: Instance) -> None:
    texts = dict.fromkeys(("flow_id", "surface", "operator_id", "client_id", "grant_id"), "x")
    running = {**texts, "id": "run_1", "flow_version": 1, "kind": "write", "status": "running", "arguments": "{}"}
    waiting = {"id": "msg_1", "run_id": "run_1", "target": "email", "payload": "{}", "status": "waiting"}
    asked = dict.fromkeys(("rule", "operator_id", "client_id", "grant_id", "flow_id", "digest", "summary"), "x")
    states = [("cf_1", "approved"), ("cf_2", "pending")]
    change(
        instance,
        sa.insert(run).values({**running, "started_at": 1, "lease_until": 2**60}),
        sa.insert(outbox).values({**waiting, "attempts": 0, "due_at": 2**60, "created_at": 1}),
        *(
            sa.insert(confirmation).values(
                {**asked, "id": name, "open_key": name, "state": state, "arguments": "{}", "flow_version": 1}
                | {"created_at": 1, "expires_at": 2**60, "approved_at": 1 if state == "approved" else None}
            )
            for name, state in states
        ),
    )


@pytest.mark.db
def test_a_restore_ends_what_may_have_gone_on_since_the_backup(
    new_instance: Callable[[], Instance], elsewhere: Instance, tmp_path: Path
) -> None:
    instance, file = new_instance(), tmp_path / "one.backup"
    _unfinished(instance)
    run_here(instance, "backup", str(file))
    run_here(elsewhere, "restore", str(file))

    assert rows_of(elsewhere, sa.select(run.c.status, run.c.code)) == [("unknown", "restored")]
    assert rows_of(elsewhere, sa.select(outbox.c.status)) == [("failed",)]
    states = sa.select(confirmation.c.state, confirmation.c.open_key, confirmation.c.arguments)
    assert rows_of(elsewhere, states) == [("expired", None, None)] * 2
    events = rows_of(elsewhere, sa.select(audit.c.surface).where(audit.c.event == "database.restored"))
    assert events == [("cli",)]


def test_what_is_asked_for_stays_but_no_confirmation(
    server_factory: Callable[..., ServerProcess], elsewhere: Instance, tmp_path: Path
) -> None:
    server, file = server_factory(workers=1), tmp_path / "one.backup"
    person = FormBrowser(server.base_url)
    person.sign_in(ALICE.email, ALICE.password)
    token = mcp_for(person).token
    _unfinished(server.instance)
    run_here(server.instance, "backup", str(file))
    server.stop()
    run_here(elsewhere, "restore", str(file), "--keep-sign-ins", "--send-waiting")
    run_here(elsewhere, "secrets", "init")

    assert rows_of(elsewhere, sa.select(outbox.c.status)) == [("waiting",)]
    assert rows_of(elsewhere, sa.select(confirmation.c.state).distinct()) == [("expired",)]
    settings = {"COUNTERSIGN_BASE_URL": server.base_url, "COUNTERSIGN_PORT": str(server.port)}
    with ServerProcess(elsewhere, workers=1, settings=settings) as second:
        assert RawMcp(second.mcp_url, token).call("traces_list").status == 200
        assert "Sign out" in person.open("/").text


# --- whole or not at all ----------------------------------------------------------------------------------------------


@pytest.mark.db
def test_a_full_database_is_replaced_only_by_force_and_kept_beside(
    new_instance: Callable[[], Instance], tmp_path: Path
) -> None:
    instance, file = new_instance(), tmp_path / "one.backup"
    run_here(instance, "backup", str(file))
    change(instance, sa.insert(audit).values(id="au_after", at=1, event="x", surface="cli"))
    refused = run_here(instance, "restore", str(file), check=False)
    after = rows_of(instance, sa.select(audit.c.id).where(audit.c.id == "au_after"))
    forced = run_here(instance, "restore", str(file), "--force")

    assert (refused.returncode, after) == (1, [("au_after",)])
    assert "database_not_empty" in refused.stderr
    assert not rows_of(instance, sa.select(audit.c.id).where(audit.c.id == "au_after"))
    (kept,) = instance.folder.glob("before-restore-*.backup")
    assert str(kept) in forced.stdout
    run_here(instance, "restore", str(kept), "--force")
    assert rows_of(instance, sa.select(audit.c.id).where(audit.c.id == "au_after"))


@pytest.mark.db
def test_a_database_in_use_is_not_replaced(server_factory: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server, file = server_factory(workers=1), tmp_path / "one.backup"
    run_here(server.instance, "backup", str(file))
    before = counts_of(server.instance)
    refused = run_here(server.instance, "restore", str(file), "--force", check=False)

    assert refused.returncode == 1, refused.stdout
    assert "database_in_use" in refused.stderr
    assert counts_of(server.instance) == before
    assert FormBrowser(server.base_url).sign_in(ALICE.email, ALICE.password)


@pytest.mark.db
def test_a_damaged_or_cut_off_backup_changes_nothing(
    new_instance: Callable[[], Instance], elsewhere: Instance, tmp_path: Path
) -> None:
    file, bad = tmp_path / "one.backup", tmp_path / "bad.backup"
    run_here(new_instance(), "backup", str(file))
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"x" * 5000, b"", whole[:100] + b"\xff" * 4000 + whole[4100:]):
        bad.write_bytes(damaged)
        refused = run_here(elsewhere, "restore", str(bad), check=False)
        assert refused.returncode == 1, refused
        assert refused.stderr.startswith(("countersign: not_a_backup: ", "countersign: restore_failed: ")), refused
        assert counts_of(elsewhere) == {}
    assert run_here(elsewhere, "restore", str(file)).returncode == 0


def test_a_backup_of_a_newer_program_is_refused(
    new_instance: Callable[[], Instance], elsewhere: Instance, tmp_path: Path
) -> None:
    instance, file = new_instance(), tmp_path / "one.backup"
    change(instance, sa.text("INSERT INTO cs_alembic_version VALUES ('9999')"))
    run_here(instance, "backup", str(file))
    refused = run_here(elsewhere, "restore", str(file), check=False)

    assert "not_a_backup" in refused.stderr
    assert "newer" in refused.stderr


def test_a_backup_replaces_no_file_but_by_force_and_leaves_none_after_a_failure(
    new_instance: Callable[[], Instance], tmp_path: Path
) -> None:
    instance, file = new_instance(), tmp_path / "one.backup"
    file.write_text("precious")
    refused = run_here(instance, "backup", str(file), check=False)
    kept = file.read_text()
    run_here(instance, "backup", str(file), "--force")
    nowhere = {"COUNTERSIGN_DATABASE_URL": f"sqlite:///{tmp_path / 'none.db'}"}
    failed = run_here(instance, "backup", str(tmp_path / "two.backup"), **nowhere, check=False)

    assert "file_exists" in refused.stderr
    assert kept == "precious"
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("SELECT count(*) FROM cs_operator").fetchone() == (5,)
    assert "backup_failed" in failed.stderr
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == ["one.backup"]


def test_a_backup_of_sqlite_is_no_backup_for_postgresql_and_missing_programs_are_named(
    new_instance: Callable[[], Instance], tmp_path: Path
) -> None:
    instance, file = new_instance(), tmp_path / "one.backup"
    run_here(instance, "backup", str(file))
    other = {"COUNTERSIGN_DATABASE_URL": "postgresql://nobody:hunter22@127.0.0.1:1/x"}
    refused = run_here(instance, "restore", str(file), **other, check=False)
    failed = run_here(instance, "backup", str(tmp_path / "two"), **other, check=False)

    assert "not_a_backup" in refused.stderr
    assert "backup_failed" in failed.stderr
    assert "hunter22" not in refused.stderr + failed.stderr + failed.stdout
