"""The `countersign` command: its nouns, and one way to refuse."""

import os
import sys
from typing import Any

import click

from cli import backup, clients, database, docs, errors, flows, operators, purge, secret_key, serve, tokens, work
from cli.parts import Build, Parts
from cli.refusals import told_in_one_line
from cli.trying import command as trying
from core.settings import Settings
from migrations import revisions


class CommandLine(click.Group):
    """A group whose refusals are one line each."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        with told_in_one_line():
            return super().invoke(ctx)


def command_line(build: Build) -> click.Group:
    """Give the whole command line; `build` makes the application's parts when a command first needs them."""

    def build_current(settings: Settings | None = None) -> Parts:
        parts = build(settings)
        revisions.require_current(parts.database, demo=revisions.is_demo(parts.settings.flows))
        return parts

    group = CommandLine("countersign", help="Let people's AI agents operate your application.", callback=_settle_in)
    for command in (
        serve.command(build),
        work.command(build_current),
        secret_key.command(),
        database.command(build),
        operators.command(build_current),
        clients.command(build_current),
        flows.command(build),
        tokens.command(build_current),
        purge.command(build_current),
        backup.backup_command(),
        backup.restore_command(),
        trying.command(),
        docs.command(),
        errors.command(),
    ):
        group.add_command(command)
    return group


@click.pass_context
def _settle_in(context: click.Context) -> None:
    os.umask(0o077)  # whatever a command creates is its user's alone
    here = os.getcwd()
    # gunicorn does the same: a package beside us is found whichever of the two starts. A client has no such packages,
    # and is used in folders whose files nobody vouches for.
    if here not in sys.path and context.invoked_subcommand != "try":
        sys.path.insert(0, here)
