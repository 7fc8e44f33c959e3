"""The commands of a deployer: they do one thing each and refuse in one line."""

import re

import pytest

from tests.support.raw_mcp import RawMcp
from tests.support.server import ALICE, VERA

PASSWORD = {"COUNTERSIGN_OPERATOR_PASSWORD": "long-enough-for-tests"}


@pytest.fixture
def instance(new_instance):
    return new_instance()


def refusal_of(done):
    assert done.returncode == 1, done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    program, code, sentence = done.stderr.split(": ", 2)
    assert program == "countersign"
    assert sentence.strip()
    return code


def test_an_operator_is_added_listed_and_disabled(instance):
    instance.run("operator", "add", "New@Example.Test", "--role", "reviewer", env=PASSWORD)
    listed = instance.run("operator", "list").stdout
    instance.run("operator", "disable", "new@example.test")
    after = instance.run("operator", "list").stdout

    assert re.search(r"^new@example\.test +reviewer +active ", listed, re.M)
    assert re.search(r"^new@example\.test +reviewer +disabled ", after, re.M)


def test_an_address_is_added_once(instance):
    done = instance.run("operator", "add", ALICE.email, env=PASSWORD, check=False)

    assert refusal_of(done) == "operator_exists"


@pytest.mark.parametrize("words", [("disable",), ("password",)])
def test_an_unknown_operator_is_said(instance, words):
    assert refusal_of(instance.run("operator", *words, "nobody@example.test", env=PASSWORD, check=False)) == "not_found"


def test_a_generated_password_is_in_a_private_file_and_not_in_the_output(instance):
    done = instance.run("operator", "add", "new@example.test")
    file = next(instance.folder.glob("password-op_*"))
    listed = instance.run("operator", "list").stdout

    assert file.stat().st_mode & 0o777 == 0o600
    assert str(file) in done.stdout
    assert file.read_text().strip() not in done.stdout + done.stderr
    assert re.search(r"^new@example\.test +operator +first password ", listed, re.M)


def test_a_weak_password_is_refused_in_production_only(instance):
    production = {"COUNTERSIGN_BASE_URL": "https://app.example.test", "COUNTERSIGN_OPERATOR_PASSWORD": "short"}
    done = instance.run("operator", "add", "new@example.test", env=production, check=False)

    assert refusal_of(done) == "weak_password"
    instance.run("operator", "add", "new@example.test", env={"COUNTERSIGN_OPERATOR_PASSWORD": "short"})


def test_flows_are_listed_with_effects_and_what_they_need(instance):
    listed = instance.run("flows", "list").stdout

    assert re.search(r"^orders\.refund +1 +.*send:email.* mcp:action:invoke & orders:refund +a person$", listed, re.M)
    assert re.search(r"^orders\.list +1 +.*read:orders.* mcp:flows:read +-$", listed, re.M)


def test_an_issued_token_reads_and_is_printed_alone(instance, server_factory):
    server = server_factory()
    scope = "mcp:manifest:read mcp:flows:read"
    issued = server.instance.run("token", "issue", "--name", "nightly", "--operator", ALICE.email, "--scope", scope)
    token = issued.stdout.strip()
    answer = RawMcp(server.mcp_url, token).call("orders_get", {"order_id": 1042})

    assert re.fullmatch(r"cs_at_[\w-]{43}", token)
    assert answer.data["order"]["number"] == 1042
    assert "local:nightly" in server.instance.run("client", "list").stdout


def test_a_removed_client_is_out_at_once(server_factory):
    server = server_factory()
    issue = ("token", "issue", "--name", "nightly", "--operator", ALICE.email, "--scope", "mcp:flows:read")
    caller = RawMcp(server.mcp_url, server.instance.run(*issue).stdout.strip())
    before = caller.call("orders_get", {"order_id": 1042}).status
    server.instance.run("client", "remove", "local:nightly")

    assert (before, caller.call("orders_get", {"order_id": 1042}).status) == (200, 401)
    assert refusal_of(server.instance.run("client", "remove", "local:nightly", check=False)) == "not_found"


def test_a_token_cannot_exceed_its_operators_role(instance):
    words = ("token", "issue", "--name", "greedy", "--operator", VERA.email, "--scope", "mcp:flows:read orders:refund")
    done = instance.run(*words, check=False)

    assert refusal_of(done) == "unknown_scope"
    assert "cs_at_" not in done.stdout


def test_making_a_key_twice_changes_nothing(instance):
    key = (instance.folder / "secret-key").read_bytes()
    instance.run("secrets", "init")

    assert (instance.folder / "secret-key").read_bytes() == key


def test_every_gap_of_the_settings_is_named_in_one_line(instance):
    wrong = {"COUNTERSIGN_PORT": "many", "COUNTERSIGN_WORKERS": "0", "COUNTERSIGN_BASE_URL": "ftp://x"}
    done = instance.run("flows", "list", env=wrong, check=False)

    assert refusal_of(done) == "settings_invalid"
    assert all(name in done.stderr for name in wrong)


def test_a_command_before_the_upgrade_names_the_upgrade(fresh):
    fresh.run("secrets", "init")
    done = fresh.run("operator", "list", check=False)

    assert done.returncode == 1
    assert "countersign db upgrade" in done.stderr
