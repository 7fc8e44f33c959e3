"""What a program says of itself when it registers (RFC 7591): read tolerantly, kept sparingly, answered cleanly."""

import unicodedata
from dataclasses import dataclass
from typing import Any

import orjson

from auth.metadata import AUTH_METHODS, PRIVATE_KEY_JWT
from auth.outside import fetchable_host
from auth.redirects import CUSTOM, is_loopback_uri, is_only_local, may_be_registered
from core.errors import BadRequest
from policy.scopes import Scopes

GRANT_TYPES = ("authorization_code", "refresh_token")
CLIENT_CREDENTIALS = "client_credentials"  # of machines alone, which only an administrator adds
MOST_REDIRECTS = 20
LONGEST_NAME = 200
LONGEST_TEXT = 500
KEPT_TEXTS = ("client_uri", "logo_uri", "tos_uri", "policy_uri", "software_id", "software_version")
LONGEST_REDIRECTS = 8000  # characters of all addresses together
UNNAMED = "Unnamed client"
BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters and symbols that show nothing
MARKS_TOO_MANY = 3  # more than two on one letter cover the lines around it


class InvalidRedirectUri(BadRequest):
    """An address to be sent back to that can't be taken (RFC 7591 3.2.2)."""

    code = "invalid_redirect_uri"
    remedy = "Register an https address, or http on a loopback address."


class InvalidClientMetadata(BadRequest):
    """Something else of the registration that can't be taken (RFC 7591 3.2.2)."""

    code = "invalid_client_metadata"
    remedy = "Correct the member that the sentence names and register again."


@dataclass(frozen=True, slots=True)
class Registration:
    """What is kept of a registration."""

    redirect_uris: tuple[str, ...]
    auth_method: str
    grant_types: tuple[str, ...]
    name: str
    scope: str
    texts: tuple[tuple[str, str], ...]
    introspects: bool = False  # whether it learns about every token of this resource (RFC 7662)
    device: bool = False  # whether it may connect devices without a browser (RFC 8628)

    def metadata(self) -> dict[str, Any]:
        """Give the members as registered, without nulls and empties (case C09)."""
        members: dict[str, Any] = {
            "redirect_uris": list(self.redirect_uris),
            "token_endpoint_auth_method": self.auth_method,
            "grant_types": list(self.grant_types),
            "response_types": ["code"] if GRANT_TYPES[0] in self.grant_types else [],
            "application_type": "native" if _is_native(self.redirect_uris) else "web",
        }
        if self.name != UNNAMED:
            members["client_name"] = self.name
        if self.scope:
            members["scope"] = self.scope
        if self.introspects:
            members["introspects"] = True
        return members | dict(self.texts)


