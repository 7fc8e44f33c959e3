"""Machines: accounts that act for nobody, their clients, and the tokens that these get by themselves (RFC 6749 4.4)."""

import itertools
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from sqlalchemy import select, update

from auth import tokens
from auth.models import grant, operator
from auth.operators import OperatorExists
from auth.registration import machine_registration
from core.errors import AppError, BadRequest, NotFound
from flows.caller import Role
from tests.auth.served import Served
from tests.support.browser import FormBrowser
from tests.support.oauth import FORM, RawOAuth
from tests.support.raw_mcp import LEGACY, MODERN, RawAnswer, RawMcp, send
from tests.support.server import ALICE, CommandFailed, Instance

READ, MANIFEST, INVOKE, REFUND = "mcp:flows:read", "mcp:manifest:read", "mcp:action:invoke", "orders:refund"
NUMBERS = itertools.count()
REFUND_IT = {"order_id": 1042, "reason": "It arrived broken."}


@pytest.fixture(scope="module")
def shared(new_instance: Callable[[], Instance]) -> Iterator[Served]:
    """One instance for all tests that leave nothing which others notice."""
    with Served(new_instance()) as running:
        yield running


class Machine:
    """One machine with its client."""

    def __init__(self, served: Served, *scopes: str, role: Role = Role.OPERATOR) -> None:
        self.served = served
        self.name = f"nightly-{next(NUMBERS)}"
        served.parts.operators.add_machine(self.name, role)
        wanted = machine_registration("Nightly job", "client_secret_basic", None)
        made, _ = served.parts.machines.add_client(wanted, self.name, scopes or (READ, MANIFEST))
        self.client_id, self.secret = made.client.id, made.secret or ""

    def ask(self, *, secret: str | None = None, post: bool = False, **replaced: str) -> RawAnswer:
        fields = {"grant_type": "client_credentials"} | replaced
        headers = [FORM]
        secret = self.secret if secret is None else secret
        if post:
            fields |= {"client_id": self.client_id, "client_secret": secret}
        else:
            basic = b64encode(f"{self.client_id}:{secret}".encode()).decode()
            headers.append(("Authorization", f"Basic {basic}"))
        return send("POST", f"{self.served.base_url}/oauth/token", headers, urlencode(fields).encode())

    def mcp(self, version: str = MODERN, **replaced: str) -> RawMcp:
        answer = self.ask(**replaced)
        assert answer.status == 200, answer.raw
        return RawMcp(f"{self.served.base_url}/mcp", answer.json["access_token"], version=version)


def said(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, answer.json.get("error", "")


@pytest.mark.db
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_a_machine_reads_by_itself_and_changes_nothing(served, era):
    machine = Machine(served, READ, MANIFEST, INVOKE, REFUND)
    mcp = machine.mcp(era)
    read = mcp.call("orders_get", {"order_id": 1042})
    write = mcp.call("orders_refund", REFUND_IT)
    by_id = mcp.call("action_invoke", {"flowId": "orders.refund", "args": REFUND_IT})
    asked = mcp.call("action_confirm", {"tool": "orders_refund", "args": REFUND_IT})
    unattended = mcp.call("stock_adjust", {"sku": "CUP-BLUE", "change": 1, "reason": "Found."})

    assert not read.result["isError"]
    for refused in (write, by_id, asked):
        assert (refused.result["isError"], refused.data["refusal"]["code"]) == (True, "four_eyes_unavailable")
    assert unattended.status == 403  # it lacks the scope, and is told that first


def test_an_administrator_adds_a_machine_and_its_client_by_two_commands(served):
    served.instance.run("operator", "add-machine", "nightly", "--role", "operator")
    words = ("--name", "Nightly job", "--operator", "nightly", "--scope", f"{READ} {MANIFEST}")
    added = served.instance.run("client", "add-machine", *words)
    machine = Machine.__new__(Machine)
    machine.served, (machine.client_id, machine.secret) = served, added.stdout.split()

    assert "machine:nightly" in added.stderr
    assert not machine.mcp().call("orders_get", {"order_id": 1042}).result["isError"]
    assert "machine:nightly" in served.instance.run("operator", "list").stdout


def test_rule_client_is_no_way_around(served_factory):
    served = served_factory()
    machine = Machine(served, INVOKE, "stock:adjust")
    served.stop()
    again = Served(served.instance, COUNTERSIGN_UNATTENDED_CLIENTS=machine.client_id)
    try:
        machine.served = again
        # The resource is part of the grant: the new port is another one.
        with again.parts.database.write() as connection:
            connection.execute(update(grant).values(resource=again.parts.settings.resource))
        answer = machine.mcp().call("stock_adjust", {"sku": "CUP-BLUE", "change": 1, "reason": "Found."})
    finally:
        again.stop()

    assert answer.data["refusal"]["code"] == "four_eyes_unavailable"


def test_the_answer_is_one_of_rfc_6749_4_4_3(shared):
    machine = Machine(shared)
    answer = machine.ask(resource=f"{shared.base_url}/mcp")
    by_post = machine.ask(post=True)

    assert (answer.status, by_post.status) == (200, 200)
    assert answer.json.keys() == {"access_token", "token_type", "expires_in", "scope"}  # no refresh token
    assert answer.json["scope"].split() == sorted((READ, MANIFEST))
    assert (answer.json["token_type"], answer.json["expires_in"]) == ("Bearer", 3600)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("scope", "given"),
    [
        (READ, {READ}),
        (f"{READ} offline_access", {READ}),
        ("offline_access", {READ, MANIFEST}),
        (f" {READ}  {MANIFEST} ", {READ, MANIFEST}),
        ("", {READ, MANIFEST}),
    ],
)
def test_a_scope_narrows(shared, scope, given):
    assert set(Machine(shared).ask(scope=scope).json["scope"].split()) == given


