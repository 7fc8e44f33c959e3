"""`countersign client`: the programs that people connected."""

import click

from auth.clients import Registered
from auth.events import MOST_SHOWN
from auth.metadata import AUTH_METHODS, PRIVATE_KEY_JWT, SECRET_METHODS
from auth.registration import InvalidClientMetadata, Registration, machine_registration, registration_by_hand
from cli.parts import Build, Parts
from cli.refusals import NoSuchName
from cli.tables import lines
from core.clock import iso


def command(build: Build) -> click.Group:
    """Give the group `client`."""
    group = click.Group("client", help="The programs that people connected.")

    @group.command("list")
    def show() -> None:
        """List the clients, newest first; a name is what the client calls itself."""
        rows = [
            (one.id, one.kind, one.name, iso(one.created_at), "on" if one.uses_device else "off")
            for one in build().clients.list()
        ]
        click.echo(lines(("CLIENT", "KIND", "CALLS ITSELF", "SINCE", "DEVICES"), rows))

    _add_adding(group, build)

    @group.command("device")
    @click.argument("client_id")
    @click.argument("switch", type=click.Choice(("on", "off")))
    def device(client_id: str, switch: str) -> None:
        """Let a client connect devices without a browser, or not any more (RFC 8628); such a device only reads."""
        parts = build()
        parts.clients.set_device(client_id, may=switch == "on")
        unused = "" if parts.settings.device_grant else " COUNTERSIGN_DEVICE_GRANT is off, so nothing changes yet."
        click.echo(f"Devices of {client_id}: {switch}.{unused}")

    @group.command("log")
    @click.argument("client_id")
    @click.option("--limit", type=click.IntRange(1, MOST_SHOWN), default=100, show_default=True, help="How many steps.")
    def log(client_id: str, limit: int) -> None:
        """Show the newest steps of a client on its way to a token, with the reason of each failure."""
        found = build().events.list(client_id, limit)
        if not found:
            raise NoSuchName(f"Nothing is on record of a client {client_id}.")
        rows = [
            (iso(one.at), one.step, one.code or "ok", one.sentence, one.operator_id or "", one.reference or "")
            for one in found
        ]
        click.echo(lines(("AT", "STEP", "OUTCOME", "WHAT HAPPENED", "OPERATOR", "REFERENCE"), rows))

    @group.command("remove")
    @click.argument("client_id")
    def remove(client_id: str) -> None:
        """Forget a client: every connection and token of it ends at once.

        One that registers itself, or is described by a document, may come back with the next person who connects it.
        """
        build().clients.remove(client_id)
        click.echo(f"Removed {client_id}; every connection of it has ended.")

    return group


def _add_adding(group: click.Group, build: Build) -> None:
    @group.command("add")
    @click.option("--name", required=True, help="What people see on the page where they connect it.")
    @click.option("--redirect-uri", "redirect_uris", multiple=True, help="Where people are sent back to; may repeat.")
    @click.option(
        "--method",
        type=click.Choice((*AUTH_METHODS, PRIVATE_KEY_JWT)),
        help="How it proves itself; without it, none for a program on people's machines, else client_secret_basic.",
    )
    @click.option("--jwks-uri", help=f"Where its public keys are, for {PRIVATE_KEY_JWT}.")
    @click.option("--introspects", is_flag=True, help="It may ask what any token here is worth: a gateway.")
    @click.option("--device", is_flag=True, help="It may connect devices without a browser.")
    def add(
        name: str,
        redirect_uris: tuple[str, ...],
        method: str | None,
        jwks_uri: str | None,
        *,
        introspects: bool,
        device: bool,
    ) -> None:
        """Add a program that you vouch for; its secret, if it has one, is printed once and stored as a digest."""
        wanted = registration_by_hand(name, redirect_uris, method, jwks_uri, introspects=introspects, device=device)
        parts = build()
        _check_host(parts, jwks_uri)
        _print(parts.clients.add(wanted), wanted, "")

    @group.command("add-machine")
    @click.option("--name", required=True, help="What stands in lists and in the audit.")
    @click.option("--operator", "machine", required=True, help="As which machine it acts: operator add-machine NAME.")
    @click.option("--scope", required=True, help='Rights, separated by spaces: "mcp:manifest:read mcp:flows:read".')
    @click.option(
        "--method",
        type=click.Choice((*SECRET_METHODS, PRIVATE_KEY_JWT)),
        default=SECRET_METHODS[1],
        show_default=True,
        help="How it proves itself.",
    )
    @click.option("--jwks-uri", help=f"Where its public keys are, for {PRIVATE_KEY_JWT}.")
    def add_machine(name: str, machine: str, scope: str, method: str, jwks_uri: str | None) -> None:
        """Add a program that acts for nobody and gets its tokens by itself (client_credentials).

        It may read. What changes something would need another person's confirmation, which nobody can be asked for yet.
        """
        wanted = machine_registration(name, method, jwks_uri)
        parts = build()
        _check_host(parts, jwks_uri)
        made, granted = parts.machines.add_client(wanted, machine, scope.split())
        _print(made, wanted, f" It may, as machine:{machine}: {' '.join(granted)}.")


def _check_host(parts: Parts, jwks_uri: str | None) -> None:
    if jwks_uri is not None and not parts.document_clients.is_allowed(jwks_uri):
        raise InvalidClientMetadata(
            "Its keys could never be fetched: COUNTERSIGN_CIMD, COUNTERSIGN_CIMD_ALLOWED_HOSTS or "
            "COUNTERSIGN_CIMD_DENIED_HOSTS refuse the host of --jwks-uri."
        )


def _print(made: Registered, wanted: Registration, more: str) -> None:
    click.echo(made.client.id)
    if made.secret is not None:
        click.echo(made.secret)
    second = "" if made.secret is None else " The second line is its secret, shown this once."
    click.echo(f"{wanted.name} is added; it proves itself by {wanted.auth_method}.{second}{more}", err=True)
