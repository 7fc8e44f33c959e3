"""Prompts of an application: had from its modules like flows, and every fault of theirs is told at the start."""

from dataclasses import replace
from pathlib import Path

import pytest

from flows.content import Embedded, Text
from flows.loading import load_flows
from flows.prompt import Argument, Attached, Prompt, prompt_faults

LETTER = Prompt(
    name="letter",
    title="A letter",
    description="Write a letter.",
    arguments=(Argument(name="to", description="To whom."),),
    messages=(Text(text="Write to {to}."), Attached("shop://people/{to}"), Embedded(uri="shop://{to}", text="{{}}")),
)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"name": "Letter"}, "1 to 48"),
        ({"name": "x" * 49}, "1 to 48"),
        ({"name": "explain_run"}, "explain_run is taken"),
        ({"messages": ()}, "needs a message"),
        ({"messages": (Text(text="To {whom}."),)}, "{whom} is no argument"),
        ({"messages": (Attached("shop://{whom}"),)}, "{whom} is no argument"),
        ({"messages": (Text(text="To {to!r}."),)}, "only plain"),
        ({"messages": (Text(text="To {to.name}."),)}, "only plain"),
        ({"messages": (Text(text="To {to"),)}, "expected"),
    ],
)
def test_each_fault_of_a_prompt_is_named(changed: dict[str, object], says: str | None) -> None:
    faults = list(prompt_faults([replace(LETTER, **changed)]))  # type: ignore[arg-type]

    assert [fault.rule.value for fault in faults] == ([] if says is None else ["prompt"])
    assert says is None or says in faults[0].sentence


def test_two_prompts_of_one_name_are_a_fault() -> None:
    assert [fault.sentence for fault in prompt_faults([LETTER, LETTER])] == ["the prompt name letter is taken."]


def test_a_module_may_declare_prompts_beside_flows_or_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letters_of_this_test.py").write_text(
        "from flows.content import Text\n"
        "from flows.prompt import Prompt\n"
        "hello = Prompt(name='hello', title='H', description='d', messages=(Text(text='Say hello.'),))\n"
        "wrong = Prompt(name='wrong', title='W', description='d', messages=())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    loaded = load_flows(["letters_of_this_test"])

    assert [prompt.name for prompt in loaded.prompts] == ["hello", "wrong"]
    assert loaded.flows == ()
    assert [(fault.rule.value, fault.flow) for fault in loaded.faults] == [("prompt", "wrong")]
