"""The application's modules: whatever is wrong with them is named at once, and where."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from flows.faults import Fault, FaultRule, FlowFaults
from flows.loading import OUR_NAMES, Loaded, load_flows
from flows.registry import Registry
from tests.support.server import CLI, REPO, clean_environment

Write = Callable[[str, str], Path]
HEAD = """
from flows.effects import reads, sends, writes
from flows.operation import FlowError, Params, Result, flow
from flows.world import World
from sqlalchemy import Column, Integer, MetaData, Table

CAKE = Table("cake", MetaData(), Column("id", Integer, primary_key=True))

class Which(Params):
    cake: int

class Cake(Result):
    cake: int

"""
SOUND = (
    HEAD
    + '''
@flow(id="cakes.get", title="Look at a cake", effects=[reads("cakes", CAKE)])
def get_cake(params: Which, world: World) -> Cake:
    """Show one cake."""
    return Cake(cake=params.cake)
'''
)
# Each of these mistakes once stopped the module's import, and hid what follows it.
MISTAKES = (
    HEAD
    + '''
@flow(id="cakes.typed", title="No types", effects=[reads("cakes", CAKE)])
def typed(params, world):
    """Has no annotations."""

@flow(id="cakes.unknown", title="Unknown type", effects=[reads("cakes", CAKE)])
def unknown(params: "Witch", world: World) -> Cake:
    """Names a type that isn't there."""

@flow(id="cakes.later", title="Async", effects=[reads("cakes", CAKE)])
async def later(params: Which, world: World) -> Cake:
    """Is no plain function."""

@flow(id="cakes.single", title="One effect", effects=reads("cakes", CAKE))
def single(params: Which, world: World) -> Cake:
    """Declares an effect outside of a list."""

@flow(id="cakes.fails", title="One error", effects=[reads("cakes", CAKE)], errors=(ValueError,))
def fails(params: Which, world: World) -> Cake:
    """Declares an error that is none of ours."""

@flow(id="cakes.eat", title="", effects=[writes("cakes", CAKE), sends("sms")])
def eat(params: Which, world: World) -> Cake:
    """Has no title, no sentence, and sends where nothing is delivered."""
