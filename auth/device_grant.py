"""The device grant at the token endpoint (RFC 8628 3.4): a device asks until its person has answered."""

from typing import Any

from authlib.oauth2.rfc6749 import InvalidRequestError, UnauthorizedClientError
from authlib.oauth2.rfc6749.grants import BaseGrant, TokenEndpointMixin
from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE

from auth.devices import Allowed
from auth.grant_types import TokenAnswer

REFRESH_TOKEN = "refresh_token"


class DeviceGrant(BaseGrant, TokenEndpointMixin):  # type: ignore[misc] # Authlib has no types
    """Gives the tokens of a code that a person has allowed, once."""

    GRANT_TYPE = DEVICE_CODE_GRANT_TYPE
    allowed: Allowed

    def validate_token_request(self) -> None:
        """Raise UnauthorizedClientError for a client that may not, else what `Devices.poll` raises."""
        device_code = self.request.form.get("device_code")
        if not device_code:
            raise InvalidRequestError("device_code is required.")
        client = self.authenticate_token_endpoint_client()
        if not self.server.lets_devices(client):
            raise UnauthorizedClientError("This client may not use the device grant.")
        self.request.client = client
        self.allowed = self.server.devices.poll(device_code, client.id)

    def create_token_response(self) -> tuple[int, TokenAnswer, Any]:
        """Give the tokens, stored in the transaction that spends the code."""
        with_refresh = self.request.client.check_grant_type(REFRESH_TOKEN)
        scope = " ".join(self.allowed.scopes)
        answer: TokenAnswer = self.server.generate_token(scope=scope, include_refresh_token=with_refresh)
        self.server.devices.redeem(self.allowed, answer)
        self.server.tell_effective(answer, self.allowed.role)
        return 200, answer, self.TOKEN_RESPONSE_HEADER
