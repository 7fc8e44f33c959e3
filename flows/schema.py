"""JSON Schemas that every MCP client can read: inlined, closed, without null, made from pydantic's (checklist T5)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from flows.envelope import Status
from flows.operation import FlowFault, Params, Result

NO_EXTRA: Mapping[str, Any] = MappingProxyType({})
DROPPED = frozenset({"title", "$defs", "discriminator"})
SUBSCHEMAS = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
SUBSCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SUBSCHEMA_MAPS = frozenset({"properties", "patternProperties"})
TEXT = MappingProxyType({"type": "string"})
REFUSAL = MappingProxyType(
    {
        "type": "object",
        "description": "Why not, and what helps.",  # not spelled out further: every write tool carries this
        "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        "required": ["code", "message"],
    }
)


def input_schema(params: type[Params], *, extra: Mapping[str, Any] = NO_EXTRA) -> dict[str, Any]:
    """Give the schema of a flow's arguments; `extra` properties are added as optional. Raises FlowFault.

    Optional means: not required, and never null.
    """
    schema = _Plain(params, "validation").schema()
    if extra:
        schema["properties"] = {**schema["properties"], **extra}
    return schema


def output_schema(result: type[Result]) -> dict[str, Any]:
    """Give the schema of a flow's result, in which a None field is left out. Raises FlowFault."""
    return _Plain(result, "serialization").schema()


def write_outcome_schema(result: type[Result] | None) -> dict[str, Any]:
    """Give the closed object that a write tool answers with in every outcome (design D4); None: any result."""
    return {
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": [status.value for status in Status]},
            "runId": dict(TEXT),
            "result": {"type": "object"} if result is None else output_schema(result),
            "confirmationId": dict(TEXT),
            "confirmUrl": dict(TEXT),
            "confirmToken": dict(TEXT),
            "confirmVia": dict(TEXT),
            "expiresAt": dict(TEXT),
            "summary": dict(TEXT),
            "outcome": {"type": "string", "description": "What a spent confirmation paid for."},
            "unconfirmed": {"type": "boolean", "description": "Not confirmed by a person."},
            "replayed": {"type": "boolean", "description": "The answer of an earlier call with this requestId."},
            "refusal": dict(REFUSAL),
        },
        "required": ["status"],
        "additionalProperties": False,
    }


class _Plain:
    """Rewrites one model's pydantic schema; refuses what can't be said plainly."""

    def __init__(self, model: type[BaseModel], mode: str) -> None:
        self._name = model.__name__
        self._input = mode == "validation"
        try:
            self._raw = model.model_json_schema(mode="validation" if self._input else "serialization")
        except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
            raise FlowFault(f"{self._name}: no JSON Schema can be made of it ({type(error).__name__})") from None
        self._definitions: dict[str, Any] = self._raw.get("$defs", {})
        self._open: list[str] = []

    def schema(self) -> dict[str, Any]:
        """Give the plain schema, an object at its root."""
        plain = self._plain(self._raw)
        plain.pop("description", None)  # the tool's own description says what it is for
        if plain.get("type") != "object" or any(word in plain for word in SUBSCHEMA_LISTS):
            raise FlowFault(f"{self._name}: its schema must be a plain object at the root")
        plain.setdefault("properties", {})
        return plain

    def _plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return self._inlined(schema)
        self._check(schema)
        plain = {word: self._member(word, value) for word, value in schema.items() if word not in DROPPED}
        if "required" in plain:
            plain["required"] = self._required(schema)
        if not plain.get("required", True):
            del plain["required"]
        return plain

    def _member(self, word: str, value: Any) -> Any:
        if word in SUBSCHEMA_MAPS:
            return {name: self._field(part) for name, part in value.items()}
        if word in SUBSCHEMA_LISTS:
            return [self._plain(part) for part in value]
        if word in SUBSCHEMAS and isinstance(value, dict):
            return self._plain(value)
        return value

    def _inlined(self, schema: dict[str, Any]) -> dict[str, Any]:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in self._open:
            raise FlowFault(f"{self._name}: {name} contains itself; schemas can't be recursive")
        self._open.append(name)
        beside = {word: value for word, value in schema.items() if word not in DROPPED | {"$ref"}}
        inlined = self._plain(self._definitions[name])
        inlined.pop("description", None)  # a class's docstring is for its developers
        plain = {**inlined, **beside}
        self._open.pop()
        return plain

    def _field(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Give a property's schema without its null: it may be left out instead."""
        if _is_nullable(schema):
            kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
            beside = {word: value for word, value in schema.items() if word != "anyOf"}
            schema = {**beside, "anyOf": kinds} if len(kinds) > 1 else {**kinds[0], **beside}
        if schema.get("default", ...) is None:
            schema = {word: value for word, value in schema.items() if word != "default"}
        return self._plain(schema)

    def _required(self, schema: dict[str, Any]) -> list[str]:
        nullable = {name for name, part in schema["properties"].items() if _is_nullable(part)}
        missing_default = nullable.intersection(schema["required"])
        if self._input and missing_default:
            raise FlowFault(f"{self._name}: {', '.join(sorted(missing_default))} may be None, so it needs a default")
        return [name for name in schema["required"] if name not in nullable]

    def _check(self, schema: dict[str, Any]) -> None:
        if schema.get("type") == "null" or (isinstance(schema.get("type"), list) and "null" in schema["type"]):
            raise FlowFault(f"{self._name}: only a field itself may be None, not what is inside a list or a dict")
        if self._input and schema.get("uniqueItems"):
            # A set has no order, so two workers would make two digests of one call.
            raise FlowFault(f"{self._name}: sets have no order; use a tuple")


def _is_nullable(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())
