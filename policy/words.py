"""Words for people: plain text out of values, and effects as a sentence says them."""

from collections.abc import Iterable, Mapping, Sequence

import orjson

from core.errors import AppError
from flows.arguments import as_data, is_hidden
from flows.effects import Effect, Verb
from flows.marks import marks_of, masked
from flows.operation import Flow, Params, asked_fields

SENTENCE_LIMIT = 500
VALUE_LIMIT = 120
REASON_LIMIT = 1000
NOTE_LIMIT = 500
TARGETS = {"email": "e-mail"}
VERBS = {
    Verb.READ: "reads",
    Verb.WRITE: "changes",
    Verb.DELETE: "deletes",
    Verb.SEND: "sends",
    Verb.CALL: "calls",
    Verb.PROPOSE: "proposes",
}


class SentenceUnfilled(AppError):
    """A flow's `asks` names what neither its facts nor its params give: nobody can decide on half a sentence."""

    code = "asks_unfilled"
    public = "This call can't be described to the person who would decide on it, so it is refused."
    remedy = "Let the flow's `asks` name only what its params and facts give."


def plain(text: str, limit: int) -> str:
    """Give `text` on one line without what `is_hidden` finds, at most `limit` long.

    What is invisible, turns the reading direction or strikes out could make a sentence say what it
    does not contain.
    """
    spaced = "".join(" " if character.isspace() else character for character in text)
    visible = "".join(character for character in spaced if not is_hidden(character))
    line = " ".join(visible.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def sentence(flow: Flow, params: Params, facts: Mapping[str, object]) -> str:
    """Fill the `asks` sentence of `flow` from facts that the server read, else from the validated params.

    The agent chose the params: their texts stand in quotation marks, so that none can pass for our own words.
    """
    template = flow.asks or flow.title
    values = {name: _value(flow, params, facts, name) for name in asked_fields(template)}
    return plain(template.format(**values), SENTENCE_LIMIT)


def kept(text: str | None, limit: int) -> str | None:
    """Give a text of people or agents as it may be stored: at most `limit` long, None when nothing is left.

    It stays as it was written; pages show what is hidden in it. PostgreSQL takes neither NUL nor surrogates.
    """
    cleaned = "".join(c for c in text or "" if c != "\0" and not "\ud800" <= c <= "\udfff").strip()
    return cleaned[:limit] or None


def effect_words(effects: Iterable[Effect]) -> str:
    """Say what is done: "changes orders and refunds, sends e-mail"; reading is said only when there is nothing else."""
    named = list(dict.fromkeys((effect.verb, effect.target) for effect in effects))
    verbs = [verb for verb in VERBS if any(verb is used for used, _ in named)]
    shown = [verb for verb in verbs if verb is not Verb.READ] or verbs
    return ", ".join(f"{VERBS[verb]} {joined([TARGETS.get(t, t) for v, t in named if v is verb])}" for verb in shown)


def joined(words: Sequence[str]) -> str:
    """Join as people do: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def lowered(title: str) -> str:
    """Give a title as it stands inside a sentence: only an abbreviation keeps its capital."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _value(flow: Flow, params: Params, facts: Mapping[str, object], name: str) -> str:
    if name in facts:
        return _shown(facts[name])
    if name not in flow.params.model_fields:
        raise SentenceUnfilled(detail=f"{flow.id}: asks names {name}")
    field = flow.params.model_fields[name]
    wire_name = field.serialization_alias or field.alias or name
    return _quoted(masked(as_data(params)[wire_name], marks_of(flow.params).get(wire_name)))


def _quoted(value: object) -> str:
    if value is None or isinstance(value, int | float):
        return _shown(value)
    text = plain(value if isinstance(value, str) else orjson.dumps(value).decode(), VALUE_LIMIT)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shown(value: object) -> str:
    if value is None:
        return "(not given)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(str(value), VALUE_LIMIT)
