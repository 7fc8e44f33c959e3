"""Names and secrets made from chance: time-ordered ids, 256-bit tokens, digests."""

import base64
import hashlib
import os
import threading
from datetime import datetime
from typing import Protocol

from core.clock import Clock, to_us

FETCH = 512  # bytes


class Chance(Protocol):
    """Gives random bytes."""

    def bytes(self, count: int) -> bytes:
        """Give `count` unpredictable bytes."""


class SystemChance:
    """The operating system's random bytes, fetched some hundred at a time.

    Each fetch lets go of the interpreter lock; three of them a call cost a twentieth of a short one (measured).
    """

    _lock: threading.Lock
    _fetched: bytearray

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # a child must not give out its parent's bytes again

    def bytes(self, count: int) -> bytes:
        """Give `count` unpredictable bytes, each of them once."""
        with self._lock:
            if len(self._fetched) < count:
                self._fetched = bytearray(os.urandom(max(FETCH, count)))
            taken = bytes(self._fetched[-count:])
            del self._fetched[-count:]
        return taken

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._fetched = bytearray()


class Ids:
    """Makes ids and tokens from one clock and one source of chance."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        self._clock = clock
        self._chance = chance

    def new(self, prefix: str) -> str:
        """Give a time-ordered id, `prefix` + `_` + a UUIDv7 (RFC 9562 5.7) as 32 hex digits."""
        milliseconds = to_us(self._clock.now()) // 1000
        value = milliseconds << 80 | int.from_bytes(self._chance.bytes(10), "big")
        value = value & ~(0xF << 76) | 0x7 << 76  # version 7
        value = value & ~(0x3 << 62) | 0x2 << 62  # RFC 9562 variant
        return f"{prefix}_{value:032x}"

    def token(self, prefix: str) -> str:
        """Give a 256-bit secret, `prefix` + `_` + 43 characters of base64url."""
        return f"{prefix}_{urlsafe(self._chance.bytes(32))}"

    def letters(self, alphabet: str, count: int) -> str:
        """Give `count` letters of `alphabet`, each as likely as any other; for what a person types."""
        fair = 256 - 256 % len(alphabet)  # bytes beyond would make the first letters likelier
        found = ""
        while len(found) < count:
            found += "".join(alphabet[byte % len(alphabet)] for byte in self._chance.bytes(count) if byte < fair)
        return found[:count]


def least_id(prefix: str, moment: datetime) -> str:
    """Give the least id that can be made at `moment`: every one made before it sorts before it."""
    return f"{prefix}_{max(0, to_us(moment) // 1000):012x}{0:020x}"


def urlsafe(raw: bytes) -> str:
    """Write bytes as base64url without padding (RFC 4648 5)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def digest_of(secret: str) -> str:
    """Give the SHA-256 of a secret as hex: the only form in which a token is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
