"""`countersign serve`: make whatever is missing, then serve."""

import errno
import os
import socket
import sys
from pathlib import Path

import click

from cli.database import bring_up_to_date
from cli.instance import prepare_folder
from cli.parts import Build, Parts
from cli.passwords import choose, hand_over, taken_from
from cli.refusals import PortBusy
from cli.secret_key import create_key
from core.connecting import connect_lines
from core.ids import SystemChance
from core.settings import Settings, load_settings
from flows.caller import Role
from migrations import revisions

FIRST_OPERATOR = "admin@localhost"
FIRST_PASSWORD = "first-password"
VARIABLE = "COUNTERSIGN_ADMIN_PASSWORD"
ELSEWHERE = "End the program that uses it, or set COUNTERSIGN_PORT to another port."
CONFIG = Path(__file__).parents[1] / "gunicorn.conf.py"


def command(build: Build) -> click.Command:
    """Give the command `serve`."""

    @click.command("serve")
    def serve() -> None:
        """Make key, tables and the first operator where they are missing; then serve with gunicorn."""
        settings = load_settings(before_secrets=True)
        require_free_port(settings.port)  # before anything is made
        prepare_folder(settings.instance)
        if not settings.secret_keys and not settings.production:
            create_key(settings.instance, SystemChance())
        parts = build()
        prepare_database(parts)
        click.echo(welcome(parts.settings, first_operator(parts)))
        start_gunicorn()

    return serve


def require_free_port(port: int) -> None:
    """Raise PortBusy when somebody listens on `port` of this machine's loopback addresses."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):  # any other: no such address family here
                raise PortBusy(f"Port {port} can't be listened on: {error.strerror}. {ELSEWHERE}") from None


def prepare_database(parts: Parts) -> None:
    """Migrate in development; in production, where that is a deploy step, raise WrongRevision (design D7)."""
    if parts.settings.production:
        revisions.require_current(parts.database, demo=revisions.is_demo(parts.settings.flows))
    else:
        bring_up_to_date(parts)


def first_operator(parts: Parts) -> str:
    """Make an administrator when there is nobody; give the words to print about it."""
    given = taken_from(VARIABLE)
    if parts.operators.list():
        return ""
    password = choose(given, parts.chance, ask=False, strong=parts.settings.production)
    made = parts.operators.add(FIRST_OPERATOR, Role.ADMIN, password.text, must_change=password.generated)
    return hand_over(password, made.email, parts.settings.instance / FIRST_PASSWORD)


def welcome(settings: Settings, about_operator: str) -> str:
    """Give what a newcomer needs: the one address and the lines that connect a client."""
    lines = connect_lines(settings.resource)
    width = max(len(client) for client, _ in lines.clients)
    pasted = "\n".join(f"  {client:{width}}   {line}" for client, line in lines.clients)
    return f"""
Countersign serves {settings.base_url}/  (keys and data in {settings.instance})
{about_operator}
MCP address, the same for every client:

    {lines.address}

{pasted}
"""


def start_gunicorn() -> None:
    """Become gunicorn; does not return."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "-c", str(CONFIG), "app:create_app()"])
