"""Codes and refresh tokens become tokens, once (RFC 6749 4.1 and 6; cases C23, C24)."""

from datetime import timedelta
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidScopeError, OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant

from auth.clients import Client
from auth.metadata import OFFLINE
from auth.tokens import StoredCode, StoredRefresh
from core.clock import to_us

INNOCENT_REPEAT = timedelta(seconds=10)  # a client that lost the answer, or its parallel twin


class Reused(InvalidGrantError):  # type: ignore[misc]
    """A code or refresh token came a second time: whoever holds the tokens it gave may be a thief."""

    def __init__(self, grant_id: str, code: str) -> None:
        super().__init__("This was used already; what it gave is taken back.")
        self.grant_id = grant_id
        self.code = code


class TokenAnswer(dict[str, Any]):
    """The answer of the token endpoint; Authlib logs it, so it doesn't show itself."""

    def __repr__(self) -> str:
        return "TokenAnswer"


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    """RFC 6749 4.1: consent is asked and codes are made in auth/consent.py; here they become tokens."""

    presented: StoredCode | None = None

    def validate_token_request(self) -> None:
        """Raise InvalidGrantError for a used code, and Reused unless that is an innocent repeat (case C23)."""
        try:
            super().validate_token_request()
        except OAuth2Error as error:
            if self.presented is not None and self.presented.used_at is not None:
                raise Reused(self.presented.grant_id, "code_reused") from error
            raise
        code = self.request.authorization_code
        if code.used_at is None:
            return
        if self.server.clock.now() - code.used_at <= INNOCENT_REPEAT:
            raise InvalidGrantError("The code was used already.")
        raise Reused(code.grant_id, "code_reused")

    def query_authorization_code(self, code: str, client: Client) -> StoredCode | None:
        """Read only; the code is spent where its tokens are saved. Raise Reused when another client has a used one."""
        found: StoredCode | None = self.server.tokens.find_code(code)
        if found is None or found.resource != self.server.settings.resource:
            return None  # also when made under another base URL: its token would be refused at /mcp
        if found.client_id != client.id:
            if found.used_at is not None:
                raise Reused(found.grant_id, "code_reused")
            return None  # and its owner may still use it (case C23 d)
        self.presented = found
        return found

    def authenticate_user(self, authorization_code: StoredCode) -> str:
        """Give the operator, whose account `find_code` found alive."""
        self.request.role = authorization_code.role
        return authorization_code.operator_id

    def save_token(self, token: TokenAnswer) -> None:
        """Spend the code and store what it gives, in one transaction."""
        self.server.tokens.redeem(self.request.authorization_code, token)
        self.server.tell_effective(token, self.request.role)

    def delete_authorization_code(self, authorization_code: StoredCode) -> None:
        """Do nothing: a used code is kept, so that its second use is noticed."""


class RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    """RFC 6749 6 with rotation and a derived successor (design D3)."""

    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> StoredRefresh | None:
        """Give this client's token; raise Reused when it was rotated longer ago than the grace (case C24)."""
        found: StoredRefresh | None = self.server.tokens.find_refresh(refresh_token, self.request.client.id)
        if found is None or found.resource != self.server.settings.resource:
            return None
        if found.rotated_at is not None and not self.server.tokens.in_grace(to_us(found.rotated_at)):
            raise Reused(found.grant_id, "refresh_token_reused")
        return found

    def authenticate_user(self, refresh_token: StoredRefresh) -> str:
        """Give the operator, whose account `find_refresh` found alive."""
        self.request.role = refresh_token.role
        return refresh_token.operator_id

    def issue_token(self, user: str, refresh_token: StoredRefresh) -> TokenAnswer:
        """Give the next generation's access token, maybe narrowed; the successor comes with storing it (`rotate`)."""
        wanted = self._wanted(refresh_token)
        scope = " ".join(refresh_token.scopes if wanted is None else wanted)
        answer: TokenAnswer = self.generate_token(user=user, scope=scope, include_refresh_token=False)
        self.request.narrowed_to = None if wanted is None else scope
        return answer

    def save_token(self, token: TokenAnswer) -> None:
        """Replace the refresh token and store what it gives, in one transaction."""
        request = self.request
        given = request.form["refresh_token"], request.narrowed_to, request.address
        rotated = self.server.tokens.rotate(request.refresh_token, *given)
        token |= {"access_token": rotated.access_token, "refresh_token": rotated.refresh_token}
        token["expires_in"] = rotated.expires_in
        self.server.tell_effective(token, request.role)

    def revoke_old_credential(self, refresh_token: StoredRefresh) -> None:
        """Do nothing: `rotate` marked it in the transaction that stored its successor."""

    def _validate_token_scope(self, token: StoredRefresh) -> None:
        wanted = self._wanted(token)
        if wanted is not None and not set(token.scopes).issuperset(wanted):
            raise InvalidScopeError("The scope is more than was granted.")

    def _wanted(self, token: StoredRefresh) -> tuple[str, ...] | None:
        """Give what the request narrows to; None for all. `offline_access` is no scope of ours (case C26)."""
        asked = {scope for scope in (self.request.payload.scope or "").split() if scope != OFFLINE}
        if not asked or asked == set(token.scopes):
            return None
        return tuple(sorted(asked))
