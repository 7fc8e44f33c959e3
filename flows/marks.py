"""Which values of a model are sensitive or secret, and the model's data without them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from flows.canonical import canonical
from flows.operation import Secret, Sensitive

MASK = "***"


class Mark(StrEnum):
    """How a value is kept."""

    SENSITIVE = "sensitive"  # as its digest
    SECRET = "secret"  # not at all


@dataclass(frozen=True, slots=True)
class Each:
    """The marks of every item of a list or of every value of a dict."""

    inside: "Marks"


Marks = Mark | Each | Mapping[str, "Marks"] | None
NONE: Mapping[str, Marks] = MappingProxyType({})


@cache
def marks_of(model: type[BaseModel]) -> Mapping[str, Marks]:
    """Give the marks of a model's fields by the names that JSON knows them by; empty when it has none."""
    found = {}
    for name, field in model.model_fields.items():
        marks = _marks(field.annotation, tuple(field.metadata))
        if marks:
            found[field.serialization_alias or field.alias or name] = marks
    return MappingProxyType(found)


def kept(value: Any, marks: Marks) -> Any:
    """Give JSON data as it may be stored: sensitive values as `{"sha256": …}`, secret ones as `***`."""
    if marks is None or value is None:
        return value
    if marks is Mark.SECRET:
        return MASK
    if marks is Mark.SENSITIVE:
        return {"sha256": hashlib.sha256(canonical(value)).hexdigest()}
    return _inside(value, marks, kept)


def masked(value: Any, marks: Marks) -> Any:
    """Give JSON data as a person or an agent may see it: secret values as `***`, sensitive ones as they are."""
    if marks is None or marks is Mark.SENSITIVE or value is None:
        return value
    return MASK if marks is Mark.SECRET else _inside(value, marks, masked)


def _inside(value: Any, marks: Marks, change: Any) -> Any:
    if isinstance(marks, Each):
        if isinstance(value, dict):
            return {key: change(item, marks.inside) for key, item in value.items()}
        return [change(item, marks.inside) for item in value] if isinstance(value, list) else value
    if isinstance(marks, Mapping) and isinstance(value, dict):
        return {key: change(item, marks.get(key)) for key, item in value.items()}
    return value


def _marks(annotation: Any, metadata: tuple[Any, ...]) -> Marks:
    if any(isinstance(item, Secret) or item is Secret for item in metadata):
        return Mark.SECRET
    if any(isinstance(item, Sensitive) or item is Sensitive for item in metadata):
        return Mark.SENSITIVE
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _marks(parts[0], parts[1:])
    if origin in (Union, UnionType):
        return _strictest([_marks(part, ()) for part in parts])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return marks_of(annotation) or None
    inside = _strictest([_marks(part, ()) for part in parts])
    return Each(inside) if inside else None


def _strictest(several: list[Marks]) -> Marks:
    """Join the marks of alternatives: what is marked in one of them is marked."""
    for mark in (Mark.SECRET, Mark.SENSITIVE):
        if mark in several:
            return mark
    each = [marks.inside for marks in several if isinstance(marks, Each)]
    if each:
        return Each(_strictest(each))
    joined: dict[str, Marks] = {}
    for marks in several:
        if isinstance(marks, Mapping):
            for name, inside in marks.items():
                joined[name] = _strictest([joined.get(name), inside])
    return joined or None
