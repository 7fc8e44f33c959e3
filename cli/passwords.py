"""Where a command's new password comes from, and where a generated one goes: never into the command's output."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from auth.passwords import require_strong
from cli.instance import write_private
from core.ids import Chance, urlsafe

CHANCE_BYTES = 15  # 120 bits in 20 characters
TERMINAL = Path("/dev/tty")


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A password to set; a generated one has to be replaced at the first sign-in."""

    text: str
    generated: bool


def generate(chance: Chance) -> NewPassword:
    """Give a password that nobody can guess."""
    return NewPassword(urlsafe(chance.bytes(CHANCE_BYTES)), generated=True)


def choose(given: str, chance: Chance, *, ask: bool, strong: bool) -> NewPassword:
    """Take the `given` password, else (`ask`) what the person at the terminal types, else generate one.

    Raise WeakPassword when it has to be `strong` and isn't. Piped input is not read: it may be an agent's.
    """
    text = given
    if not text and ask and sys.stdin.isatty():
        text = click.prompt(
            "Password (empty: generate one)", default="", hide_input=True, confirmation_prompt=True, show_default=False
        )
    if not text:
        return generate(chance)
    if strong:
        require_strong(text)
    return NewPassword(text, generated=False)


def hand_over(password: NewPassword, email: str, file: Path, *, terminal: Path = TERMINAL) -> str:
    """Show a generated password on the controlling terminal, else write it to `file` (0600); give the words to print.

    The output of a command may be an agent's context (issue 2, item 2), so the password is never in those words.
    """
    if not password.generated:
        return f"{email} signs in with the password that was given."
    try:
        with terminal.open("w", encoding="utf-8") as screen:
            screen.write(f"\nPassword of {email}, shown once: {password.text}\n\n")
    except OSError:
        write_private(file, password.text + "\n")
        return f"The password of {email} is in {file}; it is replaced at the first sign-in."
    return f"The password of {email} was shown on the terminal; it is replaced at the first sign-in."


def taken_from(variable: str) -> str:
    """Take a password variable out of this process's environment, so that no child inherits it."""
    return os.environ.pop(variable, "")
