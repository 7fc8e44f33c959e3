"""`name=value` as the arguments of a tool, read by its input schema; every fault is named before anything is sent."""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cli.trying.refusals import WrongArguments
from cli.trying.text import compact, line

WORD = re.compile(r"(.+?)(:?=)(.*)", re.DOTALL)
DEEPEST = 8
LONGEST_SHOWN = 60
ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}

UNREAD = object()

Types = frozenset[str] | None  # None: any


def read_arguments(schema: Mapping[str, Any], words: Iterable[str], given: str | None = None) -> dict[str, Any]:
    """Give the arguments in `words` and in the JSON object `given`; raise WrongArguments naming every fault at once."""
    faults: list[str] = []
    arguments = _object(given, faults)
    unread: set[str] = set()
    for word in words:
        name, value = _pair(word, schema, faults)
        if name is None:
            continue
        if name in arguments.keys() | unread:
            faults.append(f"{line(name, LONGEST_SHOWN)} is given twice")
        if value is UNREAD:
            unread.add(name)
        else:
            arguments[name] = value
    faults += _faults(schema, arguments, unread)
    if faults:
        raise WrongArguments(f"{'; '.join(faults)}. {_right_names(schema)}")
    return arguments


def properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments that the schema names, each with its own schema."""
    found = schema.get("properties")
    return dict(found) if isinstance(found, dict) else {}


def required(schema: Mapping[str, Any]) -> list[str]:
    """Give the names that a call can't do without."""
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def types_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Types:
    """Give the JSON types that `schema` accepts, None for any; only references inside `root` are followed."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return None
    if isinstance(schema.get("$ref"), str):
        return types_of(_referred(schema["$ref"], root), root, depth + 1)
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(one for one in named if isinstance(one, str)) or None
    allowed = values_of(schema, root)
    return frozenset(map(_type, allowed)) if allowed else _joined(schema, root, depth)


def values_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Any]:
    """Give the only values that `schema` accepts, an empty list where it names none."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return []
    if isinstance(schema.get("$ref"), str):
        return values_of(_referred(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else []


def _joined(schema: dict[str, Any], root: Mapping[str, Any], depth: int) -> Types:
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            parts = [types_of(one, root, depth + 1) for one in schema[word]]
            known = [part for part in parts if part is not None]
            return frozenset().union(*known) if len(known) == len(parts) and known else None
    for one in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        if (found := types_of(one, root, depth + 1)) is not None:
            return found
    return None


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        return None
    found: Any = root
    for part in reference[2:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _object(given: str | None, faults: list[str]) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        value = _json(given)
    except ValueError as error:
        faults.append(f"--args isn't JSON: {error}")
        return {}
    if isinstance(value, dict):
        return value
    faults.append(f"--args must be a JSON object, not {_type(value)}")
    return {}


def _pair(word: str, schema: Mapping[str, Any], faults: list[str]) -> tuple[str | None, Any]:
    found = WORD.fullmatch(word)
    if found is None:
        faults.append(f"{line(word, LONGEST_SHOWN)!r} isn't like name=value")
        return None, None
    name, forced, text = found[1], found[2] == ":=", found[3]
    types = types_of(properties(schema).get(name), schema)
    if not forced and (types is None or "string" in types):
        return name, text
    try:
        return name, _json(text)
    except ValueError:
        wanted = "JSON" if forced else _wanted(types)
        faults.append(f"{line(name, LONGEST_SHOWN)} must be {wanted}, not {compact(text, LONGEST_SHOWN)}")
        return name, UNREAD


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _faults(schema: Mapping[str, Any], arguments: Mapping[str, Any], unread: Collection[str]) -> Iterator[str]:
    known = properties(schema)
    for name, value in arguments.items():
        if name in known:
            yield from _value_faults(name, value, known[name], schema)
        elif not schema.get("additionalProperties"):
            yield f"there is no argument {line(name, LONGEST_SHOWN)}{_meant(name, known)}"
    missing = [name for name in required(schema) if name not in arguments and name not in unread]
    if missing:
        yield f"missing: {', '.join(line(name, LONGEST_SHOWN) for name in missing)}"


def _value_faults(name: str, value: Any, schema: Any, root: Mapping[str, Any]) -> Iterator[str]:
    types, allowed = types_of(schema, root), values_of(schema, root)
    shown, got = line(name, LONGEST_SHOWN), compact(value, LONGEST_SHOWN)
    if types is not None and _type(value) not in types and not (_type(value) == "integer" and "number" in types):
        yield f"{shown} must be {_wanted(types)}, not {got}"
    elif allowed and value not in allowed:
        yield f"{shown} must be one of {compact(allowed, 4 * LONGEST_SHOWN)}, not {got}"


def _wanted(types: Types) -> str:
    return " or ".join(ARTICLES.get(one, f"a {line(one, LONGEST_SHOWN)}") for one in sorted(types or {"value"}))


def _meant(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name[:LONGEST_SHOWN], list(known)[:1000], 1)
    return f" (did you mean {line(close[0], LONGEST_SHOWN)}?)" if close else ""


def _right_names(schema: Mapping[str, Any]) -> str:
    needed = required(schema)
    names = [f"{line(name, LONGEST_SHOWN)}{'' if name in needed else '?'}" for name in properties(schema)]
    return f"The tool takes: {line(', '.join(names), 1000)}." if names else "The tool takes no arguments."


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds: tuple[tuple[type, str], ...] = (
        (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")
