"""`countersign client`: the programs that people connected."""

import click

from cli.parts import Build
from cli.tables import lines
from core.clock import iso


def command(build: Build) -> click.Group:
    """Give the group `client`."""
    group = click.Group("client", help="The programs that people connected.")

    @group.command("list")
    def show() -> None:
        """List the clients, newest first; a name is what the client calls itself."""
        rows = [(one.id, one.kind, one.name, iso(one.created_at)) for one in build().clients.list()]
        click.echo(lines(("CLIENT", "KIND", "CALLS ITSELF", "SINCE"), rows))

    @group.command("remove")
    @click.argument("client_id")
    def remove(client_id: str) -> None:
        """Forget a client: every connection and token of it ends at once."""
        build().clients.remove(client_id)
        click.echo(f"Removed {client_id}; every connection of it has ended.")

    return group
