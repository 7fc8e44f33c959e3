"""auth/documents.py: what a metadata document may say, and what of it is kept (checklist G5; case C12)."""

import json

import pytest

from auth.documents import BadDocument, parse_document

URL = "https://client.example/c.json"
JWKS = {"keys": []}
# As OpenAI, Anthropic, Microsoft and Goose publish them (reference: clients.md).
CHATGPT = {
    "client_id": "https://chatgpt.com/oauth/abc/client.json",
    "client_name": "ChatGPT",
    "redirect_uris": ["https://chatgpt.com/connector/oauth/abc"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "private_key_jwt",
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "token_endpoint_auth_signing_alg": "RS256",
    "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
}


def parse(**members):
    """Read a document with `members`, of which None takes one away."""
    given = {"client_id": URL, "client_name": "One", "redirect_uris": ["https://client.example/back"]} | members
    return parse_document(URL, json.dumps({name: value for name, value in given.items() if value is not None}).encode())


def sentence_of(body: bytes) -> str:
    with pytest.raises(BadDocument) as found:
        parse_document(URL, body)
    return found.value.public


def refused(**members) -> str:
    with pytest.raises(BadDocument) as found:
        parse(**members)
    return found.value.public


def test_a_document_that_prefers_signing_and_lists_none_may_do_both():
    found = parse_document(CHATGPT["client_id"], json.dumps(CHATGPT).encode())

    assert found.methods == ("private_key_jwt", "none")
    assert found.jwks_uri == "https://chatgpt.com/oauth/jwks.json"
    assert found.signing_algorithm == "RS256"


def test_a_document_without_a_method_is_public():
    found = parse()

    assert found.methods == ("none",)
    assert found.grant_types == ("authorization_code", "refresh_token")
    assert found.jwks_uri is None


@pytest.mark.parametrize(
    ("members", "methods"),
    [
        ({"token_endpoint_auth_method": "none"}, ("none",)),
        ({"token_endpoint_auth_method": "none", "token_endpoint_auth_methods_supported": []}, ("none",)),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS}, ("private_key_jwt",)),
        (
            {"token_endpoint_auth_method": "tls_client_auth", "token_endpoint_auth_methods_supported": ["none"]},
            ("none",),
        ),
        (
            {"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_methods_supported": ["none"]},
            ("none",),  # without keys
        ),
        (
            {
                "token_endpoint_auth_method": "private_key_jwt",
                "token_endpoint_auth_methods_supported": ["none"],
                "token_endpoint_auth_signing_alg": "PS512",
                "jwks": JWKS,
            },
            ("none",),
        ),
        (
            {
                "token_endpoint_auth_method": "none",
                "token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"],
                "jwks": JWKS,
            },
            ("none", "private_key_jwt"),
        ),
    ],
)
def test_of_the_methods_those_are_kept_that_the_server_knows(members, methods):
    assert parse(**members).methods == methods


@pytest.mark.parametrize(
    "members",
    [
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "client_secret_basic", "token_endpoint_auth_methods_supported": ["none"]},
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": ["none"]},
        {"token_endpoint_auth_method": "none", "token_endpoint_auth_methods_supported": "none private_key_jwt"},
        {"token_endpoint_auth_method": "none", "token_endpoint_auth_methods_supported": [["none"]]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": []},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS, "jwks_uri": "https://client.example/k"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://client.example/k"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://127.0.0.1/k"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://client.example:8443/k"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": 1},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS, "token_endpoint_auth_signing_alg": "HS256"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS, "token_endpoint_auth_signing_alg": "none"},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": JWKS, "token_endpoint_auth_signing_alg": ["RS256"]},
    ],
)
def test_a_document_without_a_way_to_prove_the_client_is_refused(members):
    sentence = refused(**members)

    assert "none" in sentence or "methods" in sentence


@pytest.mark.parametrize(
    "client_id",
    [
        None,
        "",
        1,
        [URL],
        "https://client.example/C.json",
        URL + "?",
        URL + "/",
        URL.upper(),
        "https://evil.example/c.json",
    ],
)
def test_the_client_id_must_be_the_address_letter_by_letter(client_id):
    assert "another client id" in refused(client_id=client_id)


@pytest.mark.parametrize("secret", ["client_secret", "client_secret_expires_at"])
@pytest.mark.parametrize("value", ["s3cret", 0, ""])
def test_a_secret_that_everybody_can_read_is_refused(secret, value):
    assert "secret" in refused(**{secret: value})


@pytest.mark.parametrize("name", [None, "", 1, ["One"], "   ", "\u202e", "x" * 201])
def test_a_document_says_a_name_that_people_can_read(name):
    assert "client_name" in refused(client_name=name)


def test_a_name_keeps_nothing_that_turns_the_text_around_it():
    assert parse(client_name="Cl\u202eau\u200bde\n\n <b>").name == "Claude <b>"


@pytest.mark.parametrize(
    "uris",
    [
        None,
        [],
        "https://client.example/back",
        {"0": "https://client.example/back"},
        [1],
        ["https://client.example/back", None],
        ["javascript:alert(1)", "data:text/html,x", "http://client.example/back", "https://u@client.example/"],
        [f"https://client.example/{n}" for n in range(200)],
        ["https://client.example/" + "x" * 1900] * 5,
    ],
)
def test_redirect_addresses_that_cannot_be_taken_are_refused(uris):
    assert "redirect_uris" in refused(redirect_uris=uris)


def test_one_address_that_cannot_be_registered_takes_none_of_the_others():
    found = parse(redirect_uris=["vscode://x/y", "http://localhost", "https://vscode.dev/redirect"])

    assert found.redirect_uris == ("http://localhost", "https://vscode.dev/redirect")


@pytest.mark.parametrize(
    "members",
    [
        {"grant_types": ["implicit"]},
        {"grant_types": "authorization_code"},
        {"grant_types": [["authorization_code"]]},
        {"response_types": ["token"]},
        {"response_types": "code"},
    ],
)
def test_another_flow_than_the_code_is_refused(members):
    refused(**members)


def test_grant_types_that_the_server_lacks_are_dropped():
    found = parse(grant_types=["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"])

    assert found.grant_types == ("authorization_code",)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"<html>",
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        '{"client_id": "x"}'.encode("utf-16"),
        b"[" * 16000,
        b'{"a":' * 3000,
        b'{"client_id": "' + URL.encode() + b'"} trailing',
    ],
)
def test_what_is_not_one_json_object_is_refused(body):
    assert "JSON" in sentence_of(body)


@pytest.mark.parametrize("twice", ["client_id", "redirect_uris", "x"])
def test_a_member_named_twice_is_refused(twice):
    members = {"client_id": URL, "client_name": "One", "redirect_uris": ["https://client.example/back"], "x": 1}
    whole = json.dumps(members)[:-1] + f', "{twice}": {json.dumps(members[twice])}}}'

    assert "twice" in sentence_of(whole.encode())