@pytest.mark.parametrize("scope", [INVOKE, f"{READ} {INVOKE}", "mcp:*", "console:flows:read", "nope", 'x"'])
def test_a_scope_never_widens(shared, scope):
    assert said(Machine(shared).ask(scope=scope)) == (400, "invalid_scope")


def test_a_narrowed_token_is_held_to_it(shared):
    assert Machine(shared).mcp(scope=MANIFEST).call("orders_get", {"order_id": 1042}).status == 403


@pytest.mark.parametrize("secret", ["", "wrong", "cs_cs_" + "x" * 43])
def test_only_the_secret_opens(shared, secret):
    machine = Machine(shared)

    assert said(machine.ask(secret=secret)) == (401, "invalid_client")
    assert said(machine.ask(secret=secret, post=True)) == (401, "invalid_client")


def test_another_resource_is_no_target(shared):
    assert said(Machine(shared).ask(resource="https://other.example/mcp")) == (400, "invalid_target")


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_no_client_of_people_gets_a_token_so(shared, method):
    client = RawOAuth(shared.base_url)
    wanted = {"grant_types": ["client_credentials", "authorization_code"], "token_endpoint_auth_method": method}
    made = client.register(**wanted).json
    given = {"grant_type": "client_credentials", "client_id": client.client_id}
    given |= {"client_secret": made["client_secret"]} if "client_secret" in made else {}

    assert "client_credentials" not in made["grant_types"]
    assert said(client.post_form("/oauth/token", given)) == (400, "unauthorized_client")


def test_a_machines_client_uses_nothing_that_people_use(shared):
    machine = Machine(shared)
    browser = FormBrowser(shared.base_url)
    browser.sign_in(ALICE.email, ALICE.password)
    client = RawOAuth(shared.base_url, client_id=machine.client_id)
    page = browser.open(client.authorize_url())
    other = RawOAuth(shared.base_url)
    other.register()
    code = other.code_from(browser)
    stolen = machine.ask(grant_type="authorization_code", code=code, redirect_uri=other.redirect_uri,
                         code_verifier=other.verifier)  # fmt: skip
    refreshed = machine.ask(grant_type="refresh_token", refresh_token=other.exchange(code).json["refresh_token"])

    assert page.status == 400
    assert said(stolen)[0] == said(refreshed)[0] == 400


