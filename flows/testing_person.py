"""The person behind a fake agent (flows/testing.py): a browser without scripts in front of the Flask application."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from flask import Flask
from werkzeug.test import TestResponse

RESOURCE_DOCUMENT = "/mcp/.well-known/oauth-protected-resource"  # stands there under every base URL
REDIRECT_URI = "http://127.0.0.1:33418/callback"
VERIFIER = "no-secret-is-needed-where-nobody-else-listens"
MOVED = (302, 303)
MOST_MOVES = 10


@dataclass(slots=True)
class Form:
    """A form of a page: where it goes, its fields in order, and its tick boxes (value: whether it is ticked)."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    boxes: dict[str, bool] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class Person:
    """Signs in, consents and decides, with the password wherever a page asks for a proof."""

    def __init__(self, app: Flask, email: str, password: str) -> None:
        self._client = app.test_client()
        self._email = email
        self._password = password
        document = self._client.get(RESOURCE_DOCUMENT, base_url="http://localhost").get_json()
        self.resource: str = document["resource"]
        self._base_url = self.resource.removesuffix("/mcp")
        parts = urlsplit(self.resource)
        self._origin = f"{parts.scheme}://{parts.netloc}"

    def send(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> TestResponse:
        """Send JSON as a program does; `path` is below the base URL."""
        url = urlsplit(self._base_url + path)
        return self._client.post(url.path, base_url=self._origin, json=body, headers=dict(headers))

    def sign_in(self) -> None:
        """Sign in; fail with what the page says."""
        _, page = self._open(f"{self._base_url}/login")
        form = _form_with("email", page)
        location, page = self._submit(form, [*form.fields, ("email", self._email), ("password", self._password)])
        if location is not None or any("email" in one.names for one in forms_of(page)):
            raise AssertionError(f"{self._email} could not sign in:\n{text_of(page)}")

    def connect(self, scopes: Iterable[str] | None) -> str:
        """Register a program, consent to `scopes` beside the read rights (None: to all that is offered); give a token.

        A right that isn't offered fails with what is.
        """
        metadata = {"client_name": "Test agent", "redirect_uris": [REDIRECT_URI], "token_endpoint_auth_method": "none"}
        client_id = self.send("/oauth/register", metadata, {}).get_json()["client_id"]
        _, page = self._open(f"{self._base_url}/oauth/authorize?{urlencode(self._request(client_id))}")
        form = _form_with("request", page)
        wanted = set(form.boxes) if scopes is None else set(scopes)
        if not wanted <= set(form.boxes):
            raise AssertionError(f"not offered: {sorted(wanted - set(form.boxes))}; there are {sorted(form.boxes)}")
        ticked = [box for box, is_ticked in form.boxes.items() if is_ticked or box in wanted]
        location, page = self._submit(
            form, [*form.fields, *(("scope", box) for box in ticked), ("password", self._password), ("answer", "allow")]
        )
        if location is None:
            raise AssertionError(f"nothing was connected:\n{text_of(page)}")
        return self._token(client_id, parse_qs(urlsplit(location).query)["code"][0])

    def decide(self, confirm_url: str, decision: str, note: str = "") -> None:
        """Open a confirmation and `approve` or `deny` it; fail with what the page says."""
        _, page = self._open(confirm_url)
        form = _form_with("note", page)
        sent = [("note", note), ("password", self._password), ("decision", decision)]
        _, page = self._submit(form, [*form.fields, *sent])
        if any("note" in one.names for one in forms_of(page)):
            raise AssertionError(f"{decision} was not taken:\n{text_of(page)}")

    def _request(self, client_id: str) -> dict[str, str]:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
        return {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": REDIRECT_URI,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": self.resource,
        }

    def _token(self, client_id: str, code: str) -> str:
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": REDIRECT_URI,
            "client_id": client_id,
            "code_verifier": VERIFIER,
            "resource": self.resource,
        }
        url = urlsplit(f"{self._base_url}/oauth/token")
        token: str = self._client.post(url.path, base_url=self._origin, data=given).get_json()["access_token"]
        return token

    def _open(self, url: str) -> tuple[str | None, str]:
        return self._follow(self._get(url))

    def _submit(self, form: Form, fields: Iterable[tuple[str, str]]) -> tuple[str | None, str]:
        data: dict[str, list[str]] = {}
        for name, value in fields:
            data.setdefault(name, []).append(value)
        return self._follow(self._client.post(urlsplit(form.action).path, base_url=self._origin, data=data))

    def _follow(self, answer: TestResponse) -> tuple[str | None, str]:
        """Give the page at the end and None, or the address of another program that the browser is sent to."""
        for _ in range(MOST_MOVES):
            if answer.status_code not in MOVED:
                return None, answer.text
            location = answer.headers["Location"]
            if not location.startswith(("/", self._origin + "/")):
                return location, ""
            answer = self._get(location)
        raise AssertionError(f"more than {MOST_MOVES} redirects")

    def _get(self, url: str) -> TestResponse:
        parts = urlsplit(url)
        return self._client.get(parts.path, base_url=self._origin, query_string=parts.query)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []
        self.text: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._unseen += tag in ("head", "script", "style")
        if tag == "form":
            self.found.append(Form(given.get("action", "")))
        elif tag in ("input", "textarea") and self.found and given.get("name"):
            self._add(self.found[-1], given)

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in ("head", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self._unseen and data.strip():
            self.text.append(data.strip())

    def _add(self, form: Form, given: Mapping[str, str]) -> None:
        form.names.add(given["name"])
        if given.get("type") == "hidden":
            form.fields.append((given["name"], given.get("value", "")))
        elif given.get("type") == "checkbox" and given["name"] == "scope" and "disabled" not in given:
            form.boxes[given["value"]] = "checked" in given


def forms_of(page: str) -> list[Form]:
    """Give the forms of a page."""
    return _parsed(page).found


def text_of(page: str) -> str:
    """Give what a reader sees of a page, for the words of a failed assertion."""
    return "\n".join(_parsed(page).text)


def _parsed(page: str) -> _Forms:
    parser = _Forms()
    parser.feed(page)
    parser.close()
    return parser


def _form_with(name: str, page: str) -> Form:
    found = [form for form in forms_of(page) if name in form.names]
    if not found:
        raise AssertionError(f"the page has no form with {name}:\n{text_of(page)}")
    return found[0]
