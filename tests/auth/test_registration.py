"""auth/registration.py: tolerant in what it reads, clean in what it keeps (RFC 7591; cases C09, C10)."""

import json

import pytest

from auth.registration import (
    InvalidClientMetadata,
    InvalidRedirectUri,
    clean_name,
    parse_registration,
    registration_by_hand,
)
from policy.scopes import Scopes

SCOPES = Scopes([])
LOOPBACK = "http://127.0.0.1:33418/"


def parse(**members):
    return parse_registration(json.dumps({"redirect_uris": [LOOPBACK]} | members).encode(), SCOPES)


def test_nulls_and_empties_leave_no_trace():
    found = parse(client_name="X", client_uri="", logo_uri=None, scope="", contacts=None).metadata()

    assert found == {
        "redirect_uris": [LOOPBACK],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "client_name": "X",
    }


def test_cursor_registers_with_its_own_scheme_and_a_wrong_type():
    redirect_uris = [
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ]

    found = parse(redirect_uris=redirect_uris, token_endpoint_auth_method="none", application_type="web").metadata()

    assert found["redirect_uris"] == redirect_uris
    assert found["application_type"] == "native"


def test_grant_types_that_we_lack_are_dropped():
    device = "urn:ietf:params:oauth:grant-type:device_code"
    found = parse(grant_types=["authorization_code", "refresh_token", device])

    assert found.grant_types == ("authorization_code", "refresh_token")


def test_a_client_that_wants_no_refresh_token_gets_none():
    assert parse(grant_types=["authorization_code"]).grant_types == ("authorization_code",)


def test_without_a_method_a_web_client_gets_the_default_of_the_rfc_and_a_local_one_none():
    assert parse(redirect_uris=["https://claude.ai/api/mcp/auth_callback"]).auth_method == "client_secret_basic"
    assert parse().auth_method == "none"


def test_unknown_members_are_dropped():
    found = parse(x={"y": 1}, software_statement="abc", require_pushed_authorization_requests=False, jwks={})

    assert not {"x", "software_statement", "jwks"} & found.metadata().keys()


@pytest.mark.parametrize(
    "redirect_uris",
    [
        None,
        [],
        "https://a.example/",
        [1],
        [None],
        {},
        ["javascript:alert(1)"],
        ["https://a.example/cb"] * 200,
        ["https://a.example/" + "a" * 1700] * 5,
    ],
)
def test_redirect_uris_that_cannot_be_taken(redirect_uris):
    with pytest.raises(InvalidRedirectUri):
        parse(redirect_uris=redirect_uris)


@pytest.mark.parametrize(
    "member",
    [
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": 1},
        {"grant_types": ["client_credentials"]},
        {"grant_types": "authorization_code"},
        {"grant_types": [[]]},
        {"response_types": ["token"]},
        {"response_types": "code"},
        {"client_name": 5},
        {"client_name": "n" * 5000},
    ],
)
def test_members_that_cannot_be_taken(member):
    with pytest.raises(InvalidClientMetadata):
        parse(**member)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'"x"', b"[1]", b"null", b"\xff", b"[" * 100_000, b'{"client_name":"\\ud800"}']
)
def test_bodies_that_are_no_registration(raw):
    with pytest.raises((InvalidClientMetadata, InvalidRedirectUri)):
        parse_registration(raw, SCOPES)


def test_a_name_keeps_no_control_and_no_direction_marks():
    assert clean_name("Ba\u202enk\x00\n  of\u2028 it\u200b\ud83d") == "Bank of it"
    assert parse(client_name="\u202e").name == "Unnamed client"
    assert parse(client_name="<script>").name == "<script>"  # harmless: every page escapes it


@pytest.mark.parametrize("blank", ["\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "...", "\U0001f512", "\u0301", ""])
def test_a_name_that_names_nothing_is_none(blank):
    assert clean_name(blank) == ""
    assert parse(client_name=blank * 3).name == "Unnamed client"


def test_a_name_is_not_stretched_by_blank_letters_and_not_piled_up_by_marks():
    assert clean_name("Ba\u3164\u2800nk") == "Bank"
    assert clean_name("Zo\u0308\u0301" + "\u0336\u200b" * 90 + "e") == "Zo\u0308\u0301e"
    assert clean_name("7-Eleven") == "7-Eleven"
    assert clean_name("\u0932\u0947") == "\u0932\u0947"  # a letter with the vowel that belongs to it


@pytest.mark.parametrize(
    ("uri", "method", "shown"),
    [
        ("https://app.example/back", None, "client_secret_basic"),
        ("https://app.example/back", "client_secret_post", "client_secret_post"),
        ("https://app.example/back", "none", "none"),
        (LOOPBACK, None, "none"),
    ],
)
def test_a_client_added_by_hand_proves_itself_as_its_place_allows(uri, method, shown):
    assert registration_by_hand("Our app", (uri,), method, None).auth_method == shown


@pytest.mark.parametrize(
    ("name", "uris", "method", "jwks_uri"),
    [
        ("App", (), None, None),
        ("App", ("javascript:alert(1)",), None, None),
        ("App", ("http://app.example/back",), None, None),
        ("\u202e", (LOOPBACK,), None, None),
        ("x" * 201, (LOOPBACK,), None, None),
        ("App", (LOOPBACK,), "tls_client_auth", None),
        ("App", (LOOPBACK,), "private_key_jwt", None),
        ("App", (LOOPBACK,), None, "https://keys.example/jwks"),
        ("App", (LOOPBACK,), "none", "https://keys.example/jwks"),
        ("App", (LOOPBACK,), "private_key_jwt", "https://127.0.0.1/jwks"),
        ("App", (LOOPBACK,), "private_key_jwt", "http://keys.example/jwks"),
    ],
)
def test_a_client_that_can_not_work_is_not_added_by_hand(name, uris, method, jwks_uri):
    with pytest.raises((InvalidClientMetadata, InvalidRedirectUri)):
        registration_by_hand(name, uris, method, jwks_uri)
