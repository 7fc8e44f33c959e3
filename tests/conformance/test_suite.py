"""The runner must not take silence for success."""

from pathlib import Path

import pytest

from tests.conformance.suite import NODE, Run, SuiteBroke, install, run_server_scenario
from tests.support.waiting import free_port


@pytest.fixture(autouse=True)
def _suite() -> None:
    install()


def test_a_scenario_that_the_suite_leaves_out_is_an_error(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"

    with pytest.raises(SuiteBroke, match="not applicable at spec version 2026-07-28"):
        run_server_scenario(Run("ping", "2026-07-28"), nowhere, tmp_path)


def test_a_server_that_is_not_there_fails_the_check(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"

    found = run_server_scenario(Run("ping", "2025-11-25"), nowhere, tmp_path)

    assert (found[0].id, found[0].status) == ("ping", "FAILURE")


def test_what_is_installed_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.npm.NPM_CI", ["false"])

    install()

    assert NODE.exists()
