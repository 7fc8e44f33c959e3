"""`countersign errors`: every code that can reach the wire or a terminal, as the page docs/errors.md."""

from collections.abc import Iterator

import click

from cli.codes import CODES, TERMINAL, Code
from core.errors import AppError

MET_IN = {
    "core": "everywhere",
    "flows": "a run",
    "policy": "a call or a confirmation",
    "auth": "signing in and connecting",
    "mcp_provider": "MCP (JSON-RPC)",
    "web": "a page",
    "cli": TERMINAL,
    "migrations": TERMINAL,
}
DEMO = "flows.catalogue."
HEAD = """# Errors

Made by `countersign errors` from the code (`make docs`); a test holds that it is complete. Every refusal has a stable
code, one sentence, and a `reference` that finds its lines in the log. Where the code stands:

| surface | where |
|---|---|
| a tool's result | `refusal.code` of a write tool, the JSON in the second text of a read tool; `isError: true` |
| a JSON-RPC error of `/mcp` | `error.data.code`, beside the number |
| OAuth and every other address for programs | `error`, with `error_description` and, where it helps, `remedy` |
| a page | under the sentence |
| the terminal | before the colon; exit status 1 |

Beside these, a flow has codes of its own, declared in its `errors`: `schema_get` names them.

| code | met in | what it means | what to do |
|---|---|---|---|"""


def command() -> click.Command:
    """Give the command `errors`."""

    @click.command("errors")
    def errors() -> None:
        """Print every error code with what it means and what to do, as Markdown."""
        click.echo(page())

    return errors


def page() -> str:
    """Give the page."""
    codes = sorted({one.code for one in all_codes()})
    return "\n".join([HEAD, *(_line(code) for code in codes)])


def all_codes() -> Iterator[Code]:
    """Give every code of the product's classes and of those that have none; one code may come more than once."""
    yield from CODES
    for found in classes():
        if found.remedy:
            yield Code(found.code, _met_in(found), _first_sentence(found.__doc__ or ""), found.remedy)


def classes(base: type[AppError] = AppError) -> Iterator[type[AppError]]:
    """Give every class of refusals of the product itself; an application's flows have codes of their own."""
    if base.__module__.partition(".")[0] in MET_IN and not base.__module__.startswith(DEMO):
        yield base
    for found in base.__subclasses__():
        yield from classes(found)


def _line(code: str) -> str:
    same = [one for one in all_codes() if one.code == code]
    columns = (_each_once(part) for part in zip(*((one.met, one.meaning, one.remedy) for one in same), strict=True))
    return f"| `{code}` | {' | '.join(columns)} |"


def _each_once(texts: tuple[str, ...]) -> str:
    return "<br>".join(dict.fromkeys(text.replace("|", "\\|") for text in texts))


def _met_in(found: type[AppError]) -> str:
    return MET_IN[found.__module__.partition(".")[0]]


def _first_sentence(text: str) -> str:
    """Give the first sentence of a docstring on one line, without the reference to the design."""
    words = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    sentence = words.split(". ")[0].rstrip(".")
    return f"{sentence.partition(' (design')[0]}."