'''
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A function that writes a module into the working directory, which is on the search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


def faults_of(*modules: str) -> list[tuple[str, str | None, int | None]]:
    loaded = load_flows(modules)
    return [(fault.rule.value, fault.file, fault.line) for fault in loaded.faults]


def test_flows_are_loaded_in_order_and_once_each(write: Write) -> None:
    write("cakes.py", SOUND)
    write("more.py", "from cakes import get_cake\n")
    loaded = load_flows(["cakes", "more", "cakes"])

    assert [flow.id for flow in loaded.flows] == ["cakes.get"]
    assert loaded.faults == ()


def test_a_fault_of_one_module_hides_none_of_another_and_none_of_a_later_flow(write: Write) -> None:
    write("cakes/__init__.py", "")
    write("cakes/flows.py", SOUND)
    path = write("cakes/wrong.py", MISTAKES)
    write("cakes/empty.py", "")
    loaded = load_flows(["no_such.flows", "cakes.flows", "cakes.wrong", "cakes.empty"])
    with pytest.raises(FlowFaults) as refused:
        Registry(loaded.flows, loaded.faults)

    assert [(fault.flow, fault.rule.value) for fault in refused.value.faults] == [
        (None, "module_missing"),
        (None, "no_flow"),
        ("cakes.typed", "signature"),
        ("cakes.unknown", "signature"),
        ("cakes.later", "signature"),
        ("cakes.single", "effects_list"),
        ("cakes.fails", "errors_list"),
        ("cakes.eat", "title_missing"),
        ("cakes.eat", "effect_undelivered"),
        ("cakes.eat", "asks_missing"),
    ]
    lines = path.read_text().splitlines()
    for fault in refused.value.faults[2:]:
        assert fault.file == "cakes/wrong.py"
        assert fault.line
        assert f'"{fault.flow}"' in lines[fault.line - 1]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("def x(:\n", 1, "SyntaxError"),
        ("\nimport no_such_library\n", 2, "No module named 'no_such_library'"),
        ("\n\nfrom flows.effects import reeds\n", 3, "cannot import name 'reeds'"),
        ("1 / 0\n", 1, "ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        (HEAD + "reads('cakes', Which)\n", 15, "is neither a mapped class nor a Table"),
        (HEAD + "@flow(name='x')\ndef x(): ...\n", 15, "unexpected keyword argument 'name'"),
        ("from cakes import inside\n", 2, "ZeroDivisionError"),
    ],
)
def test_a_module_that_raises_is_named_with_the_line(write: Write, text: str, line: int, words: str) -> None:
    write("cakes/__init__.py", "")
    write("cakes/inside.py", "\n1 / 0\n")
    write("cakes/flows.py", text)
    fault = load_flows(["cakes.flows"]).faults[0]

    file = "cakes/inside.py" if "inside" in text else "cakes/flows.py"
    assert (fault.rule, fault.file, fault.line) == (FaultRule.MODULE_BROKEN, file, line)
    assert words in fault.sentence
    assert "\n" not in str(fault)


@pytest.mark.parametrize("name", ["no_such", "no_such.flows", "cakes.no_such", "cakes/flows.py", "", ".cakes", "a b"])
def test_a_module_that_isnt_there_is_told_from_one_that_is_broken(write: Write, name: str) -> None:
    write("cakes/__init__.py", "")

    assert faults_of(name) == [("module_missing", name, None)]


@pytest.mark.parametrize("name", [*OUR_NAMES, "web.flows", "flows.mine", "core.flows.deep"])
def test_a_module_by_a_name_of_ours_is_refused_and_the_name_said(name: str) -> None:
    loaded = load_flows([name])

    assert [fault.rule for fault in loaded.faults] == [FaultRule.NAME_TAKEN]
    said = f"{name.partition('.')[0]} is the name of a module of Countersign's own"
    assert loaded.faults[0].sentence.startswith(said)


def test_the_demo_shop_is_no_such_module() -> None:
    assert load_flows(["flows.catalogue.orders"]).faults == ()


@pytest.mark.parametrize("file", ["web/__init__.py", "core.py", "app.py"])
def test_a_module_that_python_finds_in_the_place_of_ours_is_named(write: Write, file: str) -> None:
    write(file, "")
    write("cakes.py", SOUND)

    assert faults_of("cakes") == [("name_taken", file, None)]


@pytest.mark.parametrize("folder", ["migrations", "web", "static"])
def test_a_folder_that_is_no_package_is_no_clash(write: Write, folder: str) -> None:
    write(f"{folder}/env.txt", "")
    write("cakes.py", SOUND)

    assert faults_of("cakes") == []


def test_all_flows_that_can_be_had_are_given_beside_the_faults(write: Write) -> None:
    write("cakes.py", SOUND)
    write("bad.py", "1 / 0")
    loaded = load_flows(["bad", "cakes"])

    assert isinstance(loaded, Loaded)
    assert [flow.id for flow in loaded.flows] == ["cakes.get"]
    assert isinstance(loaded.faults[0], Fault)


def run(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | {"PYTHONPATH": str(REPO)} | settings
    # -P: as the console script, whose folder of its own comes first and not the working directory.
    command = [CLI[0], "-P", *CLI[1:], *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_command_names_every_fault_and_ends_with_1(write: Write, tmp_path: Path) -> None:
    write("cakes.py", MISTAKES)
    done = run(tmp_path, "flows", "check", "cakes", "no_such")
    listed = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (1, "")
    assert listed[0].startswith("no_such [module_missing] ")
    assert any(line.startswith("cakes.py:") and " cakes.eat [asks_missing] " in line for line in listed)
    assert len(listed) == 9
    assert not (tmp_path / "instance").exists()


def test_the_command_finds_the_package_in_the_working_directory_and_needs_no_key(write: Write, tmp_path: Path) -> None:
    write("cakes.py", SOUND)
    done = run(tmp_path, "flows", "check", COUNTERSIGN_FLOWS="cakes")
    data = run(tmp_path, "flows", "check", "cakes", "--json")

    assert (done.returncode, done.stdout) == (0, "1 flows, no faults.\n")
    assert json.loads(data.stdout) == {"flows": 1, "faults": []}


def test_a_start_is_stopped_with_the_same_list(write: Write, tmp_path: Path) -> None:
    write("cakes.py", MISTAKES)
    key = {"COUNTERSIGN_SECRET_KEYS": "k" * 43, "COUNTERSIGN_FLOWS": "cakes"}
    program = "import app; app.create_app()"
    served = run(tmp_path, "serve", **key)
    environment = clean_environment() | key | {"PYTHONPATH": os.pathsep.join([str(REPO), str(tmp_path)])}
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    data = json.loads(run(tmp_path, "flows", "check", "--json", **key).stdout)

    assert served.returncode == 1
    assert served.stderr.startswith("countersign: flow_faults: 8 faults in the flows.\n")
    assert [fault["rule"] for fault in data["faults"]].count("signature") == 3
    assert len(data["faults"]) == 8
    for fault in data["faults"]:
        assert f"{fault['file']}:{fault['line']} {fault['flow']} [{fault['rule']}]" in served.stderr
        assert f"[{fault['rule']}]" in made.stderr
    assert made.returncode == 1
    assert "FlowFaults" in made.stderr