def test_nobody_signs_in_as_a_machine(served):
    machine = f"machine:{Machine(served).name}"
    browser = FormBrowser(served.base_url)
    for password in ("", "!", machine):
        browser.open("/login")
        browser.fill("E-mail", machine)
        browser.fill("Password", password)
        browser.submit("Sign in")
        assert browser.page.status in (400, 401, 403)
    account = served.parts.operators.find_by_email(machine)

    assert served.parts.operators.find_by_password(machine, "!") is None
    assert not served.parts.operators.has_password(account.id, "!")
    with pytest.raises(NotFound):
        served.parts.operators.set_password(account.id, "a sentence that nobody else says")
    with pytest.raises(CommandFailed, match="no password"):
        served.instance.run("operator", "password", machine)
    with pytest.raises(CommandFailed, match="no active operator"):
        served.instance.run("token", "issue", "--name", "x", "--operator", machine, "--scope", READ)


@pytest.mark.parametrize("cut", ["client", "operator"])
def test_taking_a_machine_away_ends_its_tokens_at_once(served, cut):
    machine = Machine(served)
    mcp = machine.mcp()
    before = mcp.request("tools/list").status
    if cut == "client":
        served.parts.clients.remove(machine.client_id)
    else:
        served.instance.run("operator", "disable", f"machine:{machine.name}")

    assert (before, mcp.request("tools/list").status) == (200, 401)
    assert said(machine.ask()) == ((401, "invalid_client") if cut == "client" else (400, "invalid_grant"))


def test_a_role_that_fell_cuts_what_a_machine_holds(served):
    machine = Machine(served, READ, INVOKE, REFUND)
    with served.parts.database.write() as connection:
        connection.execute(update(operator).where(operator.c.kind == "machine").values(role="viewer"))

    assert machine.ask().json["scope"] == READ


def test_a_machine_that_throws_its_tokens_away_is_told_to_keep_them(served, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_OF_A_MACHINE", 3)
    machine = Machine(served)
    statuses = [machine.ask().status for _ in range(4)]
    served.clock.move(hours=1)

    assert statuses == [200, 200, 200, 429]
    assert machine.ask().status == 200


def test_the_grant_of_a_machine_outlives_its_tokens_and_goes_with_its_client(served):
    machine = Machine(served)
    served.clock.move(days=400)
    served.instance.run("purge")
    kept = machine.ask().status
    served.parts.clients.remove(machine.client_id)
    with served.parts.database.read() as connection:
        ended = connection.execute(select(grant.c.revoked_at)).scalar()

    assert kept == 200
    assert ended is not None


@pytest.mark.parametrize("name", ["", "Nightly", "a b", "-x", "x" * 65, "näh", "x\x00", "machine:x"])
def test_a_machine_has_a_plain_name(shared, name):
    with pytest.raises(BadRequest):
        shared.parts.operators.add_machine(name, Role.VIEWER)


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.ADMIN])
def test_a_machine_decides_nothing(shared, role):
    with pytest.raises(BadRequest):
        shared.parts.operators.add_machine("nightly", role)


@pytest.mark.parametrize(
    ("name", "scope", "method", "said"),
    [
        ("nobody", READ, "client_secret_basic", "no active machine"),
        ("viewer", INVOKE, "client_secret_basic", "can't grant mcp:action:invoke"),
        ("viewer", "", "client_secret_basic", "no scope at all"),
        ("viewer", READ, "private_key_jwt", "jwks_uri"),
        ("viewer", READ, "none", "has to prove itself"),
        (ALICE.email, READ, "client_secret_basic", "no active machine"),
    ],
)
def test_what_can_not_be_added_is_refused(shared, name, scope, method, said):
    with suppress(OperatorExists):
        shared.parts.operators.add_machine("viewer", Role.VIEWER)
    before = len(shared.parts.clients.list())
    with pytest.raises(AppError, match=said):
        shared.parts.machines.add_client(machine_registration("Job", method, None), name, scope.split())

    assert len(shared.parts.clients.list()) == before


def test_keys_at_a_host_that_settings_forbid_are_refused_when_the_client_is_added(served_factory):
    served = served_factory(COUNTERSIGN_CIMD_DENIED_HOSTS="keys.example")
    words = ("--redirect-uri", "https://a.example/", "--method", "private_key_jwt")
    with pytest.raises(CommandFailed, match="COUNTERSIGN_CIMD_DENIED_HOSTS"):
        served.instance.run("client", "add", "--name", "x", *words, "--jwks-uri", "https://keys.example/jwks")
