"""`countersign db`: the tables."""

import importlib

import click

from cli.parts import Build, Parts
from migrations import revisions


def command(build: Build) -> click.Group:
    """Give the group `db`."""
    group = click.Group("db", help="The database's tables.")

    @group.command("upgrade")
    def upgrade() -> None:
        """Bring the tables to this program's revision; load the demo shop once when it is served."""
        click.echo(bring_up_to_date(build()))

    return group


def bring_up_to_date(parts: Parts) -> str:
    """Migrate, all or nothing, and fill an empty demo shop; give the words to print."""
    demo = revisions.is_demo(parts.settings.flows)
    revisions.upgrade(parts.database, demo=demo)
    words = f"The database is at revision {', '.join(sorted(revisions.expected(demo=demo)))}."
    if demo:
        seed = importlib.import_module("flows.catalogue.seed")  # only here: it maps the shop's tables
        with parts.database.write() as connection:
            words += " The demo shop is loaded." if seed.load_shop(connection) else ""
    return words