def parse_registration(raw: bytes, scopes: Scopes) -> Registration:
    """Read a registration; raise InvalidRedirectUri or InvalidClientMetadata, and drop whatever we don't know."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise InvalidClientMetadata("The body must be JSON.") from None
    if not isinstance(body, dict):
        raise InvalidClientMetadata("The body must be a JSON object.")
    redirect_uris = _redirect_uris(body.get("redirect_uris"))
    return Registration(
        redirect_uris=redirect_uris,
        auth_method=_auth_method(body.get("token_endpoint_auth_method"), redirect_uris),
        grant_types=_grant_types(body.get("grant_types"), body.get("response_types")),
        name=_name(body.get("client_name")),
        scope=_scope(body.get("scope"), scopes),
        texts=tuple((name, body[name]) for name in KEPT_TEXTS if _is_short_text(body.get(name))),
    )


def registration_by_hand(
    name: str,
    redirect_uris: tuple[str, ...],
    auth_method: str | None,
    jwks_uri: str | None,
    *,
    introspects: bool = False,
    device: bool = False,
) -> Registration:
    """Give the registration of a client that whoever runs this server adds; raise as `parse_registration`.

    One that signs has its keys at `jwks_uri`, and no other has any. One that only introspects, or is on devices alone,
    is never sent anywhere.
    """
    _check_keys(auth_method, jwks_uri)
    is_sent_nowhere = (introspects or device) and not redirect_uris
    usable = () if is_sent_nowhere else _redirect_uris(list(redirect_uris))
    if introspects and auth_method == "none":
        raise InvalidClientMetadata("A client that introspects has to prove itself.")
    return Registration(
        redirect_uris=usable,
        auth_method=auth_method if auth_method == PRIVATE_KEY_JWT else _auth_method(auth_method, usable),
        grant_types=GRANT_TYPES if usable else GRANT_TYPES[1:] if device else (),
        name=_name_by_hand(name),
        scope="",
        texts=() if jwks_uri is None else (("jwks_uri", jwks_uri),),
        introspects=introspects,
        device=device,
    )


def machine_registration(name: str, auth_method: str, jwks_uri: str | None) -> Registration:
    """Give the registration of a client that acts for nobody: it always proves itself, and is never sent anywhere."""
    _check_keys(auth_method, jwks_uri)
    if auth_method == "none":
        raise InvalidClientMetadata("A machine has to prove itself.")
    return Registration(
        redirect_uris=(),
        auth_method=auth_method,
        grant_types=(CLIENT_CREDENTIALS,),
        name=_name_by_hand(name),
        scope="",
        texts=() if jwks_uri is None else (("jwks_uri", jwks_uri),),
    )


def clean_name(text: str) -> str:
    """Give `text` without what can't be seen or turns the text around it; white space runs become one space.

    Of combining marks two in a row are kept; without a letter or a digit nothing is left.
    """
    visible, marks = [], 0
    for c in text:
        category = unicodedata.category(c)
        if category in ("Zs", "Zl", "Zp", "Cc"):
            visible.append(" ")
        elif category[0] != "C" and c not in BLANKS:
            marks = marks + 1 if category[0] == "M" else 0
            if marks < MARKS_TOO_MANY:
                visible.append(c)
    name = " ".join("".join(visible).split())
    return name if any(unicodedata.category(c)[0] in "LN" for c in name) else ""


def _check_keys(auth_method: str | None, jwks_uri: str | None) -> None:
    signs = auth_method == PRIVATE_KEY_JWT
    if signs != (jwks_uri is not None) or (jwks_uri is not None and fetchable_host(jwks_uri) is None):
        raise InvalidClientMetadata(f"{PRIVATE_KEY_JWT} needs a jwks_uri that is a plain https address, no other does.")


def _name_by_hand(name: str) -> str:
    if not clean_name(name):
        raise InvalidClientMetadata("The name needs a letter or a digit.")
    return _name(name)


def _redirect_uris(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise InvalidRedirectUri("redirect_uris must be a list with at least one address.")
    if len(given) > MOST_REDIRECTS:
        raise InvalidRedirectUri(f"redirect_uris has more than {MOST_REDIRECTS} addresses.")
    if sum(len(uri) for uri in given if isinstance(uri, str)) > LONGEST_REDIRECTS:
        raise InvalidRedirectUri(f"redirect_uris has more than {LONGEST_REDIRECTS} characters.")
    for position, uri in enumerate(given):
        if not isinstance(uri, str) or not may_be_registered(uri):
            raise InvalidRedirectUri(
                f"redirect_uris[{position}] must be https, or http on localhost, 127.0.0.1 or [::1], without fragment, "
                "user name and wildcard."
            )
    return tuple(given)


def _auth_method(given: object, redirect_uris: tuple[str, ...]) -> str:
    if given is None or given == "":
        # A program on the person's machine keeps no secret, so it is given none (RFC 8252 8.5).
        return "none" if is_only_local(redirect_uris) else "client_secret_basic"
    if given not in AUTH_METHODS:
        raise InvalidClientMetadata(f"token_endpoint_auth_method must be one of {', '.join(AUTH_METHODS)}.")
    return str(given)


def _grant_types(given: object, response_types: object) -> tuple[str, ...]:
    if response_types not in (None, []) and not (isinstance(response_types, list) and "code" in response_types):
        raise InvalidClientMetadata("response_types must contain code.")
    if given is None or given == []:
        return GRANT_TYPES
    if not isinstance(given, list) or "authorization_code" not in given:
        raise InvalidClientMetadata("grant_types must contain authorization_code.")
    return tuple(grant_type for grant_type in GRANT_TYPES if grant_type in given)


def _name(given: object) -> str:
    if given is None:
        return UNNAMED
    if not isinstance(given, str) or len(given) > LONGEST_NAME:
        raise InvalidClientMetadata(f"client_name must be a text of at most {LONGEST_NAME} characters.")
    return clean_name(given) or UNNAMED


def _scope(given: object, scopes: Scopes) -> str:
    return " ".join(scopes.parse(given)) if isinstance(given, str) else ""


def _is_short_text(given: object) -> bool:
    return isinstance(given, str) and 0 < len(given) <= LONGEST_TEXT and given.isprintable()


def _is_native(redirect_uris: tuple[str, ...]) -> bool:
    # Whatever the client said: Cursor registers `web` with a private scheme (case C10).
    return any(is_loopback_uri(uri) or uri in CUSTOM for uri in redirect_uris)
