"""`countersign flows`: what the application offers, and what is wrong with it."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import click
import orjson

from cli.parts import Build
from cli.tables import lines
from core.settings import load_settings
from flows.faults import Fault, FlowFaults
from flows.operation import Flow, Rule, Source

NO_KEY = ("not-a-key-nothing-is-sealed-by-a-check",)
CONFIRMED_BY = {None: "-", Rule.HUMAN: "a person", Rule.CLIENT: "a person, or a listed unattended client"}


def command(build: Build) -> click.Group:
    """Give the group `flows`."""
    group = click.Group("flows", help="The application's flows.")

    @group.command("list")
    def show() -> None:
        """List the flows: id, version, effects, what a call needs, who confirms it."""
        rows = [_row(flow) for flow in build().registry]
        click.echo(lines(("FLOW", "VERSION", "EFFECTS", "NEEDS", "CONFIRMED BY"), rows))

    @group.command("check")
    @click.argument("modules", nargs=-1, metavar="[MODULE]...")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
    def check(modules: tuple[str, ...], as_json: bool) -> None:
        """Name every fault of the flows in each MODULE (default: COUNTERSIGN_FLOWS) at once, with file, line and rule.

        Exit status 1 when there is one. Needs neither a key nor a database.
        """
        count, faults = _checked(build, modules)
        click.echo(_as_json(count, faults) if as_json else _as_lines(count, faults))
        if faults:
            raise click.exceptions.Exit(1)

    return group


def _checked(build: Build, modules: Sequence[str]) -> tuple[int, Sequence[Fault]]:
    """Build what would be served; give how many flows the application has, and their faults."""
    settings = load_settings(before_secrets=True)
    settings = replace(settings, flows=tuple(modules) or settings.flows, secret_keys=settings.secret_keys or NO_KEY)
    try:
        registry = build(settings).registry
    except FlowFaults as found:
        return 0, found.faults
    return sum(flow.source is Source.FLOW for flow in registry), ()


def _as_json(count: int, faults: Sequence[Fault]) -> str:
    return orjson.dumps({"flows": count, "faults": [asdict(fault) for fault in faults]}).decode()


def _as_lines(count: int, faults: Sequence[Fault]) -> str:
    return "\n".join(map(str, faults)) or f"{count} flows, no faults."


def _row(flow: Flow) -> tuple[str, ...]:
    effects = ", ".join(str(effect) for effect in flow.effects) or "-"
    needs = " & ".join(_alternatives(group) for group in flow.needs)
    return (flow.id, str(flow.version), effects, needs, CONFIRMED_BY[flow.rule])


def _alternatives(group: frozenset[str]) -> str:
    return min(group, key=lambda scope: (not scope.startswith("mcp:"), scope))
