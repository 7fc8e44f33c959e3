"""An authorization request is read here: what is wrong with it goes to a page or, once proven, to the client."""

from collections.abc import Mapping
from dataclasses import dataclass

from authlib.oauth2.rfc6749 import OAuth2Error
from werkzeug.datastructures import MultiDict

from auth.clients import Client
from auth.document_clients import is_document_id
from auth.models import LOCAL
from auth.oauth_request import PlainRequest
from auth.outside import fetchable_host
from auth.redirects import with_answer
from auth.resource import names_us
from auth.server import InvalidTarget, Server
from core.errors import BadRequest

ONCE = ("response_type", "client_id", "redirect_uri", "scope", "state", "prompt")
LONGEST_STATE = 6000


class BadAuthorization(BadRequest):
    """A request that can't be answered to the client, since nothing proves that the address is the client's."""

    code = "invalid_request"
    public = "The program that sent you here asked in a way that can't be answered."
    remedy = "Go back to the program and connect again; if it stays so, its maker has to correct the request."


class OnlyCode(OAuth2Error):  # type: ignore[misc] # Authlib has no types
    """The one response type of OAuth 2.1."""

    error = "unsupported_response_type"
    description = "response_type must be code."


@dataclass(frozen=True, slots=True)
class Asked:
    """A valid authorization request; `scopes` are those asked for that exist."""

    client: Client
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str | None
    code_challenge: str
    resource: str
    silent: bool  # prompt=none: the client wants no page
    must_show: bool  # prompt=consent or login: it wants one (OpenID Connect Core 3.1.2.1, which clients of OAuth use)


class SendBack(Exception):
    """The error belongs to the client, whose address is proven; `location` takes it there."""

    def __init__(self, location: str, code: str, sentence: str) -> None:
        super().__init__("authorization error")
        self.location = location
        self.code = code
        self.sentence = sentence


class SignInFirst(Exception):
    """Nothing is fetched for a stranger: the person signs in before the client's document is read (checklist G4)."""


def read_authorization(server: Server, given: MultiDict[str, str], operator_id: str | None) -> Asked:
    """Give the request; raise BadAuthorization until client and address are proven, SendBack after (RFC 6749 4.1.2.1).

    The order is the rule: nothing may be sent to an address that the client hasn't registered, whatever else is wrong.
    A client that is a document is looked up for a signed-in person alone: raise SignInFirst without one, and what
    `DocumentClients.get` raises.
    """
    for name in ONCE:
        if len(given.getlist(name)) > 1:
            raise BadAuthorization(f"The request says {name} twice.")
    client = _client(server, given.get("client_id", ""), operator_id)
    redirect_uri = _redirect_uri(client, given.get("redirect_uri"))
    state = given.get("state")
    if state is not None and (len(state) > LONGEST_STATE or "\x00" in state):
        raise BadAuthorization("The state of the request is too long or unreadable.")
    try:
        _check_rest(server, given)
    except OAuth2Error as error:
        description = error.get_error_description() or ""
        location = refusal(server, redirect_uri, error.error, description, state)
        raise SendBack(location, error.error, description) from None
    prompts = given.get("prompt", "").split()
    return Asked(
        client=client,
        redirect_uri=redirect_uri,
        scopes=server.scopes.parse(given.get("scope", "")),
        state=state,
        code_challenge=given["code_challenge"],
        resource=server.settings.resource,
        silent="none" in prompts,
        must_show=not {"consent", "login", "select_account"}.isdisjoint(prompts),
    )


def refusal(server: Server, redirect_uri: str, error: str, description: str, state: str | None) -> str:
    """Give the address that tells the client of an error, with `iss` (RFC 9207)."""
    return answer_location(
        server.settings.issuer, redirect_uri, state, {"error": error, "error_description": description}
    )


def answer_location(issuer: str, redirect_uri: str, state: str | None, answer: Mapping[str, str]) -> str:
    """Give `redirect_uri` with the answer, the state exactly as it came, and the issuer."""
    echoed = {} if state is None else {"state": state}
    return with_answer(redirect_uri, {**answer, **echoed, "iss": issuer})


def _client(server: Server, client_id: str, operator_id: str | None) -> Client:
    if is_document_id(client_id):
        if fetchable_host(client_id) is None:
            raise BadAuthorization("The program’s client id is not the plain https address of a document.")
        if operator_id is None:
            raise SignInFirst
        return server.documents.get(client_id, operator_id)
    client = server.clients.find(client_id)
    if client is None or client.kind == LOCAL:
        raise BadAuthorization(
            "The program that sent you here is not known to this server. "
            "Remove the connection in the program and add it again."
        )
    return client


def _redirect_uri(client: Client, given: str | None) -> str:
    wanted = given or client.get_default_redirect_uri()
    if not wanted:
        raise BadAuthorization("The program didn’t say where to send you back to.")
    if not client.check_redirect_uri(wanted):
        raise BadAuthorization("The program wants to send you to an address that it hasn’t registered.")
    return wanted


def _check_rest(server: Server, given: MultiDict[str, str]) -> None:
    if given.get("response_type") != "code":
        raise OnlyCode
    server.get_consent_grant(PlainRequest("GET", given))
    if not names_us(given.getlist("resource"), server.settings):
        raise InvalidTarget
