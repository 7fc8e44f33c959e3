"""Which client speaks at the token endpoint (RFC 6749 2.3; case C27). Whatever is wrong is 401 invalid_client."""

import base64
import binascii
from dataclasses import dataclass
from urllib.parse import unquote

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError, OAuth2Error
from werkzeug.datastructures import MultiDict

from auth.assertions import TYPE, Assertions, BadAssertion, subject_of
from auth.clients import Client, Clients
from auth.document_clients import DocumentClients
from auth.metadata import PRIVATE_KEY_JWT
from auth.models import DOCUMENT, LOCAL


class UnknownClient(InvalidClientError):  # type: ignore[misc] # Authlib has no types
    """401 whatever the method was: Claude registers again only then."""

    status_code = 401

    def get_headers(self) -> list[tuple[str, str]]:
        """Give the challenge that RFC 6749 5.2 asks for."""
        return [("WWW-Authenticate", 'Basic realm="countersign"')]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request said, proven by nothing yet."""

    client_id: str
    secret: str
    method: str
    assertion: str | None = None


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """Finds out which client speaks."""

    clients: Clients
    documents: DocumentClients
    assertions: Assertions

    def authenticate(self, form: MultiDict[str, str], authorization: str | None) -> tuple[Client, str]:
        """Give the client and the method it used; raise UnknownClient, or InvalidRequestError for two methods at once.

        A confidential client may use either secret method, whichever it registered: real ones mix them.
        """
        given = _credentials(form, authorization)
        client = self.clients.find(given.client_id)
        if client is None or client.kind == LOCAL:
            raise UnknownClient("The client is not registered here.")
        if client.kind == DOCUMENT and not self.documents.is_allowed(client.id):
            raise UnknownClient("This server doesn't connect programs of this host.")
        if given.assertion is not None:
            self._check_assertion(client, given.assertion, refreshing=form.get("grant_type") == "refresh_token")
            return client, given.method
        if client.secret_digest is None:
            _check_public(client, given)
            return client, "none"
        if not client.check_client_secret(given.secret):
            raise UnknownClient("The client secret is missing or wrong.")
        return client, given.method

    def _check_assertion(self, client: Client, assertion: str, *, refreshing: bool) -> None:
        if not client.signs:
            raise UnknownClient("This client has no keys here.")
        try:
            self.assertions.check(client, assertion, refreshing=refreshing)
        except BadAssertion as error:
            raise UnknownClient(str(error)) from None


def claimed_client_id(form: MultiDict[str, str], authorization: str | None) -> str:
    """Give the client id that a request says, proven by nothing; empty when it says none."""
    try:
        return _credentials(form, authorization).client_id
    except OAuth2Error:
        return form.get("client_id", "")


def _check_public(client: Client, given: Credentials) -> None:
    if given.secret:
        raise UnknownClient("This client has no secret.")
    if not client.is_public:
        raise UnknownClient(f"This client proves itself by {PRIVATE_KEY_JWT}: send a client_assertion.")


def _credentials(form: MultiDict[str, str], authorization: str | None) -> Credentials:
    client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    if "client_assertion" in form or "client_assertion_type" in form:
        if authorization is not None or secret:
            raise InvalidRequestError("Use one way of client authentication, not two.")
        return _asserted(client_id, form)
    if authorization is None:
        return Credentials(client_id, secret, "client_secret_post")
    basic_id, basic_secret = _basic(authorization)
    if (client_id and client_id != basic_id) or (secret and secret != basic_secret):
        raise UnknownClient("The Authorization header and the body name different clients.")
    if secret:
        raise InvalidRequestError("Use one way of client authentication, not two.")
    return Credentials(basic_id, basic_secret, "client_secret_basic")


def _asserted(client_id: str, form: MultiDict[str, str]) -> Credentials:
    if form.get("client_assertion_type") != TYPE:
        raise UnknownClient(f"client_assertion_type must be {TYPE}.")
    assertion = form.get("client_assertion", "")
    try:
        # RFC 7521 4.2: the client id may be left out, since the assertion names it.
        return Credentials(client_id or subject_of(assertion), "", PRIVATE_KEY_JWT, assertion)
    except BadAssertion as error:
        raise UnknownClient(str(error)) from None


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        raise UnknownClient("Only Basic is understood here.")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise UnknownClient("The Basic credentials can not be read.") from None
    client_id, _, secret = text.partition(":")
    return unquote(client_id), unquote(secret)
