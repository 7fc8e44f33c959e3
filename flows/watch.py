"""Whoever waits for a run: hears how far it is, and may go away."""

from typing import Protocol


class Watch(Protocol):
    """One who waits for the answer of a call."""

    def began(self) -> None:
        """Hear that the flow is about to work; raising AppError stops the call here, where nothing has happened yet."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Hear how far it is."""

    def is_gone(self) -> bool:
        """Tell whether nobody waits any more; asked often."""


class Unwatched:
    """Nobody who could hear or go away: the console, the command line, and whoever only wants the answer."""

    def began(self) -> None:
        """Hear nothing."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Hear nothing."""

    def is_gone(self) -> bool:
        """Wait for ever."""
        return False


UNWATCHED = Unwatched()
