"""Every client proves possession with S256, public or confidential (OAuth 2.1 4.1; case C15).

Authlib's CodeChallenge lets a confidential client pass without a challenge and reads a missing method as `plain`.
"""

import hmac
import re
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge, create_s256_code_challenge

GRAMMAR = re.compile(r"[A-Za-z0-9\-._~]{43,128}", re.ASCII)  # RFC 7636 4.1 and 4.2


class S256Always(CodeChallenge):  # type: ignore[misc] # Authlib has no types
    """Refuses what isn't S256 before consent, and a code without the right verifier after it."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ("S256",)
    DEFAULT_CODE_CHALLENGE_METHOD = "S256"

    def validate_code_challenge(self, grant: Any, _redirect_uri: str) -> None:
        """Raise InvalidRequestError unless there is one well-formed S256 challenge."""
        given = grant.request.payload.datalist
        challenges, methods = given.get("code_challenge", []), given.get("code_challenge_method", [])
        if len(challenges) != 1 or not GRAMMAR.fullmatch(challenges[0]):
            raise InvalidRequestError("One code_challenge of 43 to 128 unreserved characters is required.")
        if methods != ["S256"]:
            raise InvalidRequestError("code_challenge_method must be S256.")

    def validate_code_verifier(self, grant: Any, _result: object) -> None:
        """Raise InvalidRequestError without a verifier, InvalidGrantError unless it is the challenge's."""
        verifier = grant.request.form.get("code_verifier")
        if not verifier:
            raise InvalidRequestError("code_verifier is required.")
        if not GRAMMAR.fullmatch(verifier):
            raise InvalidGrantError("The code_verifier is not the one of the code.")
        challenge = create_s256_code_challenge(verifier)
        if not hmac.compare_digest(challenge, grant.request.authorization_code.code_challenge):
            raise InvalidGrantError("The code_verifier is not the one of the code.")
