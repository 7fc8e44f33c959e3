"""The public keys of a client, from a key set (RFC 7517) or from its metadata document."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from auth.documents import BadDocument, parse_document, read_object
from auth.metadata import PRIVATE_KEY_JWT

MOST_BYTES = 65_536
MOST_KEYS = 50
SHORTEST_RSA = 2048  # bits (RFC 7518 3.3)
CURVE = "P-256"
MEMBERS = ("kty", "n", "e", "crv", "x", "y")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key that may sign with one algorithm."""

    kid: str | None
    algorithm: str
    key: RSAKey | ECKey


def keys_of_set(body: bytes) -> tuple[PublicKey, ...]:
    """Read a key set; a key of another kind is passed over, and so is one that isn't public. Raise BadDocument."""
    return _keys(read_object(body))


def keys_of_document(url: str) -> Callable[[bytes], tuple[PublicKey, ...]]:
    """Give the reader of the key set inside the document that stands at `url`."""
    return partial(_keys_inside, url)


def _keys_inside(url: str, body: bytes) -> tuple[PublicKey, ...]:
    if PRIVATE_KEY_JWT not in parse_document(url, body).methods:
        raise BadDocument("The document has no keys any more.")
    return _keys(read_object(body).get("jwks"))


def _keys(given: Any) -> tuple[PublicKey, ...]:
    listed = given.get("keys") if isinstance(given, dict) else None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise BadDocument(f"The client’s key set must have a list of at most {MOST_KEYS} keys.")
    return tuple(key for one in listed if isinstance(one, dict) and (key := _public_key(one)) is not None)


def _public_key(given: dict[str, Any]) -> PublicKey | None:
    kid = given.get("kid")
    if not isinstance(kid, str | None) or "d" in given or given.get("use", "sig") != "sig":
        return None
    try:
        key, algorithm = _imported(given)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if key is None or given.get("alg", algorithm) != algorithm:
        return None
    return PublicKey(kid, algorithm, key)


def _imported(given: dict[str, Any]) -> tuple[RSAKey | ECKey | None, str]:
    members: dict[str, Any] = {name: given[name] for name in MEMBERS if name in given}
    if given.get("kty") == "RSA":
        key = RSAKey.import_key(members)
        return (key if key.public_key.key_size >= SHORTEST_RSA else None), "RS256"
    if given.get("kty") == "EC" and given.get("crv") == CURVE:
        return ECKey.import_key(members), "ES256"
    return None, ""
