"""A prompt: words that a person picks in their client and fills in; data only, so nothing of it runs."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flows.content import Content, Embedded, Text
from flows.faults import Fault, FaultRule
from flows.operation import asked_fields

NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
OUR_PROMPTS = frozenset({"explain_run", "what_can_be_done", "prepare_call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What a person fills in."""

    name: str
    description: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Attached:
    """A resource that the prompt brings along, read under the rights of whoever asks for the prompt."""

    uri: str


Message = Content | Attached


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The declaration of one prompt; each message is one of the person's.

    In a text and in an address `{name}` stands for an argument. In a text its value stands in quotation marks, so that
    none can pass for the prompt's own words. A message with an argument that wasn't given is left out.
    """

    name: str
    title: str
    description: str
    messages: tuple[Message, ...]
    arguments: tuple[Argument, ...] = ()

    def names_in(self, message: Message) -> tuple[str, ...]:
        """Give the arguments that a message names."""
        return asked_fields(template_of(message))


def template_of(message: Message) -> str:
    """Give the part of a message in which arguments are filled in."""
    if isinstance(message, Text):
        return message.text
    return message.uri if isinstance(message, Attached | Embedded) else ""


def prompt_faults(prompts: Iterable[Prompt]) -> Iterator[Fault]:
    """Name what is wrong with the prompts of an application."""
    seen: set[str] = set()
    for prompt in prompts:
        if not NAME.fullmatch(prompt.name):
            yield _fault(prompt, "a prompt's name has 1 to 48 of a-z, 0-9 and _, a letter first")
        if prompt.name in seen | OUR_PROMPTS:
            yield _fault(prompt, f"the prompt name {prompt.name} is taken")
        seen.add(prompt.name)
        if not prompt.messages:
            yield _fault(prompt, "a prompt needs a message")
        yield from _template_faults(prompt)


def _template_faults(prompt: Prompt) -> Iterator[Fault]:
    known = {argument.name for argument in prompt.arguments}
    for message in prompt.messages:
        try:
            unknown = set(prompt.names_in(message)) - known
        except ValueError as error:
            yield _fault(prompt, str(error))
            continue
        for name in sorted(unknown):
            yield _fault(prompt, f"{{{name}}} is no argument of the prompt")


def _fault(prompt: Prompt, sentence: str) -> Fault:
    return Fault(rule=FaultRule.PROMPT, sentence=f"{sentence}.", flow=prompt.name)
