"""`countersign secrets`: the key with which everything is sealed."""

from datetime import timedelta
from pathlib import Path

import click

from cli.instance import prepare_folder
from cli.key_file import Key, create_key, new_key, only_one, put_in_front, read_keys, write_keys
from cli.refusals import KeysElsewhere, NoRotation, RotationBegun
from core.clock import Clock, SystemClock
from core.ids import Chance, SystemChance
from core.settings import SECRET_FILE, Settings, load_settings

KEPT_DAYS = 90  # the longest that anything sealed is good for is an MCP session's 30
RELOAD = "let every server process read it: `systemctl reload countersign`, or SIGHUP to gunicorn's first process"
BEGUN = f"""A new key is in {{path}}: accepted from now on, and not used yet. Next:
  1. {RELOAD};
  2. when the old workers are gone: countersign secrets rotate --finish"""
FINISHED = f"""The new key in {{path}} is the current one; {{older}} accepted for what was sealed before. Last step:
  {RELOAD}."""
REPLACED = f"""The new key in {{path}} replaces every other: what was sealed before ends. Now at once:
  {RELOAD}."""


def command() -> click.Group:
    """Give the group `secrets`."""
    group = click.Group("secrets", help="The key that seals links and derives tokens.")
    _add_rotate(group)

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


def _add_rotate(group: click.Group) -> None:
    @group.command("rotate")
    @click.option("--finish", is_flag=True, help="Second step: make the new key the current one.")
    @click.option("--at-once", is_flag=True, help="For a key that has leaked: one new key instead of all others.")
    @click.option(
        "--keep", type=click.IntRange(0, 36500), default=KEPT_DAYS, show_default=True,
        help="Days for which a replaced key is still accepted; older ones go with --finish.",
    )  # fmt: skip
    def rotate(*, finish: bool, at_once: bool, keep: int) -> None:
        """Change the key in two steps, so that workers with and without it understand each other: nobody is signed out.

        First a new key is accepted, then, after a reload of the server, it becomes the current one.
        """
        settings = load_settings()
        rotation = Rotation(settings, SystemClock(), SystemChance())
        with only_one(settings.instance):
            if at_once:
                click.echo(rotation.replace())
            elif finish:
                click.echo(rotation.finish(timedelta(days=keep)))
            else:
                click.echo(rotation.begin())


class Rotation:
    """The steps by which the key file gets a new key; each is whole or not at all, and gives the words to print."""

    def __init__(self, settings: Settings, clock: Clock, chance: Chance) -> None:
        self._path: Path = settings.instance / SECRET_FILE
        self._keys = read_keys(self._path)
        self._today = clock.now().date()
        self._chance = chance
        if tuple(key.text for key in self._keys) != settings.secret_keys:
            raise KeysElsewhere

    def begin(self) -> str:
        """Add a key that is accepted and not used yet; raise RotationBegun when there is one."""
        if self._is_begun():
            raise RotationBegun
        write_keys(self._path, [*self._keys, Key(new_key(self._chance), is_coming=True)])
        return BEGUN.format(path=self._path)

    def finish(self, kept: timedelta) -> str:
        """Make the coming key the current one and drop what was replaced longer than `kept` ago; raise NoRotation."""
        if not self._is_begun():
            raise NoRotation
        keys = put_in_front(self._keys, self._today, kept)
        write_keys(self._path, keys)
        older = "1 older one is" if len(keys) == 2 else f"{len(keys) - 1} older ones are"
        return FINISHED.format(path=self._path, older=older)

    def replace(self) -> str:
        """Let one new key stand instead of all others."""
        write_keys(self._path, [Key(new_key(self._chance), since=self._today)])
        return REPLACED.format(path=self._path)

    def _is_begun(self) -> bool:
        return any(key.is_coming for key in self._keys)
