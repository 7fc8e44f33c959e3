"""The public MCP conformance suite against the running server, through its real bearer check."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.settings import DEMO_FLOWS
from tests.conformance.accepted import ACCEPTED
from tests.conformance.proxy import HeaderProxy, adding_bearer
from tests.conformance.suite import (
    AuthorizationServer,
    Check,
    Run,
    install,
    run_authorization_scenarios,
    run_server_scenario,
)
from tests.support.browser import FormBrowser
from tests.support.raw_mcp import send
from tests.support.server import ALICE, Instance, ServerProcess
from tests.support.waiting import free_port

OLD, LEGACY, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
FLOWS = ",".join((*DEMO_FLOWS, "tests.conformance.fixture_flows"))
READ_SCOPES = "mcp:manifest:read mcp:schema:read mcp:effects:read mcp:traces:read mcp:flows:read"

# One check each, and the one of every message's schema.
SURFACE = (
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "completion-complete",
)

# How many checks the suite makes in each run: one fewer means that it didn't get to what it tests.
SERVER_RUNS = {
    Run("server-initialize", OLD): 3,
    Run("server-initialize", LEGACY): 3,
    Run("ping", OLD): 2,
    Run("ping", LEGACY): 2,
    Run("tools-list", OLD): 2,
    Run("tools-list", LEGACY): 3,
    Run("tools-list", MODERN): 4,
    Run("server-stateless", MODERN): 30,
    Run("caching", MODERN): 8,
    Run("dns-rebinding-protection", LEGACY): 2,
    Run("dns-rebinding-protection", MODERN): 2,
    Run("http-header-validation", MODERN): 14,
    Run("sep-2164-resource-not-found", MODERN): 4,
    **{Run(scenario, revision): 2 for scenario in SURFACE for revision in (LEGACY, MODERN)},
}
METADATA, CODE_GRANT = "authorization-server-metadata-endpoint", "authorization-code-grant"
AUTHORIZATION_RUNS = {
    Run(METADATA, LEGACY): 2,
    Run(CODE_GRANT, LEGACY): 1,
    Run(METADATA, MODERN): 2,
    Run(CODE_GRANT, MODERN): 1,
}
TOTAL = 149


@pytest.fixture(scope="module", autouse=True)
def _suite() -> None:
    install()


@pytest.fixture(scope="module")
def fixture_server(_suite: None, new_instance: Callable[[], Instance]) -> Iterator[ServerProcess]:
    """A server with the suite's own tools beside the demo shop."""
    with ServerProcess(new_instance(), settings={"COUNTERSIGN_FLOWS": FLOWS}) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(fixture_server: ServerProcess) -> Iterator[HeaderProxy]:
    """The way in for a client that can't send a token: everything passes with that of a named local identity."""
    words = ["--name", "conformance", "--operator", ALICE.email, "--scope", READ_SCOPES]
    printed = fixture_server.instance.run("token", "issue", *words).stdout
    token = re.search(r"cs_at_[\w-]+", printed)
    assert token is not None, printed
    with adding_bearer(fixture_server.port, token[0]) as running:
        yield running


@pytest.fixture(scope="module")
def checks(fixture_server: ServerProcess, proxy: HeaderProxy, tmp_path_factory: pytest.TempPathFactory) -> list[Check]:
    """Every check of every run."""
    found = []
    for run in SERVER_RUNS:
        folder = tmp_path_factory.mktemp(run.scenario)
        found += run_server_scenario(run, f"http://127.0.0.1:{proxy.port}/mcp", folder)
    for revision in (LEGACY, MODERN):
        found += authorization_checks(fixture_server, revision, tmp_path_factory.mktemp("authorization"))
    return found


def test_every_check_passes_or_is_accepted_with_a_reason(checks: list[Check]) -> None:
    accepted = {(entry.scenario, entry.check, entry.status) for entry in ACCEPTED}

    left = [c for c in checks if c.status != "SUCCESS" and (c.run.scenario, c.id, c.status) not in accepted]

    assert not left, "\n".join(map(str, left))


def test_every_accepted_exception_is_still_needed(checks: list[Check]) -> None:
    seen = {(check.run.scenario, check.id, check.status) for check in checks}

    stale = [entry for entry in ACCEPTED if (entry.scenario, entry.check, entry.status) not in seen]

    assert not stale


def test_the_suite_makes_all_its_checks(checks: list[Check], capsys: pytest.CaptureFixture[str]) -> None:
    passed = sum(check.status == "SUCCESS" for check in checks)
    with capsys.disabled():
        print(f"\npublic conformance suite: {passed}/{len(checks)} passed, {len(ACCEPTED)} kinds accepted")

    assert dict(Counter(check.run for check in checks)) == SERVER_RUNS | AUTHORIZATION_RUNS
    assert len(checks) == TOTAL


def test_without_a_valid_token_the_suite_gets_nowhere(fixture_server: ServerProcess, tmp_path: Path) -> None:
    with adding_bearer(fixture_server.port, "cs_at_" + "A" * 43) as proxy:
        found = run_server_scenario(Run("ping", LEGACY), f"http://127.0.0.1:{proxy.port}/mcp", tmp_path)

    assert [check.status for check in found if check.id == "ping"] == ["FAILURE"]


def authorization_checks(server: ServerProcess, revision: str, folder: Path, method: str = "none") -> list[Check]:
    """Register the suite's client, let a person sign in and consent, and return the checks of both scenarios."""
    port = free_port()
    browser = FormBrowser(server.base_url)
    browser.sign_in(ALICE.email, ALICE.password)

    def answer(authorize_url: str) -> None:
        no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        no_proxy.open(browser.consent(authorize_url), timeout=30).close()

    client = registered(server, port, method)
    told = AuthorizationServer(server.base_url, client["client_id"], server.mcp_url, port, client.get("client_secret"))
    return run_authorization_scenarios((Run(METADATA, revision), Run(CODE_GRANT, revision)), told, answer, folder)


def registered(server: ServerProcess, port: int, method: str) -> dict[str, str]:
    """Register a client with the suite's redirect address (RFC 7591) and return the answer."""
    wanted = {
        "client_name": "Conformance suite",
        "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
        "token_endpoint_auth_method": method,
    }
    json_body = [("Content-Type", "application/json")]
    answer = send("POST", f"{server.base_url}/oauth/register", json_body, json.dumps(wanted).encode())
    assert answer.status == 201, answer.raw
    return dict(answer.json)
