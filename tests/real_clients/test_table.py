"""The table must not take silence for success."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients.excused import Excused, stale, unexcused
from tests.real_clients.place import Place
from tests.real_clients.program import ClientBroke, Program
from tests.real_clients.table import READ, WRITE, RealClient, Row, Step, Tools, Walk, as_text
from tests.support.browser import FormBrowser


class FakeTools:
    """A client with these tools, whose calls give these answers."""

    def __init__(self, names: list[str], **answers: dict[str, Any]) -> None:
        self._names, self._answers = names, answers

    def names(self) -> list[str]:
        return self._names

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._answers[name]


def signing_in(tools: Tools) -> Callable[[Place], AbstractContextManager[Tools]]:
    @contextmanager
    def signed_in(place: Place) -> Iterator[Tools]:
        place.note("http://localhost:1/oauth/authorize?client_id=cl_1")
        yield tools

    return signed_in


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("http://localhost:1/mcp", tmp_path, FormBrowser("http://localhost:1"))


@pytest.mark.parametrize(
    ("tools", "missing", "remark"),
    [
        (FakeTools([]), Step.LISTED, "listed only []"),
        (FakeTools([READ]), Step.LISTED, "listed only"),
        (FakeTools([READ, WRITE]), Step.READ, "KeyError: 'orders_list'"),
        (FakeTools([READ, WRITE], **{READ: {"error": "x"}}), Step.READ, "KeyError: 'orders'"),
        (
            FakeTools([READ, WRITE], **{READ: {"orders": [{"number": 1}]}, WRITE: {"status": "done"}}),
            Step.WRITE_ASKED,
            "{'status': 'done'}",
        ),
    ],
)
def test_a_client_that_stops_early_is_a_row_with_the_reason(
    tools: FakeTools, missing: Step, remark: str, place: Place
) -> None:
    walk = Walk(RealClient("Fake", lambda: "1", signing_in(tools)), place)

    with ExitStack() as stack:
        walk.start(stack)
        walk.return_later()

    assert walk.row.missing == missing
    assert remark in walk.row.remark
    assert as_text([walk.row]).splitlines()[1].startswith("Fake    1        yes         yes")


def test_a_client_that_is_still_answered_was_not_cut_off(place: Place) -> None:
    tools = FakeTools([READ, WRITE], **{READ: {"orders": [{"number": 1}]}})
    walk = Walk(RealClient("Fake", lambda: "1", signing_in(tools)), place)
    with ExitStack() as stack:
        walk.start(stack)
        walk.row.reached[:] = [step for step in Step if step is not Step.CUT_OFF]
        walk.call_in_vain()

    assert walk.row.missing is Step.CUT_OFF
    assert walk.row.remark == "was answered after its connection was ended"


def test_a_client_that_brings_an_id_of_its_own_has_not_registered(place: Place) -> None:
    place.note("http://localhost:1/oauth/authorize?client_id=https%3A%2F%2Fchatgpt.com%2Fclient.json")

    assert not place.registered


def test_an_early_end_needs_a_line_and_a_line_needs_an_early_end() -> None:
    stopped, whole = Row("A", "1", [Step.REGISTERED]), Row("B", "1", list(Step))
    line = Excused("A", Step.SIGNED_IN, date(2026, 12, 1), "its login needs a terminal")
    other = Excused("A", Step.READ, date(2026, 12, 1), "it reads nothing")

    assert unexcused([stopped, whole], []) == [stopped]
    assert unexcused([stopped, whole], [line]) == []
    assert unexcused([stopped, whole], [other]) == [stopped]
    assert stale([stopped, whole], [line, other]) == [other]


def test_a_program_that_ends_before_its_answer_is_told_in_its_words(place: Place) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit('no such host')"]

    words = "ended with 1 before the answer to tools/list: no such host"
    with Program(command, place) as program, pytest.raises(ClientBroke, match=words):
        program.ask("tools/list", {})


def test_an_error_is_no_answer(place: Place) -> None:
    code = "import json; asked = json.loads(input()); print(json.dumps({'id': asked['id'], 'error': {'code': -1}}))"

    with Program([sys.executable, "-c", code], place) as program, pytest.raises(ClientBroke, match="'code': -1"):
        program.ask("tools/list", {})


def test_another_link_instead_of_an_answer_is_told_at_once(place: Place) -> None:
    code = "input(); print('Open http://localhost:1/oauth/authorize?client_id=cl_1 ', flush=True); input()"

    with Program([sys.executable, "-c", code], place) as program, pytest.raises(ClientBroke, match="sign in again"):
        program.ask("tools/list", {})


def test_a_program_that_ends_badly_has_not_finished(place: Place) -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]

    with Program(command, place) as program, pytest.raises(ClientBroke, match="ended with 3"):
        program.finish()


def test_a_client_inherits_nothing_from_the_environment_of_the_tests(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "CODEX_HOME", "COUNTERSIGN_BASE_URL", "DISPLAY", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "set")

    with Program([sys.executable, "-c", "import os; print(sorted(os.environ))"], place) as program:
        names = program.finish()

    assert names.strip() == str(sorted(place.environment()))
