"""What a program says of itself in its Client ID Metadata Document (checklist G3-G6): read strictly, kept sparingly.

Whoever publishes a document decides what stands in it, at any time: nothing of it is proven but that it came from
the host that its client id names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from auth.metadata import PRIVATE_KEY_JWT, SIGNING_ALGORITHMS
from auth.outside import fetchable_host
from auth.redirects import may_be_registered
from auth.registration import GRANT_TYPES, LONGEST_NAME, LONGEST_REDIRECTS, MOST_REDIRECTS, clean_name
from core.errors import BadRequest

MOST_BYTES = 16_384
SECRETS = ("client_secret", "client_secret_expires_at")
METHODS = ("none", PRIVATE_KEY_JWT)


class BadDocument(BadRequest):
    """A client's metadata document that breaks a rule, or one that is another client's."""

    code = "invalid_client_document"
    remedy = "The program's maker has to correct the document that stands at the client id."


@dataclass(frozen=True, slots=True)
class Document:
    """One document that keeps the rules; `methods` are those of its own that this server knows."""

    url: str
    name: str
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    methods: tuple[str, ...]
    signing_algorithm: str | None
    jwks_uri: str | None

    def registration(self) -> dict[str, Any]:
        """Give what is kept beside name and addresses, without nulls."""
        members = {
            "grant_types": list(self.grant_types),
            "methods": list(self.methods),
            "token_endpoint_auth_signing_alg": self.signing_algorithm,
            "jwks_uri": self.jwks_uri,
        }
        return {name: value for name, value in members.items() if value is not None}


def parse_document(url: str, body: bytes) -> Document:
    """Read the document that was fetched from `url`; raise BadDocument."""
    given = read_object(body)
    if given.get("client_id") != url:
        raise BadDocument("The document names another client id than the address that it stands at.")
    if any(name in given for name in SECRETS):
        raise BadDocument("The document has a client secret, which everybody can read.")
    methods = _methods(given)
    return Document(
        url=url,
        name=_name(given.get("client_name")),
        redirect_uris=_redirect_uris(given.get("redirect_uris")),
        grant_types=_grant_types(given.get("grant_types"), given.get("response_types")),
        methods=methods,
        signing_algorithm=given.get("token_endpoint_auth_signing_alg") if PRIVATE_KEY_JWT in methods else None,
        jwks_uri=given.get("jwks_uri") if PRIVATE_KEY_JWT in methods else None,
    )


def read_object(body: bytes) -> dict[str, Any]:
    """Give the members of a JSON object; raise BadDocument for what isn't strict JSON, or names a member twice."""
    try:
        orjson.loads(body)  # strict, where `json` takes NaN, other encodings and lone surrogates
        given = json.loads(body, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        raise BadDocument("What the program publishes is not valid JSON in UTF-8.") from None
    if not isinstance(given, dict):
        raise BadDocument("What the program publishes is not a JSON object.")
    return given


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):  # readers disagree on which one counts
        raise BadDocument("What the program publishes names a member twice.")
    return members


def _name(given: object) -> str:
    if not isinstance(given, str) or len(given) > LONGEST_NAME or not clean_name(given):
        raise BadDocument(f"The document’s client_name must be a text of at most {LONGEST_NAME} characters.")
    return clean_name(given)


def _redirect_uris(given: object) -> tuple[str, ...]:
    """Give the addresses that may be registered: one that may not is of no use, but no reason to lose the others."""
    if not isinstance(given, list) or not all(isinstance(uri, str) for uri in given):
        raise BadDocument("The document’s redirect_uris must be a list of addresses.")
    if len(given) > MOST_REDIRECTS or sum(len(uri) for uri in given) > LONGEST_REDIRECTS:
        raise BadDocument(f"The document’s redirect_uris may have {MOST_REDIRECTS} addresses, and not very long ones.")
    usable = tuple(uri for uri in given if may_be_registered(uri))
    if not usable:
        raise BadDocument("The document’s redirect_uris has no https address and no http address on localhost.")
    return usable


def _grant_types(given: object, response_types: object) -> tuple[str, ...]:
    if response_types is not None and not (isinstance(response_types, list) and "code" in response_types):
        raise BadDocument("The document’s response_types must contain code.")
    if given is None:
        return GRANT_TYPES
    if not isinstance(given, list) or "authorization_code" not in given:
        raise BadDocument("The document’s grant_types must contain authorization_code.")
    return tuple(grant_type for grant_type in GRANT_TYPES if grant_type in given)


def _methods(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the methods that document and server have in common, the preferred one first (case C12).

    Without any the method is `none`: RFC 7591's default is a shared secret, and there is nobody to share it with.
    """
    preferred = given.get("token_endpoint_auth_method", "none")
    listed = given.get("token_endpoint_auth_methods_supported", [])
    if not isinstance(listed, list) or not all(isinstance(method, str) for method in (preferred, *listed)):
        raise BadDocument("The document’s authentication methods must be a text and a list of texts.")
    if preferred.startswith("client_secret"):
        raise BadDocument(
            f"The document asks for a client secret, which can’t be shared: use none or {PRIVATE_KEY_JWT}."
        )
    named = dict.fromkeys((preferred, *listed))
    usable = tuple(method for method in named if method in METHODS and (method == "none" or _has_keys(given)))
    if not usable:
        raise BadDocument(
            f"The document offers no way to prove the program that this server knows: none, or {PRIVATE_KEY_JWT} with "
            f"{' or '.join(SIGNING_ALGORITHMS)} and either jwks or jwks_uri."
        )
    return usable


def _has_keys(given: Mapping[str, Any]) -> bool:
    if given.get("token_endpoint_auth_signing_alg", SIGNING_ALGORITHMS[0]) not in SIGNING_ALGORITHMS:
        return False
    jwks, jwks_uri = given.get("jwks"), given.get("jwks_uri")
    if jwks_uri is None:
        return isinstance(jwks, dict)
    return jwks is None and isinstance(jwks_uri, str) and fetchable_host(jwks_uri) is not None
