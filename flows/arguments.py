"""Arguments are validated once; digest, page, flow and record all use that one value (design D6)."""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson
from pydantic import ValidationError

from core.errors import AppError
from flows.canonical import LARGEST_INTEGER, canonical, read_canonical
from flows.complaints import complaint
from flows.marks import kept, marks_of, masked
from flows.operation import Flow, Params

DEEPEST = 40
NOT_GIVEN = "not given"
# They draw nothing, whatever their category says.
FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
KEYCAP = "\u20e3"
OVERLAY = 1  # the combining class of strokes through a letter


class InvalidArguments(AppError):
    """The arguments don't fit the flow's schema; the sentence names the field and what is wrong with it."""

    code = "invalid_arguments"
    status = 400
    public = "The arguments are not valid."
    remedy = "Correct the argument that the sentence names; schema_get shows what the flow takes."


@dataclass(frozen=True, slots=True)
class Arguments:
    """One call's validated arguments; their canonical form is made when it is asked for, which reads never do."""

    flow: Flow
    params: Params

    @property
    def canonical(self) -> bytes:
        """RFC 8785 JSON with flow id and version; raises InvalidArguments for numbers that JSON can't carry."""
        whole = {"flow": self.flow.id, "version": self.flow.version, "arguments": as_data(self.params)}
        try:
            return canonical(whole)
        except (TypeError, ValueError):
            raise InvalidArguments("A number in the arguments can't be written exactly in JSON.") from None

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form as hex."""
        return hashlib.sha256(self.canonical).hexdigest()

    def given(self) -> Params:
        """Give the params as one use gets them: a flow may change the lists in its own, and they stay as confirmed."""
        return self.params.model_copy(deep=True)


def parse_arguments(flow: Flow, raw: Mapping[str, Any]) -> Arguments:
    """Validate `raw` strictly; raise InvalidArguments for anything that isn't exactly what the flow takes."""
    _check_json(raw)
    try:
        params = flow.params.__pydantic_validator__.validate_json(orjson.dumps(raw), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidArguments(complaint(found, raw), detail=f"{flow.id}: {error.error_count()} faults") from None
    except (TypeError, ValueError):
        raise InvalidArguments("The arguments are not plain JSON.") from None
    arguments = Arguments(flow, params)
    if not flow.only_reads:
        arguments.canonical  # noqa: B018 - refused here, before anybody is asked
    return arguments


def held_arguments(text: str | bytes) -> dict[str, Any]:
    """Give the raw arguments that an `Arguments.canonical` was made of, defaults included."""
    arguments: dict[str, Any] = read_canonical(text)["arguments"]
    return arguments


def as_data(params: Params) -> dict[str, Any]:
    """Give params as JSON data with defaults, under the names that JSON knows them by."""
    data: dict[str, Any] = params.__pydantic_serializer__.to_python(params, mode="json", by_alias=True)
    return data


def stored(flow: Flow, params: Params) -> str:
    """Give the JSON that a run, an audit row or a log may keep: sensitive values as digests, secret ones masked."""
    marks = marks_of(flow.params)
    if not marks:
        return params.__pydantic_serializer__.to_json(params, by_alias=True).decode()
    return orjson.dumps(kept(as_data(params), marks)).decode()


def shown(flow: Flow, params: Params) -> list[tuple[str, str]]:
    """Give every argument as (label, text) for the person who decides; only secret values are masked.

    Characters that hide or reorder text are written out: the agent chose these texts.
    """
    marks, data = marks_of(flow.params), as_data(params)
    rows = []
    for name, field in flow.params.model_fields.items():
        wire_name = field.serialization_alias or field.alias or name
        value = masked(data[wire_name], marks.get(wire_name))
        rows.append((field.title or name.replace("_", " "), _readable(value)))
    return rows


def visible(text: str) -> str:
    """Write out each character that can't be seen or that changes how its neighbours look, keeping line breaks."""
    return "".join(_visible(character) for character in text)


def is_hidden(character: str) -> bool:
    """Tell whether a character can't be seen, turns the reading direction, or strikes out its neighbour."""
    # Variation selectors draw nothing and can carry text; U+FE0E and U+FE0F only choose an emoji's look.
    if character in FILLERS or "\ufe00" <= character <= "\ufe0d" or "\U000e0100" <= character <= "\U000e01ef":
        return True
    category = unicodedata.category(character)
    if category == "Me":
        return character != KEYCAP
    return category[0] == "C" or category in ("Zl", "Zp") or unicodedata.combining(character) == OVERLAY


def _visible(character: str) -> str:
    if character in "\n\t" or not is_hidden(character):
        return character
    return f"\\u{ord(character):04x}"


def _readable(value: Any) -> str:
    if value is None:
        return NOT_GIVEN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return visible(value) if value else '""'
    return visible(orjson.dumps(value, option=orjson.OPT_INDENT_2 if isinstance(value, dict) else None).decode())


def _check_json(raw: Mapping[str, Any]) -> None:
    """Refuse what orjson would write as something else: huge integers, infinities, too deep, not JSON at all."""
    level: list[Any] = [raw]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise InvalidArguments("Whole numbers must lie between -(2^53-1) and 2^53-1.")
            elif isinstance(value, float) and not isfinite(value):
                raise InvalidArguments("Numbers must be finite.")
        if not below:
            return
        level = below
    raise InvalidArguments(f"The arguments are nested more than {DEEPEST} levels deep.")
