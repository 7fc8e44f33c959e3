"""A machine's client gets its token by proving itself (RFC 6749 4.4): no code, no refresh token, nobody to ask."""

from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidScopeError, UnauthorizedClientError
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant

from auth.grant_types import TokenAnswer
from auth.metadata import OFFLINE
from auth.tokens import MachineAccess


class MachineGrant(ClientCredentialsGrant):  # type: ignore[misc] # Authlib has no types
    """Gives an access token within the one grant that the client was added with, maybe narrowed."""

    access: MachineAccess

    def validate_token_request(self) -> None:
        """Raise UnauthorizedClientError for any other client, InvalidGrantError when its grant has ended."""
        client = self.authenticate_token_endpoint_client()
        if not client.check_grant_type(self.GRANT_TYPE):
            raise UnauthorizedClientError("This client acts for people: only the client of a machine gets a token so.")
        self.request.client = client
        found = self.server.tokens.find_machine_access(client.id)
        if found is None or found.resource != self.server.settings.resource:
            raise InvalidGrantError("The access of this client has ended.")
        self.access = found

    def create_token_response(self) -> tuple[int, TokenAnswer, Any]:
        """Give the answer; `scope` may narrow and never widen (RFC 6749 4.4.2)."""
        narrowed = self._narrowed()
        scope = " ".join(self.access.scopes if narrowed is None else narrowed)
        answer: TokenAnswer = self.server.generate_token(scope=scope, include_refresh_token=False)
        answer["expires_in"] = self.server.tokens.give_to_machine(
            self.access, answer["access_token"], None if narrowed is None else scope
        )
        self.server.tell_effective(answer, self.access.role)
        return 200, answer, self.TOKEN_RESPONSE_HEADER

    def _narrowed(self) -> tuple[str, ...] | None:
        asked = {scope for scope in (self.request.payload.scope or "").split() if scope != OFFLINE}
        if not asked or asked == set(self.access.scopes):
            return None
        if not asked <= set(self.access.scopes):
            raise InvalidScopeError("The scope is more than this client was added with.")
        return tuple(sorted(asked))
