"""The authorization server: Authlib with exactly two grants, its gaps closed (design D2)."""

import re
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationServer,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Error,
    UnauthorizedClientError,
    UnsupportedGrantTypeError,
)
from flask import Response, request

from auth.client_auth import ClientAuthentication, UnknownClient
from auth.clients import Client, Clients
from auth.device_grant import DeviceGrant
from auth.devices import INTERVAL, Devices
from auth.document_clients import DocumentClients
from auth.grant_types import CodeGrant, RefreshGrant, Reused, TokenAnswer
from auth.introspection import Introspection
from auth.machine_grant import MachineGrant
from auth.oauth_request import PlainRequest
from auth.pkce import S256Always
from auth.registration import CLIENT_CREDENTIALS, GRANT_TYPES
from auth.resource import names_us
from auth.tokens import ACCESS, REFRESH, Tokens
from core.clock import Clock
from core.http import json_answer, json_error, with_cors
from core.settings import Settings
from flows.caller import Role
from policy.scopes import Scopes

ONCE = (
    "grant_type",
    "code",
    "device_code",
    "redirect_uri",
    "code_verifier",
    "refresh_token",
    "client_id",
    "client_secret",
    "client_assertion",
    "client_assertion_type",
    "scope",
    "token",
    "token_type_hint",
)
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+", re.ASCII)  # RFC 6749 3.3


class InvalidTarget(OAuth2Error):  # type: ignore[misc] # Authlib has no types
    """RFC 8707 2: the resource is another one than ours."""

    error = "invalid_target"
    description = "The resource is not the one of this server."


class UnknownGrantType(UnsupportedGrantTypeError):  # type: ignore[misc]
    """As Authlib's, without repeating what was sent."""

    def get_error_description(self) -> str:
        """Name what is supported."""
        return f"grant_type must be one of {', '.join((*GRANT_TYPES, CLIENT_CREDENTIALS))}."


