"""`countersign secrets`: the key with which everything is sealed."""

import os
from pathlib import Path

import click

from cli.instance import prepare_folder, write_private
from cli.refusals import InstanceUnwritable
from core.ids import Chance, SystemChance, urlsafe
from core.settings import SECRET_FILE, load_settings

KEY_BYTES = 32


def command() -> click.Group:
    """Give the group `secrets`."""
    group = click.Group("secrets", help="The key that seals links and derives tokens.")

    @group.command("init")
    def init() -> None:
        """Make the key file (mode 0600); an existing one stays as it is."""
        settings = load_settings(before_secrets=True)
        if settings.secret_keys:
            click.echo("There is a key already; nothing was changed.")
            return
        prepare_folder(settings.instance)
        click.echo(f"Made {create_key(settings.instance, SystemChance())}.")

    return group


def create_key(folder: Path, chance: Chance) -> Path:
    """Write a fresh key into `folder`, whole or not at all; one that another process has just made stays."""
    path, draft = folder / SECRET_FILE, folder / f".{SECRET_FILE}-{os.getpid()}"
    write_private(draft, urlsafe(chance.bytes(KEY_BYTES)) + "\n")
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    except OSError as error:
        raise InstanceUnwritable(f"{path} can't be written: {error.strerror}.") from None
    finally:
        draft.unlink()
    return path
