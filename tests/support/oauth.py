"""OAuth by hand: a client whose every parameter a test can leave out, double or forge."""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.agent import REDIRECT_URI
from tests.support.browser import FormBrowser
from tests.support.raw_mcp import RawAnswer, RawMcp, send

FORM = ("Content-Type", "application/x-www-form-urlencoded")


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a code verifier (RFC 7636 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass(slots=True)
class RawOAuth:
    """One public client of the server at `base_url`."""

    base_url: str
    client_id: str = ""
    redirect_uri: str = REDIRECT_URI
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def resource(self) -> str:
        """The address that tokens are for."""
        return f"{self.base_url}/mcp"

    def register(self, **replaced: Any) -> RawAnswer:
        """Register by RFC 7591 and remember the client id when that succeeds."""
        body = {"client_name": "Raw client", "redirect_uris": [self.redirect_uri], "token_endpoint_auth_method": "none"}
        headers = [("Content-Type", "application/json")]
        answer = send("POST", f"{self.base_url}/oauth/register", headers, json.dumps(body | replaced).encode())
        if answer.status == 201:
            self.client_id = answer.json["client_id"]
        return answer

    def authorize_url(self, **replaced: str | None) -> str:
        """Return the address that opens the consent page; a value of None leaves its parameter out."""
        given = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "resource": self.resource,
        } | replaced
        return f"{self.base_url}/oauth/authorize?" + urlencode(_present(given))

    def exchange(self, code: str, **replaced: str | None) -> RawAnswer:
        """Send the token request for a code."""
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": self.resource,
        } | replaced
        return self.post_form("/oauth/token", given)

    def refresh(self, refresh_token: str, **replaced: str | None) -> RawAnswer:
        """Send the token request for a refresh token."""
        given = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.client_id}
        return self.post_form("/oauth/token", given | replaced)

    def post_form(self, path: str, fields: Mapping[str, str | None]) -> RawAnswer:
        """Send a form to an endpoint, without any cookie."""
        return send("POST", self.base_url + path, [FORM], urlencode(_present(fields)).encode())

    def code_from(self, browser: FormBrowser, *, tick: tuple[str, ...] = (), **replaced: str | None) -> str:
        """Let the browser's person consent and return the code that comes back."""
        callback = browser.consent(self.authorize_url(**replaced), tick=tick)
        query = parse_qs(urlsplit(callback).query)
        if "code" not in query:
            raise AssertionError(f"no code came back: {query}")
        return query["code"][0]


def token_for(browser: FormBrowser, *, tick: tuple[str, ...] = (), **replaced: str | None) -> dict[str, Any]:
    """Register a client, let the signed-in person consent and return the whole token answer."""
    client = RawOAuth(browser.base_url)
    client.register()
    answer = client.exchange(client.code_from(browser, tick=tick, **replaced))
    assert answer.status == 200, answer.raw
    return dict(answer.json)


def mcp_for(browser: FormBrowser, *, tick: tuple[str, ...] = (), **replaced: str | None) -> RawMcp:
    """Return a raw MCP caller with a fresh token of the signed-in person."""
    return RawMcp(f"{browser.base_url}/mcp", token_for(browser, tick=tick, **replaced)["access_token"])


def _present(fields: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}