class Server(AuthorizationServer):  # type: ignore[misc]
    """Judges authorization and token requests; every answer to a program is JSON."""

    def __init__(
        self,
        *,
        authentication: ClientAuthentication,
        tokens: Tokens,
        scopes: Scopes,
        settings: Settings,
        clock: Clock,
        introspection: Introspection,
        devices: Devices,
    ) -> None:
        super().__init__()
        self.authentication = authentication
        self.clients: Clients = authentication.clients
        self.documents: DocumentClients = authentication.documents
        self.tokens = tokens
        self.introspection = introspection
        self.devices = devices
        self.scopes = scopes
        self.settings = settings
        self.clock = clock
        self.register_grant(CodeGrant, [S256Always()])
        self.register_grant(RefreshGrant)
        self.register_grant(MachineGrant)
        self.register_grant(DeviceGrant)

    def token_answer(self) -> Response:
        """Answer this request to the token endpoint."""
        try:
            asked = self.form_request()
            # Before anything is looked up, so that a wrong resource spends nothing (checklist S13).
            if not names_us(asked.form.getlist("resource"), self.settings):
                raise InvalidTarget
        except OAuth2Error as error:
            return self.handle_error_response(None, error)
        answer: Response = self.create_token_response(asked)
        return answer

    def revocation_answer(self) -> Response:
        """Answer this request to the revocation endpoint: 200 for any token, known or not (RFC 7009 2.2)."""
        try:
            asked = self.form_request()
            client = self.authenticate_client(asked)
            if not asked.form.get("token"):
                raise InvalidRequestError("token is required.")
        except OAuth2Error as error:
            return self.handle_error_response(None, error)
        self.tokens.revoke(asked.form["token"], client.id)
        return with_cors(json_answer({}))

    def introspection_answer(self) -> Response:
        """Answer this request to the introspection endpoint, for a client that proves itself (RFC 7662 2.1)."""
        try:
            asked = self.form_request()
            client = self.authenticate_client(asked)
            if asked.auth_method == "none":
                raise UnknownClient("Only a client that proves itself may ask about tokens.")
            if not asked.form.get("token"):
                raise InvalidRequestError("token is required.")
        except OAuth2Error as error:
            return self.handle_error_response(None, error)
        return with_cors(json_answer(self.introspection.of(asked.form["token"], client)))

    def device_answer(self) -> Response:
        """Answer this request to the device authorization endpoint (RFC 8628 3.1, 3.2); the code is never prefilled."""
        try:
            asked = self.form_request()
            if not names_us(asked.form.getlist("resource"), self.settings):
                raise InvalidTarget
            client = self.authenticate_client(asked)
            if not self.lets_devices(client):
                raise UnauthorizedClientError("This client may not use the device grant.")
            self.validate_requested_scope(asked.form.get("scope"))
        except OAuth2Error as error:
            return self.handle_error_response(None, error)
        begun = self.devices.begin(client, self.scopes.parse(asked.form.get("scope", "")), asked.address)
        shown = f"{begun.user_code[:4]}-{begun.user_code[4:]}"
        answer = {"device_code": begun.device_code, "user_code": shown, "expires_in": begun.expires_in}
        answer |= {"verification_uri": f"{self.settings.base_url}/device", "interval": INTERVAL}
        return with_cors(json_answer(answer))

    def lets_devices(self, client: Client) -> bool:
        """Tell whether a client may use the device grant: the server allows it, and an administrator named it."""
        return self.settings.device_grant and client.uses_device

    def form_request(self) -> PlainRequest:
        """Give this request's form; raise InvalidRequestError for another type, a query, or a repeated parameter."""
        if request.mimetype != "application/x-www-form-urlencoded":
            raise InvalidRequestError("Send the parameters as application/x-www-form-urlencoded, not as JSON.")
        if request.args:
            raise InvalidRequestError("Send the parameters in the body, never in the address.")
        if any(len(request.form.getlist(name)) > 1 for name in ONCE):
            raise InvalidRequestError("A parameter is there twice.")
        return PlainRequest(request.method, request.form, request.headers, request.remote_addr)

    # --- what Authlib asks for ------------------------------------------------------------------------------------

    def query_client(self, client_id: str) -> Client | None:
        """Give the living client of this id."""
        return self.clients.find(client_id)

    def authenticate_client(self, request: PlainRequest, methods: object = (), endpoint: str = "token") -> Client:
        """Give the client that proves itself in this request, by any method that fits it."""
        given = request.form, request.headers.get("Authorization")
        client, request.auth_method = self.authentication.authenticate(*given)
        return client

    def create_oauth2_request(self, request: PlainRequest) -> PlainRequest:
        """Give the request that we made."""
        return request

    def get_token_grant(self, request: PlainRequest) -> Any:
        """Give the grant of this type; raise UnknownGrantType."""
        if not request.payload.grant_type:
            raise UnknownGrantType("")
        try:
            return super().get_token_grant(request)
        except UnsupportedGrantTypeError:
            raise UnknownGrantType("") from None

    def generate_token(
        self, *, scope: str | None = None, include_refresh_token: bool = True, **_known: object
    ) -> TokenAnswer:
        """Give the answer with fresh tokens, stored nowhere yet; `save_token` adds what counts of the scopes."""
        answer = TokenAnswer(
            access_token=self.tokens.new(ACCESS),
            token_type="Bearer",
            expires_in=int(self.settings.lifetimes.access_token.total_seconds()),
            scope=scope or "",
        )
        if include_refresh_token:
            answer["refresh_token"] = self.tokens.new(REFRESH)
        return answer

    def tell_effective(self, token: TokenAnswer, role: Role) -> None:
        """Let the answer say which of its scopes count now, under the role of its operator."""
        token["scope"] = " ".join(sorted(self.scopes.effective(token["scope"].split(), role)))

    def validate_requested_scope(self, scope: str | None) -> None:
        """Raise InvalidScopeError for characters that no scope has; unknown scopes are dropped at consent."""
        if any(not SCOPE.fullmatch(one) for one in (scope or "").split()):
            raise InvalidScopeError("The scope has characters that no scope has.")

    def handle_response(self, status: int, body: dict[str, Any], headers: list[tuple[str, str]]) -> Response:
        """Give a JSON answer that no cache keeps and every origin may read."""
        return with_cors(json_answer(body, status=status))

    def handle_error_response(self, request: object, error: OAuth2Error) -> Response:
        """Give the JSON error; what a reuse ends is ended here, after the rollback of what it tried."""
        if isinstance(error, Reused):
            self.tokens.end_family(error.grant_id, error.code)
        answer = json_error(error.status_code, error.error, error.get_error_description() or "The request was refused.")
        for name, value in error.get_headers():
            if name == "WWW-Authenticate":
                answer.headers[name] = value
        return with_cors(answer)

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Do nothing: what is to be remembered is in the audit."""
