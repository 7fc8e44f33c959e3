"""The rules that one flow's declaration is held to; each has its name in `FaultRule`."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from flows.cascades import of_delete
from flows.effects import Effect, Verb
from flows.faults import Fault, FaultRule, Found
from flows.marks import Mark, marks_of
from flows.operation import Flow, FlowFault, Rule, Source, asked_fields
from flows.schema import input_schema, output_schema

ID = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")
RESOURCE = re.compile(r"(?!countersign:)[a-z][a-z0-9+.-]*://[A-Za-z0-9._~/{}-]+")
SCOPE = re.compile(r"[a-z][a-z0-9_-]*:[a-z0-9_:-]+")
LONGEST_TOOL_NAME = 48  # clients prefix it and stop at 64 (clients.md)
LONGEST_TARGET = 80
RESERVED_PARAMS = frozenset({"confirmToken", "confirmation", "requestId"})
TAKEN_TOOLS = frozenset({"action_invoke", "action_confirm"})  # other names of every flow's call, no flows themselves
OUR_TABLES = "cs_"
OUR_SCOPES = ("mcp:", "console:", "offline_access")
DELIVERED = frozenset({"email"})
WITH_TABLES = (Verb.READ, Verb.WRITE, Verb.DELETE)


def faults_of(flow: Flow) -> list[Fault]:
    """Name every rule that the flow doesn't keep, with the place where it is declared."""
    found = list(flow.faults)
    wrong = {rule for rule, _ in found}
    for check, needed in CHECKS:
        if needed not in wrong:
            found += check(flow)
    if not {FaultRule.SIGNATURE, FaultRule.SCHEMA}.intersection(rule for rule, _ in found):
        found += _check_asks(flow)  # marks are looked for in sound models only: a recursive one has no end
    return [fault(flow, rule, sentence) for rule, sentence in found]


def fault(flow: Flow, rule: FaultRule, sentence: str) -> Fault:
    """Give a fault of this flow, with the place where it is declared."""
    code = getattr(inspect.unwrap(flow.function), "__code__", None)
    file, line = (None, None) if code is None else (shown_path(code.co_filename), code.co_firstlineno)
    return Fault(rule=rule, sentence=sentence, flow=flow.id, file=file, line=line)


