"""`countersign operator`: the people."""

import click

from auth.models import PERSON
from auth.operators import OF_MACHINES, Operator
from cli.parts import Build, Parts
from cli.passwords import choose, hand_over, taken_from
from cli.refusals import NoSuchName
from cli.tables import lines
from core.clock import iso
from core.errors import BadRequest
from flows.caller import Role

VARIABLE = "COUNTERSIGN_OPERATOR_PASSWORD"
ROLES = click.Choice([role.value for role in Role])
MACHINE_ROLES = click.Choice([role.value for role in OF_MACHINES])


def command(build: Build) -> click.Group:
    """Give the group `operator`."""
    group = click.Group("operator", help="The people who have an account.")
    _add_writing(group, build)

    @group.command("list")
    def show() -> None:
        """List everybody: address, role, state, since when."""
        people = build().operators.list()
        rows = [(one.email, one.role.value, _state(one), iso(one.created_at)) for one in people]
        click.echo(lines(("E-MAIL", "ROLE", "STATE", "SINCE"), rows))

    return group


def _add_writing(group: click.Group, build: Build) -> None:
    @group.command("add")
    @click.argument("email")
    @click.option("--role", type=ROLES, default=Role.OPERATOR.value, show_default=True)
    def add(email: str, role: str) -> None:
        """Make an account. The password comes from COUNTERSIGN_OPERATOR_PASSWORD, the terminal, or chance."""
        parts = build()
        password = choose(taken_from(VARIABLE), parts.chance, ask=True, strong=parts.settings.production)
        made = parts.operators.add(email, Role(role), password.text, must_change=password.generated)
        click.echo(f"Added {made.email} as {made.role.value}.")
        click.echo(hand_over(password, made.email, parts.settings.instance / f"password-{made.id}"))

    @group.command("add-machine")
    @click.argument("name")
    @click.option("--role", type=MACHINE_ROLES, default=Role.VIEWER.value, show_default=True)
    def add_machine(name: str, role: str) -> None:
        """Make an account that acts for nobody: no password, no sign-in. client add-machine gives it a client."""
        made = build().operators.add_machine(name, Role(role))
        click.echo(f"Added {made.email} as {made.role.value}.")

    @group.command("disable")
    @click.argument("email")
    def disable(email: str) -> None:
        """Close an account, a machine's too: its sessions and connections end at once."""
        parts = build()
        parts.operators.disable(_named(parts, email).id)
        click.echo(f"Disabled {email}; every session and connection of this person has ended.")

    @group.command("password")
    @click.argument("email")
    def password(email: str) -> None:
        """Replace a password; every session and connection of this person ends."""
        parts = build()
        person = _named(parts, email)
        if person.kind != PERSON:
            raise BadRequest("A machine has no password: its client proves itself.")
        new = choose(taken_from(VARIABLE), parts.chance, ask=True, strong=parts.settings.production)
        parts.operators.set_password(person.id, new.text, must_change=new.generated)
        click.echo(hand_over(new, person.email, parts.settings.instance / f"password-{person.id}"))


def _named(parts: Parts, email: str) -> Operator:
    found = parts.operators.find_by_email(email)
    if found is None:
        raise NoSuchName(f"There is no operator {email}.")
    return found


def _state(person: Operator) -> str:
    if person.disabled_at is not None:
        return "disabled"
    return "first password" if person.must_change else "active"
