"""Clients that sign: keys, key sets and assertions, good ones and forged ones."""

import base64
import json
import time
import uuid
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def new_key(algorithm: str = "ES256", kid: str | None = "one") -> RSAKey | ECKey:
    """Make a key pair."""
    parameters: Any = {} if kid is None else {"kid": kid}
    if algorithm == "RS256":
        return RSAKey.generate_key(2048, parameters)
    return ECKey.generate_key("P-256", parameters)


def key_set(*keys: RSAKey | ECKey, **members: Any) -> dict[str, Any]:
    """Return the public keys as a key set, each with `members`."""
    return {"keys": [{**key.as_dict(private=False), **members} for key in keys]}


def claims_of(client_id: str, audience: Any, **replaced: Any) -> dict[str, Any]:
    """Return good claims; a value of None leaves its claim out."""
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": now,
        "exp": now + 120,
        "jti": uuid.uuid4().hex,
    }
    return {name: value for name, value in (claims | replaced).items() if value is not None}


def signed(key: RSAKey | ECKey | OctKey, claims: Any, **header: Any) -> str:
    """Sign claims; `header` replaces what the key says, None leaves a member out."""
    default = {"RSA": "RS256", "EC": "ES256", "oct": "HS256"}[key.key_type]
    given = {"alg": default, "typ": "JWT", "kid": key.kid} | header
    given = {name: value for name, value in given.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=list(jws.JWSRegistry.algorithms), strict_check_header=False)
    return jws.serialize_compact(given, json.dumps(claims), key, registry=registry)


def unsigned(claims: Any, signature: bytes = b"", **header: Any) -> str:
    """Return a token that nobody signed."""
    return ".".join((_part(json.dumps(header)), _part(json.dumps(claims)), _part(signature)))


def _part(content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