def shown_path(file: str) -> str:
    """Give the path as a person at the working directory writes it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _check_name(flow: Flow) -> Iterator[Found]:
    if not ID.fullmatch(flow.id):
        yield FaultRule.ID_FORM, "an id has words of a-z and 0-9, joined by dots or underscores"
    if len(flow.tool_name) > LONGEST_TOOL_NAME:
        yield FaultRule.TOOL_NAME_LONG, f"its tool name is longer than {LONGEST_TOOL_NAME} characters"
    if flow.tool_name in TAKEN_TOOLS:
        yield FaultRule.TOOL_NAME_TAKEN, f"the tool name {flow.tool_name} is taken"
    if not flow.title.strip():
        yield FaultRule.TITLE_MISSING, "it needs a title"
    if not flow.summary.strip():
        yield FaultRule.DOCSTRING_MISSING, "it needs a docstring that says what it is for, and what not"
    if flow.version < 1:
        yield FaultRule.VERSION_LOW, "a version starts at 1"
    if flow.at_once is not None and flow.at_once < 1:
        yield FaultRule.AT_ONCE_LOW, "at_once is at least 1; without it there is no limit"


def _check_params(flow: Flow) -> Iterator[Found]:
    for name, field in flow.params.model_fields.items():
        for reserved in RESERVED_PARAMS.intersection({name, field.alias, field.serialization_alias}):
            yield FaultRule.PARAM_RESERVED, f"the parameter {reserved} is reserved"
        if field.alias != field.serialization_alias:
            yield FaultRule.PARAM_NAMES, f"the parameter {name} must be read and written under one name"
    if flow.amount is not None and flow.amount not in flow.params.model_fields:
        yield FaultRule.AMOUNT_UNKNOWN, f"amount names {flow.amount}, which is no parameter"


def _check_resource(flow: Flow) -> Iterator[Found]:
    if flow.resource is None:
        return
    if not RESOURCE.fullmatch(flow.resource):
        yield FaultRule.RESOURCE, f"the resource {flow.resource} must be like shop://menu or shop://orders/{{number}}"
    if not flow.only_reads:
        yield FaultRule.RESOURCE, "only a flow that reads can be read as a resource"
    if flow.client_capabilities:
        yield FaultRule.RESOURCE, "a flow that needs something of its client can't be read as a resource"
    try:
        named = asked_fields(flow.resource)
    except ValueError as error:
        yield FaultRule.RESOURCE, f"resource: {error}"
        return
    texts = {name for name, field in flow.params.model_fields.items() if field.annotation is str}
    required = {name for name, field in flow.params.model_fields.items() if field.is_required()}
    if not required <= set(named) <= texts:
        yield FaultRule.RESOURCE, "its address names every required parameter, and only parameters that are text"


def _check_schemas(flow: Flow) -> Iterator[Found]:
    models: tuple[tuple[Callable[[Any], object], type], ...] = (
        (input_schema, flow.params),
        (output_schema, flow.result),
    )
    for make, model in models:
        try:
            make(model)
        except FlowFault as unsayable:
            yield FaultRule.SCHEMA, unsayable.public


def _check_effects(flow: Flow) -> Iterator[Found]:
    for effect in flow.effects:
        if effect.verb in WITH_TABLES and not effect.tables and not effect.outside:
            yield FaultRule.EFFECT_TABLES, f"{effect} names no table"
        if effect.verb is Verb.SEND and effect.target not in DELIVERED:
            yield FaultRule.EFFECT_UNDELIVERED, f"nothing delivers what is sent to {effect.target}"
        if effect.outside and not flow.only_reads:
            yield FaultRule.EFFECT_OUTSIDE, f"{effect}: a flow that doesn't only read declares what it asks with calls"
        if not effect.target or len(effect.target) > LONGEST_TARGET:
            yield FaultRule.TARGET_FORM, f"{effect}: a target has 1 to {LONGEST_TARGET} characters"
        if flow.source is Source.FLOW and any(_is_ours(table) for table in effect.tables):
            yield FaultRule.OUR_TABLES, f"{effect}: the tables {OUR_TABLES}… are not the application's"
    if len(set(_pairs(flow.effects))) != len(flow.effects):
        yield FaultRule.EFFECT_TWICE, "an effect is declared twice"


def _check_cascades(flow: Flow) -> Iterator[Found]:
    """Name what a delete reaches by the foreign keys of the models; what a trigger reaches only the database knows."""
    deleted, written = _tables_of(flow, Verb.DELETE), _tables_of(flow, Verb.WRITE)
    for effect in flow.effects:
        for table in effect.mapped:
            reach = of_delete(table)
            for name in sorted(reach.deletes - deleted):
                yield FaultRule.CASCADE, f"{effect} doesn't name {name}, from which the database deletes with it"
            for name in sorted(reach.writes - written):
                yield FaultRule.CASCADE, f"{effect}: no write names {name}, to which the database writes with it"


def _tables_of(flow: Flow, verb: Verb) -> frozenset[str]:
    return frozenset(table for effect in flow.effects if effect.verb is verb for table in effect.tables)


def _pairs(effects: Iterable[Effect]) -> list[tuple[Verb, str]]:
    return [(effect.verb, effect.target) for effect in effects]


def _is_ours(table: str) -> bool:
    return table.rpartition(".")[2].startswith(OUR_TABLES)


def _check_scope(flow: Flow) -> Iterator[Found]:
    if flow.scope is None:
        return
    if not SCOPE.fullmatch(flow.scope):
        yield FaultRule.SCOPE_FORM, f"the scope {flow.scope} must be like orders:refund"
    if flow.source is Source.FLOW and flow.scope.startswith(OUR_SCOPES):
        yield FaultRule.OUR_SCOPE, f"the scope {flow.scope} is not the application's"


def _check_confirmation(flow: Flow) -> Iterator[Found]:
    if flow.source is Source.FLOW and not flow.only_reads and flow.rule is None:
        yield FaultRule.RULE_MISSING, "what isn't read-only needs a confirmation rule"
    if flow.rule is not None and not (flow.asks or "").strip():
        yield FaultRule.ASKS_MISSING, "what a person confirms needs `asks`, the sentence that they decide on"
    if flow.rule is Rule.CLIENT and (flow.deletes or flow.amount or not flow.unattended):
        yield FaultRule.RULE_CLIENT, "rule client is only for unattended flows without a delete or an amount"


def _check_asks(flow: Flow) -> Iterator[Found]:
    try:
        names = asked_fields(flow.asks or "")
    except ValueError as error:
        yield FaultRule.ASKS_FORM, f"asks: {error}"
        return
    fields, marks = flow.params.model_fields, marks_of(flow.params)
    for name in names:
        if name not in fields:
            if flow.facts is None:
                yield FaultRule.ASKS_UNKNOWN, f"asks: {name} is no parameter, and there are no facts to read it from"
        elif mark := marks.get(fields[name].serialization_alias or name):
            held = mark if isinstance(mark, Mark) else "partly sensitive or secret"
            yield (
                FaultRule.ASKS_SENSITIVE,
                f"asks: {name} is {held}, and the sentence is kept when the arguments are erased",
            )


# A check stands beside the fault after which it has nothing to look at.
CHECKS: tuple[tuple[Callable[[Flow], Iterator[Found]], FaultRule | None], ...] = (
    (_check_name, None),
    (_check_params, FaultRule.SIGNATURE),
    (_check_resource, FaultRule.SIGNATURE),
    (_check_schemas, FaultRule.SIGNATURE),
    (_check_effects, FaultRule.EFFECTS_LIST),
    (_check_cascades, FaultRule.EFFECTS_LIST),
    (_check_scope, None),
    (_check_confirmation, FaultRule.EFFECTS_LIST),
)
