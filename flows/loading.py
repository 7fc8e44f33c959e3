"""The flows and prompts of the modules that COUNTERSIGN_FLOWS names, and everything that stood in the way."""

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import TracebackType

from flows.check import shown_path
from flows.faults import Fault, FaultRule
from flows.operation import Flow
from flows.prompt import Prompt, prompt_faults

HOME = Path(__file__).resolve().parents[1]
OUR_NAMES = ("app", "auth", "cli", "core", "flows", "mcp_provider", "migrations", "policy", "web")
DEMO = "flows.catalogue."
LONGEST_PROBLEM = 300
WHERE = "It is looked for in the working directory and among what is installed."
TAKEN = "is the name of a module of Countersign's own; give yours another name"
UNSEEN = "What this module declares can't be seen before that is put right"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The flows and prompts that could be had, and the faults of the modules that they come from."""

    flows: tuple[Flow, ...]
    faults: tuple[Fault, ...]
    prompts: tuple[Prompt, ...] = ()


def load_flows(modules: Sequence[str]) -> Loaded:
    """Import the modules and give what they declare, in order and once each, beside what went wrong."""
    found: dict[int, Flow | Prompt] = {}
    faults = list(_shadows())
    for name in modules:
        declared = _declared_in(name)
        if isinstance(declared, Fault):
            faults.append(declared)
        else:
            found.update({id(one): one for one in declared})
    flows = tuple(one for one in found.values() if isinstance(one, Flow))
    prompts = tuple(one for one in found.values() if isinstance(one, Prompt))
    return Loaded(flows, (*faults, *prompt_faults(prompts)), prompts)


def _shadows() -> Iterator[Fault]:
    """Name what this process's search path has in the place of a module of ours."""
    for name in OUR_NAMES:
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin and not Path(spec.origin).resolve().is_relative_to(HOME):
            yield Fault(rule=FaultRule.NAME_TAKEN, sentence=f"{name} {TAKEN}.", file=shown_path(spec.origin))


def _declared_in(name: str) -> list[Flow | Prompt] | Fault:
    if name.partition(".")[0] in OUR_NAMES and not name.startswith(DEMO):
        return Fault(rule=FaultRule.NAME_TAKEN, sentence=f"{name.partition('.')[0]} {TAKEN}.", file=name)
    if not all(part.isidentifier() for part in name.split(".")):
        return _missing(name, "isn't the name of a module, which is like shop.flows")
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an application's module may raise anything
        return _unimportable(name, error)
    declared = [value for value in vars(module).values() if isinstance(value, Flow | Prompt)]
    if not declared:
        file = getattr(module, "__file__", None)
        return Fault(rule=FaultRule.NO_FLOW, sentence=f"{name} declares no flow.", file=file and shown_path(file))
    return declared


def _unimportable(name: str, error: BaseException) -> Fault:
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return _missing(name, "can't be found")
    file, line = _place(name, error)
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_PROBLEM]
    return Fault(rule=FaultRule.MODULE_BROKEN, sentence=f"{problem}. {UNSEEN}.", file=file, line=line)


def _missing(name: str, problem: str) -> Fault:
    return Fault(rule=FaultRule.MODULE_MISSING, sentence=f"{name} {problem}. {WHERE}", file=name)


def _place(name: str, error: BaseException) -> tuple[str, int | None]:
    """Give the last place in the application's own package that led to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return shown_path(error.filename), error.lineno
    package = name.partition(".")[0]
    own = [frame for frame in _frames(error.__traceback__) if _package(frame) == package]
    if not own:
        return name, None
    return shown_path(own[-1].tb_frame.f_code.co_filename), own[-1].tb_lineno


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _package(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
