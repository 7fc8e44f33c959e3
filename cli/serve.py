"""`countersign serve`: make whatever is missing, then serve; in production make nothing, and say what is missing."""

import os
import sys
from pathlib import Path

import click

from cli.database import bring_up_to_date
from cli.docs import begin_docs
from cli.findings import Finding, counted, faults, words
from cli.instance import prepare_folder
from cli.key_file import create_key
from cli.listening import require_free
from cli.parts import Build, Parts
from cli.passwords import choose, hand_over, taken_from
from cli.production import find_all
from cli.refusals import NotReady, PortBusy, ServerUnconfigured
from core.connecting import connect_lines
from core.ids import SystemChance
from core.settings import Settings, load_settings, read_settings
from flows.caller import Role

FIRST_OPERATOR = "admin@localhost"
FIRST_PASSWORD = "first-password"
VARIABLE = "COUNTERSIGN_ADMIN_PASSWORD"
MODE = "COUNTERSIGN_ENV"


def command(build: Build) -> click.Command:
    """Give the command `serve`."""

    @click.command("serve")
    @click.option("--production", is_flag=True, help="Make nothing; name everything that is wrong at once.")
    @click.option("--check", is_flag=True, help="Look as --production does, then end (for CI and systemd).")
    def serve(production: bool, check: bool) -> None:
        """Make key, tables and the first operator where they are missing; then serve with gunicorn.

        A base URL on another host than this machine means --production, which makes nothing.
        """
        if production or check:
            os.environ[MODE] = "production"  # gunicorn and its workers read it again
        if read_settings()[0].production:
            serve_in_production(build, only_check=check)
        else:
            serve_in_development(build)

    return serve


def serve_in_development(build: Build) -> None:
    """Make what is missing, say how to connect, and become gunicorn."""
    settings = load_settings(before_secrets=True)
    require_free(settings)  # before anything is made
    prepare_folder(settings.instance)
    if not settings.secret_keys:
        create_key(settings.instance, SystemChance())
    docs = begin_docs(settings)
    parts = build()
    bring_up_to_date(parts)
    click.echo(welcome(parts.settings, first_operator(parts)))
    click.echo(docs(), nl=False)
    start_gunicorn()


def serve_in_production(build: Build, *, only_check: bool) -> None:
    """Become gunicorn, unless something stops it: then list everything and raise NotReady."""
    settings, gaps = read_settings()
    found = find_all(settings, gaps, build, Path.cwd())
    if not only_check:  # a check is also made beside the running server
        found += _busy(settings)
    if found:
        click.echo(words(found), err=True)
    if faults(found):
        raise NotReady(f"{counted(found)}. What stands behind each arrow helps.")
    click.echo(f"Ready to serve {settings.base_url}/ ({counted(found)}).")
    if not only_check:
        click.echo(begin_docs(settings)(), nl=False)
        start_gunicorn()


def _busy(settings: Settings) -> list[Finding]:
    try:
        require_free(settings)
    except PortBusy as error:
        return [Finding(error.public, "COUNTERSIGN_PORT=6600")]
    return []


def first_operator(parts: Parts) -> str:
    """Make an administrator when there is nobody; give the words to print about it."""
    given = taken_from(VARIABLE)
    if parts.operators.list():
        return ""
    password = choose(given, parts.chance, ask=False, strong=False)
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
    os.execv(sys.executable, [sys.executable, "-m", "cli.served", "app:create_app()"])


def refuse_other_gunicorn() -> None:
    """End the start inside a gunicorn that has its own settings in the place of ours; elsewhere do nothing."""
    if not os.environ.get("SERVER_SOFTWARE", "").startswith("gunicorn/") or "cli.gunicorn_parts" in sys.modules:
        return
    from gunicorn.errors import AppImportError  # noqa: PLC0415 - it is loaded there, and needed nowhere else

    # The one error that gunicorn prints without a traceback and doesn't answer with another worker.
    raise AppImportError(f"countersign: {ServerUnconfigured.code}: {ServerUnconfigured.public}")
