"""Signing in through the browser, with the official client's own OAuth: what it leaves to its host is done here."""

from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from cli.trying.addresses import host_of, is_in_clear, may_lead, open_page
from cli.trying.callback import Callback
from cli.trying.network import http_client
from cli.trying.refusals import LedAstray, SignInFailed
from cli.trying.text import line
from cli.trying.token_file import TokenFile
from core.clock import Clock

CLIENT_NAME = "countersign try"
SECONDS_TO_SIGN_IN = 600.0
EARLIER = 30.0  # a token that ends within this time is refreshed before it is used
REFUSED_ANEW = "The server refuses the access that it has just given."

Say = Callable[[str], None]


class SignIn(OAuthClientProvider):
    """The official provider with our token file, our redirect address and our browser; at most one sign-in a process.

    Its requests raise SignInFailed, LedAstray and TokenFileUnusable beside the SDK's own errors.
    """

    def __init__(self, file: TokenFile, callback: Callback, clock: Clock, say: Say, *, browser: bool) -> None:
        self.file, self.kept, self.clock = file, file.read(), clock
        self._callback, self._say, self._browser, self._asked = callback, say, browser, False
        metadata = OAuthClientMetadata.model_validate(
            {"client_name": CLIENT_NAME, "redirect_uris": [callback.uri], "token_endpoint_auth_method": "none"}
        )
        super().__init__(file.address, metadata, self, self._send_person, self._await_person)
        # The SDK keeps neither in its storage: it would use what has ended, and refresh at the wrong server.
        self.context.oauth_metadata, self.context.token_expiry_time = self.kept.server, self.kept.expires_at

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Authenticate one request; see `_before_sign_in` for what is added to the SDK's flow."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                if outgoing is request and response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    if self._asked and response.status_code == HTTPStatus.FORBIDDEN:
                        return  # the person has just said what they give: the server's own words tell what is missing
                    self._before_sign_in(response.status_code)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    # --- the SDK's storage ----------------------------------------------------------------------------------------

    async def get_tokens(self) -> OAuthToken | None:
        """Give the tokens of an earlier command."""
        return self.kept.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens, with everything that refreshing and revoking them takes."""
        now = self.clock.now().timestamp()
        self.kept.tokens, self.kept.server = tokens, self.context.oauth_metadata
        self.kept.expires_at = None if tokens.expires_in is None else now + max(0.0, tokens.expires_in - EARLIER)
        self.kept.client = self.context.client_info
        self.file.write(self.kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Give the registration that the kept tokens belong to."""
        return self.kept.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nothing: a registration is worth keeping once it has tokens."""

    # --- the person -----------------------------------------------------------------------------------------------

    def _before_sign_in(self, status: int) -> None:
        """Refuse a sign-in over a line that can be read, and a second one; register anew where the old won't do."""
        if status == HTTPStatus.UNAUTHORIZED:
            if is_in_clear(self.file.address):
                raise SignInFailed(
                    "The server asks for a sign-in over plain http, where everybody could read the token."
                )
            if self._asked:
                raise SignInFailed(REFUSED_ANEW)
        client = self.context.client_info
        redirects = [str(uri) for uri in (client.redirect_uris or ())] if client else []
        # A server may have forgotten a client whose access ended; and the port of an earlier command may be taken.
        if status == HTTPStatus.UNAUTHORIZED or self._callback.uri not in redirects:
            self.context.client_info = None

    async def _send_person(self, address: str) -> None:
        if self._asked:
            raise SignInFailed(REFUSED_ANEW)
        server, known = self.file.address, self.context.oauth_metadata
        if not may_lead(server, address) or not address.isprintable():
            raise LedAstray(f"{host_of(server)} would send you to {host_of(address)} to sign in; that wasn't opened.")
        if known is not None and "S256" not in (known.code_challenge_methods_supported or ()):
            # MCP, authorization: without PKCE a client must not go on.
            raise SignInFailed(f"{host_of(address)} doesn't say that it protects the sign-in with PKCE (S256).")
        self._asked = True
        self._callback.expect(parse_qs(urlsplit(address).query)["state"][-1])
        at_home = host_of(address) == host_of(server)
        self._say(
            "Sign in here:" if at_home else f"{host_of(server)} has its sign-in at {host_of(address)}. If that's right:"
        )
        self._say(f"\n    {address}\n")
        # A page of another host isn't put before a person who hasn't read its name.
        opened = self._browser and at_home and open_page(address)
        self._say("Your browser was opened; waiting for it. Ctrl-C stops." if opened else "Waiting. Ctrl-C stops.")

    async def _await_person(self) -> AuthorizationCodeResult:
        try:
            fields = await self._callback.answer(SECONDS_TO_SIGN_IN)
        except TimeoutError:
            raise SignInFailed(f"Nobody signed in within {SECONDS_TO_SIGN_IN:.0f} seconds.") from None
        if "error" in fields:
            told = f"{fields['error']} {fields.get('error_description', '')}"
            raise SignInFailed(f"The sign-in ended without access: {line(told, 300)}")
        self._say("Signed in.")
        return AuthorizationCodeResult(code=fields.get("code", ""), state=fields["state"], iss=fields.get("iss"))


async def revoke(provider: SignIn) -> bool:
    """Take back the kept tokens at the server that gave them (RFC 7009); False where it offers no way.

    Raise SignInFailed when it says no; network errors are the HTTP client's own.
    """
    kept = provider.kept
    provider.context.client_info = kept.client
    if kept.tokens is None or kept.client is None or kept.server is None or kept.server.revocation_endpoint is None:
        return False
    refresh = kept.tokens.refresh_token
    data = {
        "token": refresh or kept.tokens.access_token,
        "token_type_hint": "refresh_token" if refresh else "access_token",
        "client_id": kept.client.client_id,
    }
    data, headers = provider.context.prepare_token_auth(data, {})
    async with http_client(kept.address) as client:
        answer = await client.post(str(kept.server.revocation_endpoint), data=data, headers=headers)
    if answer.status_code != HTTPStatus.OK:
        raise SignInFailed(f"The server answers {answer.status_code} to taking the access back.")
    return True
