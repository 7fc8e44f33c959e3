"""A flow reaches outside through its world alone; nobody else is stopped, and neither is what a flow needs."""

import importlib
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select, text, update

from flows import confine
from flows.confine import OutsideReach, confined, install_confinement
from flows.effects import Effect, calls, writes
from flows.envelope import Status
from flows.operation import Flow, FlowError, Source, flow
from flows.world import World
from tests.flows.house import Counter, House, Nothing, Value, get_counter

Act = Callable[[World], Any]


def acting(act: Act, *effects: Effect) -> Flow:
    @flow(id="hook.try", title="Try", effects=[writes("counter", Counter), *effects], asks="Try")
    def attempt(_params: Nothing, world: World) -> Value:
        """Try something."""
        act(world)
        return Value(value=1)

    return attempt


@pytest.fixture
def lazy_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module that nobody has imported, whose bytecode would be kept."""
    (tmp_path / "imported_late.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tmp_path
    sys.modules.pop("imported_late", None)


def test_a_module_that_is_imported_late_is_imported_and_writes_nothing(house: House, lazy_module: Path) -> None:
    found: list[int] = []

    ran = house.write(acting(lambda _: found.append(importlib.import_module("imported_late").VALUE)))

    assert (ran.status, found) == (Status.DONE, [7])
    assert not (lazy_module / "__pycache__").exists()


def test_the_import_system_is_no_way_to_write_a_file(house: House, tmp_path: Path) -> None:
    loader: Any = importlib.machinery.SourceFileLoader("x", str(tmp_path / "x.py"))

    house.write(acting(lambda _: loader.set_data(str(tmp_path / "__pycache__" / "x.pyc"), b"evil")))

    assert not (tmp_path / "__pycache__").exists()


def test_a_flow_reads_files_and_logs(house: House, tmp_path: Path) -> None:
    (tmp_path / "word.txt").write_text("word")
    stream = (tmp_path / "log").open("w")
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("tests.flow")
    logger.addHandler(handler)

    ran = house.write(acting(lambda _: logger.warning((tmp_path / "word.txt").read_text())))

    logger.removeHandler(handler)
    stream.close()
    assert (ran.status, (tmp_path / "log").read_text()) == (Status.DONE, "word\n")


def test_what_is_called_may_use_sockets_files_threads_and_another_database(house: House, tmp_path: Path) -> None:
    def outside(_key: str) -> None:
        (tmp_path / "made").write_text("x")
        socket.create_server(("127.0.0.1", 0)).close()
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
        with other.begin() as connection:
            connection.execute(text("CREATE TABLE x (y)"))
        other.dispose()

    ran = house.write(acting(lambda world: world.call("disk", outside), calls("disk")))

    assert ran.status is Status.DONE, ran.message
    assert (tmp_path / "other.db").stat().st_size > 0


@pytest.mark.db
def test_what_is_called_does_not_use_our_database(house: House) -> None:
    def outside(_key: str) -> None:
        with suppress(FlowError), house.database.writing.begin() as connection:
            connection.execute(update(Counter).values(value=9))
        with suppress(FlowError):
            house.database.writing.raw_connection().cursor().execute("UPDATE app_counter SET value = 9")

    ran = house.write(acting(lambda world: world.call("disk", outside), calls("disk")))

    assert (ran.status, house.counter()) == (Status.UNKNOWN, 0)


def test_after_its_call_a_flow_is_kept_in_again(house: House, tmp_path: Path) -> None:
    def act(world: World) -> None:
        world.call("disk", lambda _key: None)
        (tmp_path / "made").write_text("x")

    ran = house.write(acting(act, calls("disk")))

    assert (ran.status, (tmp_path / "made").exists()) == (Status.UNKNOWN, False)


@pytest.mark.db
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_flow_that_reads_is_kept_in(house: House, tmp_path: Path, *, swallowed: bool) -> None:
    def read(_params: Nothing, world: World) -> Value:
        value = world.session.scalars(select(Counter.value)).one()
        with suppress(*[OutsideReach] * swallowed):
            (tmp_path / "made").write_text("x")
        return Value(value=value)

    ran = house.read(replace(get_counter, function=read))

    assert (ran.status, ran.code, ran.message) == (Status.FAILED, "outside_reach", OutsideReach.public)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("swallowed", [False, True])
def test_the_facts_of_a_question_are_kept_in(house: House, tmp_path: Path, *, swallowed: bool) -> None:
    def facts(_params: Nothing, _world: World) -> dict[str, object]:
        with suppress(*[OutsideReach] * swallowed):
            (tmp_path / "made").write_text("x")
        return {}

    asking = replace(get_counter, facts=facts)
    admitted = house.admit(asking)

    with pytest.raises(OutsideReach):
        house.engine.facts(asking, admitted.arguments, admitted.caller)
    assert not (tmp_path / "made").exists()


def test_our_own_flows_are_not_kept_in(house: House, tmp_path: Path) -> None:
    def read(_params: Nothing, _world: World) -> Value:
        (tmp_path / "made").write_text("x")
        return Value(value=0)

    assert house.read(replace(get_counter, function=read, source=Source.BUILTIN)).status is Status.DONE


def test_other_threads_are_free_while_a_flow_runs(house: House, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(_world: World) -> None:
        begun.set()
        go_on.wait(10)

    thread = threading.Thread(target=lambda: house.write(acting(wait)))
    thread.start()
    begun.wait(10)
    (tmp_path / "made").write_text("x")
    threading.Timer(0, go_on.set).start()
    thread.join()

    assert (tmp_path / "made").exists()


def test_the_hook_is_installed_once_and_ends_with_the_flow(house: House, tmp_path: Path) -> None:
    start = threading.Thread.start
    install_confinement()
    house.read(get_counter)

    assert threading.Thread.start is start
    assert confine.CONFINED.watcher is None
    (tmp_path / "made").write_text("x")


class Permissive:
    """Lets everything be, and notes it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def outside(self, what: str) -> FlowError | None:
        self.seen.append(what)
        return None

    def elsewhere(self, what: str, *, is_ours: bool) -> FlowError | None:
        raise AssertionError(what, is_ours)


def test_only_what_reaches_out_is_asked_about(tmp_path: Path) -> None:
    install_confinement()
    watcher = Permissive()
    with confined(watcher):
        (tmp_path / "made").write_text("x")
        (tmp_path / "made").read_text()
        list(tmp_path.iterdir())
        sys.audit("ctypes.dlopen", None)
        sys.audit("ctypes.dlopen", "libc.so.6")

    assert watcher.seen == ["open", "ctypes.dlopen"]
