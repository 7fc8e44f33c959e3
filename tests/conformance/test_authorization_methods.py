"""The public suite's authorization scenarios, by each way of client authentication that it knows, on both databases."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.proxy import OfferingProxy, running
from tests.conformance.suite import install
from tests.conformance.test_public_suite import AUTHORIZATION_RUNS, LEGACY, MODERN, authorization_checks
from tests.support.server import Instance, ServerProcess
from tests.support.waiting import free_port


@pytest.mark.db
@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_the_authorization_scenarios_pass(new_instance: Callable[[], Instance], tmp_path: Path, method: str) -> None:
    install()
    port = free_port()
    with running(OfferingProxy(port, method)) as proxy:
        settings = {"COUNTERSIGN_PORT": str(port), "COUNTERSIGN_BASE_URL": f"http://localhost:{proxy.port}"}
        with ServerProcess(new_instance(), settings=settings) as server:
            found = []
            for revision in (LEGACY, MODERN):
                folder = tmp_path / revision
                folder.mkdir()
                found += authorization_checks(server, revision, folder, method)

    assert {check.status for check in found} == {"SUCCESS"}, "\n".join(map(str, found))
    assert len(found) == sum(AUTHORIZATION_RUNS.values())
