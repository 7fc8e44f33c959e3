"""`countersign flows`: what the application offers."""

import click

from cli.parts import Build
from cli.tables import lines
from flows.operation import Flow, Rule

CONFIRMED_BY = {None: "-", Rule.HUMAN: "a person", Rule.CLIENT: "a person, or a listed unattended client"}


def command(build: Build) -> click.Group:
    """Give the group `flows`."""
    group = click.Group("flows", help="The application's flows.")

    @group.command("list")
    def show() -> None:
        """List the flows: id, version, effects, what a call needs, who confirms it."""
        rows = [_row(flow) for flow in build().registry]
        click.echo(lines(("FLOW", "VERSION", "EFFECTS", "NEEDS", "CONFIRMED BY"), rows))

    return group


def _row(flow: Flow) -> tuple[str, ...]:
    effects = ", ".join(str(effect) for effect in flow.effects) or "-"
    needs = " & ".join(_alternatives(group) for group in flow.needs)
    return (flow.id, str(flow.version), effects, needs, CONFIRMED_BY[flow.rule])


def _alternatives(group: frozenset[str]) -> str:
    return min(group, key=lambda scope: (not scope.startswith("mcp:"), scope))
