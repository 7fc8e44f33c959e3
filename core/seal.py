"""Sealed values: what a client carries for us and must not read meaning into or change (design D15)."""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from itsdangerous import BadData, SignatureExpired, TimestampSigner, URLSafeTimedSerializer

from core.clock import Clock
from core.errors import AppError


class BadSeal(AppError):
    """The value wasn't sealed by us for this purpose, or its time is over."""

    code = "bad_seal"
    status = 400
    public = "This link or value is not valid any more."
    remedy = "Begin again on the page or with the call that gave the link or value."


class Sealer:
    """Seals and opens values, one salt a purpose, keys as `(current, *older)`."""

    def __init__(self, keys: Sequence[str], clock: Clock) -> None:
        # itsdangerous signs with the *last* key of its list; ours are newest first.
        self._keys = list(reversed(keys))
        self._clock = clock
        self._serializers: dict[str, URLSafeTimedSerializer] = {}

    def seal(self, purpose: str, value: Any) -> str:
        """Give a URL-safe text that only this server can open again, and only for `purpose`."""
        sealed = self._serializer(purpose).dumps(value)
        return sealed if isinstance(sealed, str) else sealed.decode("ascii")

    def open(self, purpose: str, text: str, *, within: timedelta) -> Any:
        """Give back the value of a seal younger than `within`; raise BadSeal for anything else."""
        try:
            return self._serializer(purpose).loads(text, max_age=int(within.total_seconds()))
        except (SignatureExpired, BadData) as error:
            raise BadSeal(detail=f"{purpose}: {type(error).__name__}") from None

    def derive(self, purpose: str, message: str) -> list[bytes]:
        """Give HMAC-SHA256 of `message` for `purpose`, 32 bytes that only we can make again: by the current key first.

        The others are what it was, or will be, while another key is the current one.
        """
        return [_derived(key, purpose, message) for key in reversed(self._keys)]

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        if purpose not in self._serializers:
            self._serializers[purpose] = URLSafeTimedSerializer(
                self._keys,
                salt=f"countersign:{purpose}",
                signer=self._signer(),
                signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
            )
        return self._serializers[purpose]

    def _signer(self) -> type[TimestampSigner]:
        clock = self._clock

        class ClockSigner(TimestampSigner):
            """A signer whose time is the clock that we were given."""

            def get_timestamp(self) -> int:
                return int(clock.now().timestamp())

        return ClockSigner


def _derived(key: str, purpose: str, message: str) -> bytes:
    of_purpose = hmac.digest(key.encode(), f"countersign:derive:{purpose}".encode(), "sha256")
    return hmac.digest(of_purpose, message.encode("utf-8", "surrogatepass"), "sha256")
