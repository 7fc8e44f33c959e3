"""Clients that sign: keys, key sets and assertions, good ones and forged ones."""

import base64
import hmac
import json
import time
import uuid
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}


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


def signed(key: RSAKey | ECKey | bytes, claims: Any, **header: Any) -> str:
    """Sign claims, with bytes by HS256; `header` replaces what the key says, None leaves a member out."""
    own = {"alg": "HS256"} if isinstance(key, bytes) else {"alg": ALGORITHMS[key.key_type], "kid": key.kid}
    given = own | {"typ": "JWT"} | header
    given = {name: value for name, value in given.items() if value is not None}
    signing = f"{_part(json.dumps(given))}.{_part(json.dumps(claims))}"
    # By hand, since the library breaks no rule.
    if isinstance(key, bytes):
        return f"{signing}.{_part(hmac.digest(key, signing.encode(), 'sha256'))}"
    return f"{signing}.{_part(jws.JWSRegistry.algorithms[given['alg']].sign(signing.encode(), key))}"


def unsigned(claims: Any, signature: bytes = b"", **header: Any) -> str:
    """Return a token that nobody signed."""
    return ".".join((_part(json.dumps(header)), _part(json.dumps(claims)), _part(signature)))


def _part(content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
