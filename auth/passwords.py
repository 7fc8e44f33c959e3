"""Passwords: argon2id, one answer and equal time for everybody."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from core.errors import BadRequest, TooMany
from core.settings import Argon2

SHORTEST = 12
AT_ONCE = 2  # hashes of one process: each takes the memory of the settings, and anybody may ask for one
PATIENCE = 5.0  # seconds that one waits for its turn
LONGEST = 1024  # characters; nobody makes us hash a megabyte


class WeakPassword(BadRequest):
    """A new password that can't be taken; the sentence says why."""

    code = "weak_password"
    remedy = "Choose another password, as the sentence says."


class Busy(TooMany):
    """Too many passwords are being checked at this moment; nothing is said about this one."""

    code = "busy"
    status = 503
    public = "Too many people sign in at this moment. Try again in a few seconds."
    remedy = "Try again in a few seconds."


class Passwords:
    """Hashes and verifies at the cost of the settings (RFC 9106), two at a time."""

    def __init__(self, argon2: Argon2) -> None:
        self._hasher = PasswordHasher(argon2.time_cost, argon2.memory_kib, argon2.parallelism)
        self._nobody: str | None = None
        self._turns = BoundedSemaphore(AT_ONCE)

    def hash(self, password: str) -> str:
        """Give the argon2id text to store; raise WeakPassword for an empty or endless one, Busy."""
        if not password or len(password) > LONGEST:
            raise WeakPassword(f"A password has 1 to {LONGEST} characters.")
        with self._turn():
            return self._hasher.hash(_normal(password))

    def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether `password` is the one of `stored`, in the same time when there is nobody (None); raise Busy."""
        with self._turn():
            nobodys = self._nobodys_hash()  # made for the first try whoever it names, so that it takes its time for all
            try:
                self._hasher.verify(stored or nobodys, _normal(password[:LONGEST]))
            except (VerificationError, InvalidHashError):
                return False
        return stored is not None and len(password) <= LONGEST

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=PATIENCE):
            raise Busy(retry_after=5)
        try:
            yield
        finally:
            self._turns.release()

    def _nobodys_hash(self) -> str:
        if self._nobody is None:
            self._nobody = self._hasher.hash("nobody has this password")
        return self._nobody


def require_strong(password: str) -> None:
    """Raise WeakPassword unless a person may choose `password` for themselves."""
    if len(password) < SHORTEST:
        raise WeakPassword(f"The new password needs at least {SHORTEST} characters.")
    if len(password) > LONGEST:
        raise WeakPassword(f"The new password has more than {LONGEST} characters.")


def _normal(password: str) -> bytes:
    # The same keys give the same password on every keyboard and system (RFC 8265 4.2 asks for NFC).
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
