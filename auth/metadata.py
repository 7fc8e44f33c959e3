"""What this server says of itself: RFC 8414 (authorization server) and RFC 9728 (protected resource)."""

from typing import Any
from urllib.parse import urlsplit

from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE

from core.settings import Settings
from policy.scopes import Scopes

OFFLINE = "offline_access"
SECRET_METHODS = ("client_secret_post", "client_secret_basic")
AUTH_METHODS = ("none", *SECRET_METHODS)
PRIVATE_KEY_JWT = "private_key_jwt"
SIGNING_ALGORITHMS = ("RS256", "ES256")
RESOURCE_DOCUMENT = "/.well-known/oauth-protected-resource"
SERVER_DOCUMENT = "/.well-known/oauth-authorization-server"


def resource_metadata_url(settings: Settings) -> str:
    """Give the address of the resource's document: the well-known part before the path (RFC 9728 3.1)."""
    return f"{settings.origin}{RESOURCE_DOCUMENT}{urlsplit(settings.resource).path}"


def resource_metadata(settings: Settings, scopes: Scopes) -> dict[str, Any]:
    """Give the protected resource metadata; `scopes_supported` is what a client asks for at first (R2, R9)."""
    return {
        "resource": settings.resource,
        "authorization_servers": [settings.issuer],
        "scopes_supported": list(scopes.read_scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": "Countersign",
    }


def token_endpoint(settings: Settings) -> str:
    """Give the address of the token endpoint."""
    return f"{settings.base_url}/oauth/token"


def server_metadata(settings: Settings, scopes: Scopes) -> dict[str, Any]:
    """Give the authorization server metadata: everything that can be consented (checklist S3)."""
    oauth = f"{settings.base_url}/oauth"
    devices = {"device_authorization_endpoint": f"{oauth}/device"} if settings.device_grant else {}
    grant_types = ["authorization_code", "refresh_token", "client_credentials"]
    return {
        "issuer": settings.issuer,
        "authorization_endpoint": f"{oauth}/authorize",
        "token_endpoint": token_endpoint(settings),
        "registration_endpoint": f"{oauth}/register",
        "revocation_endpoint": f"{oauth}/revoke",
        "scopes_supported": [*scopes.consentable, OFFLINE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [*grant_types, *([DEVICE_CODE_GRANT_TYPE] if settings.device_grant else [])],
        **devices,
        "token_endpoint_auth_methods_supported": [*AUTH_METHODS, PRIVATE_KEY_JWT],
        "token_endpoint_auth_signing_alg_values_supported": list(SIGNING_ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": [*AUTH_METHODS, PRIVATE_KEY_JWT],
        "revocation_endpoint_auth_signing_alg_values_supported": list(SIGNING_ALGORITHMS),
        "introspection_endpoint": f"{oauth}/introspect",
        "introspection_endpoint_auth_methods_supported": [*SECRET_METHODS, PRIVATE_KEY_JWT],
        "introspection_endpoint_auth_signing_alg_values_supported": list(SIGNING_ALGORITHMS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": settings.advertise_iss,
        "client_id_metadata_document_supported": settings.cimd,
    }
