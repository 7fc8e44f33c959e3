"""What is wrong with flows, and where. Every rule has a name that stays; docs/flows.md lists them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.errors import AppError


class FaultRule(StrEnum):
    """The rules that a flow's declaration is held to."""

    MODULE_MISSING = "module_missing"
    MODULE_BROKEN = "module_broken"
    NO_FLOW = "no_flow"
    NAME_TAKEN = "name_taken"
    SIGNATURE = "signature"
    EFFECTS_LIST = "effects_list"
    ERRORS_LIST = "errors_list"
    ID_FORM = "id_form"
    ID_TAKEN = "id_taken"
    TOOL_NAME_LONG = "tool_name_long"
    TOOL_NAME_TAKEN = "tool_name_taken"
    TITLE_MISSING = "title_missing"
    DOCSTRING_MISSING = "docstring_missing"
    VERSION_LOW = "version_low"
    AT_ONCE_LOW = "at_once_low"
    PARAM_RESERVED = "param_reserved"
    PARAM_NAMES = "param_names"
    AMOUNT_UNKNOWN = "amount_unknown"
    SCHEMA = "schema"
    EFFECT_TABLES = "effect_tables"
    EFFECT_UNDELIVERED = "effect_undelivered"
    EFFECT_OUTSIDE = "effect_outside"
    EFFECT_TWICE = "effect_twice"
    CASCADE = "cascade"
    TARGET_FORM = "target_form"
    OUR_TABLES = "our_tables"
    SCOPE_FORM = "scope_form"
    OUR_SCOPE = "our_scope"
    RULE_MISSING = "rule_missing"
    RULE_CLIENT = "rule_client"
    ASKS_MISSING = "asks_missing"
    ASKS_FORM = "asks_form"
    ASKS_UNKNOWN = "asks_unknown"
    ASKS_SENSITIVE = "asks_sensitive"
    PROMPT = "prompt"
    RESOURCE = "resource"
    RESOURCE_TAKEN = "resource_taken"


Found = tuple[FaultRule, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One rule that a flow, or a module of flows, doesn't keep; `file` and `line` are None where nothing was found."""

    rule: FaultRule
    sentence: str
    flow: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        where = " ".join(part for part in (place, self.flow) if part)
        return f"{where} [{self.rule}] {self.sentence}".strip()


class FlowFaults(AppError):
    """Flows that can't be served as they are declared; the text names every fault, a line each."""

    code = "flow_faults"
    remedy = "Correct each line that is named; `countersign flows check` says what is left."

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        counted = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{counted} in the flows.", *map(str, faults)]))
