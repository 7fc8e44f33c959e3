"""`countersign token`: access for a program on this machine, without a browser."""

import re
from datetime import timedelta

import click

from cli.parts import Build

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Duration(click.ParamType[timedelta]):
    """A number and a unit: `90s`, `30m`, `1h`, `7d`."""

    name = "duration"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Give the time; fail with a usage error for anything else, zero included."""
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", value, re.ASCII)
        if found is None:
            self.fail(f"{value!r} is not like 90s, 30m, 1h or 7d", param, ctx)
        return timedelta(**{UNITS[found[2]]: int(found[1])})


def command(build: Build) -> click.Group:
    """Give the group `token`."""
    group = click.Group("token", help="Access for a program on this machine, without a browser.")

    @group.command("issue")
    @click.option("--name", required=True, help="Appears under Connections as client local:NAME.")
    @click.option("--operator", "email", required=True, help="Whose rights the program uses, by e-mail address.")
    @click.option("--scope", required=True, help='Rights, separated by spaces: "mcp:manifest:read mcp:flows:read".')
    @click.option("--ttl", type=Duration(), default="1h", show_default=True, help="How long the token lives.")
    def issue(name: str, email: str, scope: str, ttl: timedelta) -> None:
        """Print a fresh access token, once; it is stored as a digest and never valid for pages."""
        issued = build().local.issue(name, email, scope.split(), ttl)
        click.echo(issued.token)
        click.echo(f"{issued.client_id} may, for {email}: {' '.join(issued.scopes)}", err=True)

    return group
