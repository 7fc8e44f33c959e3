"""The house rules as code: layers, one door, no hidden time or chance, imports that do nothing."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from importlinter import configuration
from importlinter.application import use_cases

REPO = Path(__file__).resolve().parents[1]
PACKAGES = ("core", "flows", "policy", "auth", "mcp_provider", "web", "cli", "migrations")
FILES = sorted(path for package in PACKAGES for path in (REPO / package).rglob("*.py"))
MODULES = [path for path in FILES if path.name != "__init__.py" and path.parent.name not in ("versions", "demo")]

# Each place where time or chance enters the product; everybody else is handed them (design D12).
HIDDEN = re.compile(
    r"(datetime\.(now|utcnow|today)|date\.today|time\.(time|time_ns|localtime|gmtime)"
    r"|uuid\.uuid\d|uuid4|os\.urandom|secrets\.\w+|random\.\w+)\Z"
)
SOURCES_OF_TIME_AND_CHANCE = {"core/clock.py", "core/ids.py"}
NO_SECRET = {"flows/retries.py: random.uniform"}  # how long two rivals wait before they try again

# One translator a surface turns surprises into answers; threads and runs that must outlive one are named with it.
MAY_CATCH_EVERYTHING = {
    "mcp_provider/endpoint.py",
    "flows/engine.py",
    "flows/writes.py",
    "flows/world.py",  # notes how a call was lost, and raises it again
    "flows/worlds.py",
    "flows/outbox.py",
    "flows/loading.py",  # an application's module may raise anything while it is imported
}


def _name(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _where(holds: Callable[[ast.AST], bool]) -> list[str]:
    return [
        f"{_name(path)}:{getattr(node, 'lineno', 0)}" for path in FILES for node in ast.walk(_tree(path)) if holds(node)
    ]


def test_each_layer_imports_only_from_those_to_its_left():
    # In a process of its own: import-linter switches off every logger that there is, which other tests look at.
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_imports_app():
    found = [_name(path) for path in FILES if any(name.split(".")[0] == "app" for name in _imports(path))]

    assert found == []


def test_only_the_door_starts_a_run():
    found = [_name(path) for path in FILES if "flows.engine" in _imports(path)]

    assert set(found) <= {"policy/dispatch.py"}
    assert {_name(path) for path in FILES if "flows.writes.Writes" in _imports(path)} == {"flows/engine.py"}


def test_the_parts_that_meet_no_network_know_nothing_of_flask_requests():
    web = {"web", "mcp_provider", "auth", "core"}
    found = [_name(path) for path in FILES if "flask.request" in _imports(path)]

    assert [name for name in found if name.split("/")[0] not in web] == []


def test_init_files_are_empty():
    found = [_name(path) for path in FILES if path.name == "__init__.py" and path.read_text("utf-8").strip()]

    assert found == []


def test_time_and_chance_enter_in_two_files_only():
    found = {
        f"{_name(path)}: {ast.unparse(node)}"
        for path in FILES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute | ast.Name) and HIDDEN.match(ast.unparse(node))
    }

    assert {text for text in found if text.split(":")[0] not in SOURCES_OF_TIME_AND_CHANCE} == NO_SECRET


def test_only_translators_catch_everything():
    def catches_everything(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler):
            return False
        return node.type is None or bool(re.search(r"\b(Base)?Exception\b", ast.unparse(node.type)))

    assert {place.split(":")[0] for place in _where(catches_everything)} == MAY_CATCH_EVERYTHING


def test_no_check_is_an_assert():
    # Python drops asserts under -O.
    assert _where(lambda node: isinstance(node, ast.Assert)) == []


def test_every_suppression_names_its_code():
    bare = re.compile(r"#\s*(noqa(?!:\s*[A-Z])|type:\s*ignore(?!\[))")
    found = [_name(path) for path in FILES if bare.search(path.read_text("utf-8"))]

    assert found == []


def test_a_public_name_says_what_it_promises():
    def is_silent(node: ast.AST) -> bool:
        kinds = (ast.FunctionDef, ast.ClassDef)
        return isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node)

    found = [
        f"{_name(path)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in _top_level(_tree(path))
        if is_silent(node)
    ]

    assert found == []


def _top_level(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node


IMPORT_EVERYTHING = """
import importlib, os, socket, sys, threading

class Sealed(dict):
    def _refuse(self, name):
        if str(name).startswith("COUNTERSIGN_"):
            raise AssertionError(f"read {name} at import")
    def __getitem__(self, name): self._refuse(name); return super().__getitem__(name)
    def get(self, name, default=None): self._refuse(name); return super().get(name, default)
    def __contains__(self, name): self._refuse(name); return super().__contains__(name)

def audit(event, arguments):
    if event in ("socket.connect", "socket.bind", "subprocess.Popen", "os.mkdir", "sqlite3.connect", "os.fork"):
        raise AssertionError(f"{event} at import: {arguments}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise AssertionError(f"wrote at import: {arguments}")

sys.dont_write_bytecode = True
import sqlalchemy, flask, mcp_types  # what libraries do at import is theirs
importlib.import_module("flask_sqlalchemy")
os.environ = Sealed(os.environ)
sys.addaudithook(audit)
for name in sys.argv[1:]:
    importlib.import_module(name)
assert threading.active_count() == 1, threading.enumerate()
assert os.listdir() == [], os.listdir()
"""


def test_importing_does_nothing(tmp_path):
    names = [_name(path).removesuffix(".py").replace("/", ".") for path in MODULES]
    importable = [name for name in names if name != "migrations.env"]  # Alembic runs it, nothing imports it
    command = [sys.executable, "-c", IMPORT_EVERYTHING, *importable, "app"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(REPO)}, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("contract", ["Each layer imports only from those to its left", "Only the door starts a run"])
def test_the_layer_contracts_are_still_declared(contract):
    configuration.configure()
    options = use_cases.read_user_options(config_filename=str(REPO / "pyproject.toml"))

    assert contract in {one["name"] for one in options.contracts_options}
