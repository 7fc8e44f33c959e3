"""What is wrong with arguments, in words that help a model to repair them and tell nothing of our insides (C38)."""

from collections.abc import Iterable, Mapping
from typing import Any

WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a parameter",
    "string_type": "must be a text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "doesn't have the form that its schema shows",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "date_type": "must be a date like 2026-01-31",
    "date_parsing": "must be a date like 2026-01-31",
    "date_from_datetime_parsing": "must be a date like 2026-01-31",
    "date_from_datetime_inexact": "must be a date like 2026-01-31",
    "datetime_type": "must be a time like 2026-01-31T08:00:00Z",
    "datetime_parsing": "must be a time like 2026-01-31T08:00:00Z",
    "datetime_from_date_parsing": "must be a time like 2026-01-31T08:00:00Z",
    "timezone_aware": "must be a time with its zone, like 2026-01-31T08:00:00Z",
    "decimal_type": "must be a decimal number",
    "decimal_parsing": "must be a decimal number",
    "uuid_type": "must be a UUID",
    "uuid_parsing": "must be a UUID",
}
OTHERWISE = "is not valid"
AMBIGUOUS = "fits none of its allowed forms"
MOST_NAMED = 5
LONGEST_NAME = 60


def complaint(errors: Iterable[Mapping[str, Any]], raw: Any) -> str:
    """Give one sentence that names each wrong field of `raw` and what is wrong with it, never its value."""
    said: dict[str, str] = {}
    for error in errors:
        name = _name(error, raw) or "The whole"
        text = _words(error)
        said[name] = AMBIGUOUS if said.get(name, text) != text else text
    parts = [f"{name} {text}" for name, text in list(said.items())[:MOST_NAMED]]
    if len(said) > MOST_NAMED:
        parts.append(f"and {len(said) - MOST_NAMED} more")
    return "; ".join(parts) + "."


def _words(error: Mapping[str, Any]) -> str:
    template = WORDS.get(error["type"], OTHERWISE)
    return template.format_map(error.get("ctx") or {})


def _name(error: Mapping[str, Any], raw: Any) -> str:
    """Give the field's path: of the error's location only what is really in `raw`, and the name that is missing."""
    location, path, here = error["loc"], "", raw
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(part, str) and isinstance(here, dict):
            if part in here or (is_last and error["type"] == "missing"):
                path += f".{part}" if path else part
                here = here.get(part)
        elif isinstance(part, int) and isinstance(here, list) and part < len(here):
            path += f"[{part}]"
            here = here[part]
    # An unknown member's name came from outside: keep it short and printable.
    shown = "".join(character if character.isprintable() else "?" for character in path)
    return shown if len(shown) <= LONGEST_NAME else shown[:LONGEST_NAME] + "…"
