"""A server made with the official SDK alone, of both eras, with and without its own simple sign-in.

Run as `python -m tests.support.example_server PORT [--sign-in]`.
"""

import argparse
import secrets
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import Image, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, BaseModel

SCOPE = "example"
SECONDS = 3600


class City(BaseModel):
    """One city of the list."""

    name: str
    people: int


class Cities(BaseModel):
    """The list."""

    cities: list[City]


class YesToAll(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Says yes to everybody, in memory: what a person does on a consent page isn't the SDK's part."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._tokens(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def _tokens(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=SECONDS, scope=" ".join(scopes))


def make(port: int, *, sign_in: bool) -> MCPServer:
    """Give the server with its four tools."""
    settings = None
    if sign_in:
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(f"http://localhost:{port}"),
            resource_server_url=AnyHttpUrl(f"http://localhost:{port}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True, default_scopes=[SCOPE]),
            revocation_options=RevocationOptions(enabled=True),
            validate_token_resource=True,
        )
    server = MCPServer("Example", auth=settings, auth_server_provider=YesToAll() if sign_in else None)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def cities() -> Cities:
        """List two cities."""
        return Cities(cities=[City(name="Zürich", people=448664), City(name="Bern", people=137995)])

    @server.tool()
    def picture() -> Image:
        """Give a picture."""
        return Image(data=b"\x89PNG" + bytes(11996), format="png")

    @server.tool()
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    return server


def main() -> None:
    """Serve on a port of this machine until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--sign-in", action="store_true")
    given = parser.parse_args()
    app = make(given.port, sign_in=given.sign_in).streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=given.port, log_level="warning", ws="none")


if __name__ == "__main__":
    main()
