"""`countersign try`: an MCP client for a terminal, for any server of either era."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from cli.refusals import Refused
from cli.trying.addresses import read_address
from cli.trying.display import result_text, tool_sheet, tools_table
from cli.trying.refusals import INTERRUPTED, TryRefused, WrongArguments
from cli.trying.text import document
from core.clock import SystemClock
from core.errors import SettingsError
from core.settings import load_settings

if TYPE_CHECKING:
    from cli.trying.work import Trial

VARIABLE = "COUNTERSIGN_TRY_URL"
DEFAULT = "http://localhost:6535/mcp"
LONGEST_INPUT = 1024 * 1024
EPILOG = """\b
Exit status:
  0    done
  1    the tool or the server said no
  2    wrong usage; nothing was sent
  3    not confirmed: denied, or out of time
  4    can't reach the server, or sign in
  130  interrupted

Tokens lie in a private file for each server under ~/.local/state/countersign/try ($XDG_STATE_HOME)."""


def command() -> click.Group:
    """Give the group `try`."""
    group = click.Group(
        "try",
        help="Use an MCP server from a terminal: sign in through the browser, list its tools, call one.",
        epilog=EPILOG,
    )
    for one in (_tools(), _schema(), _call(), _sign_out()):
        group.add_command(one)
    return group


def _tools() -> click.Command:
    @click.command("tools", epilog=EPILOG)
    @_where
    @_as_json
    def tools(as_json: bool, **where: Any) -> None:
        """List the tools that the server shows to you."""
        with _one_way_out(as_json):
            trial = _trial(**where)
            found = trial.tools()
            if as_json:
                _print_json({"url": trial.address, "tools": [_data(tool) for tool in found]})
            else:
                click.echo(tools_table(found, _bold))

    return tools


def _schema() -> click.Command:
    @click.command("schema", epilog=EPILOG)
    @click.argument("tool")
    @_where
    @_as_json
    def schema(tool: str, as_json: bool, **where: Any) -> None:
        """Show what TOOL does and which arguments it takes."""
        with _one_way_out(as_json):
            found = _trial(**where).tool(tool)
            if as_json:
                _print_json(_data(found))
            else:
                click.echo(tool_sheet(found, _bold))

    return schema


def _call() -> click.Command:
    @click.command("call", epilog=EPILOG)
    @click.argument("tool")
    @click.argument("words", nargs=-1, metavar="[NAME=VALUE]...")
    @click.option("--args", "given", metavar="JSON", help="All arguments as one JSON object; - reads it from input.")
    @_where
    @_as_json
    def call(tool: str, words: tuple[str, ...], given: str | None, as_json: bool, **where: Any) -> None:
        """Call TOOL and show what it answers.

        NAME=VALUE is read by the tool's own schema: a number, true or false, JSON for lists and objects, text as it
        is. NAME:=JSON takes any JSON. When a person has to confirm the call, its sentence and its link are shown,
        and the call is made once they have approved.
        """
        with _one_way_out(as_json):
            trial = _trial(**where)
            result, exit_code = trial.call(tool, words, _input() if given == "-" else given)
            if as_json:
                _print_json(_data(result))
            else:
                click.echo(result_text(result, _bold))
            if exit_code:
                raise click.exceptions.Exit(exit_code)

    return call


def _sign_out() -> click.Command:
    @click.command("sign-out", epilog=EPILOG)
    @_where
    def sign_out(**where: Any) -> None:
        """Take this terminal's access back at the server, and delete its file."""
        with _one_way_out(as_json=False):
            existed, taken_back = _trial(**where).sign_out()
            kept = "" if taken_back else " The server wasn't told: end the access there, where your connections are."
            click.echo(f"Signed out.{kept}" if existed else "You weren't signed in.")

    return sign_out


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--no-browser", is_flag=True, help="Only print the address to sign in at, as over ssh."),
        click.option(
            "--era",
            type=click.Choice(["auto", "legacy"]),
            default="auto",
            show_default=True,
            help="Which revisions of the protocol to speak: the newest, or those before 2026.",
        ),
        click.option(
            "--url",
            envvar=VARIABLE,
            show_envvar=True,
            help=f"The server's address. Default: this installation's own, {DEFAULT} where there is none.",
        ),
    ):
        function = option(function)
    return function


def _as_json(function: Callable[..., Any]) -> Callable[..., Any]:
    told = "Print exactly one JSON document; everything else goes to standard error."
    return click.option("--json", "as_json", is_flag=True, help=told)(function)


def _trial(url: str | None, era: str, no_browser: bool) -> "Trial":
    from cli.trying.work import Trial  # noqa: PLC0415  the MCP SDK takes a second that no other command should wait

    address = read_address(url or _own_address())
    return Trial(address, era, not no_browser, SystemClock(), _say)  # type: ignore[arg-type]


def _own_address() -> str:
    try:
        return load_settings(before_secrets=True).resource
    except SettingsError as error:
        # A machine with only the client may use it: the installation's settings are no need of ours.
        _say(f"The settings here can't be used ({error.public}); trying {DEFAULT}. --url names another address.")
        return DEFAULT


@contextlib.contextmanager
def _one_way_out(as_json: bool) -> Iterator[None]:
    """End with the exit status that belongs to the refusal, in one line, and with one document where JSON is wanted."""
    try:
        yield
    except TryRefused as error:
        if as_json:
            _print_json({"error": {"code": error.code, "message": error.public}})
        Refused(error.code, error.public).show()
        raise click.exceptions.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        _say("Interrupted.")
        raise click.exceptions.Exit(INTERRUPTED) from None


def _input() -> str:
    text = sys.stdin.read(LONGEST_INPUT + 1)
    if len(text) > LONGEST_INPUT:
        raise WrongArguments(f"The input is longer than {LONGEST_INPUT} characters.")
    return text


def _data(value: Any) -> dict[str, Any]:
    from cli.trying.work import plain_data  # noqa: PLC0415  as in _trial

    return plain_data(value)


def _print_json(value: Any) -> None:
    click.echo(document(value))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _bold(text: str) -> str:
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else click.style(text, bold=True)
