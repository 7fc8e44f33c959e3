"""auth/key_sets.py: of what a client publishes, the public keys that may sign (RFC 7517, RFC 8725 3.5)."""

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from auth.documents import BadDocument
from auth.key_sets import MOST_KEYS, keys_of_document, keys_of_set
from tests.support.signing import key_set, new_key

RSA, EC = new_key("RS256", "rsa"), new_key("ES256", "ec")
URL = "https://client.example/c.json"


def read(keys: Any, **more: Any):
    return keys_of_set(json.dumps({"keys": keys, **more}).encode())


def public(key: Any, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **members}


def test_keys_of_both_kinds_are_read_with_their_names():
    found = read([public(RSA), public(EC, use="sig", alg="ES256"), public(new_key(kid=None))])

    assert [(one.kid, one.algorithm) for one in found] == [("rsa", "RS256"), ("ec", "ES256"), (None, "ES256")]
    assert not any(one.key.is_private for one in found)


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "AKP", "pub": "x"},
        {},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": 1, "e": []},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        EC.as_dict(private=True),
        RSA.as_dict(private=True),
        public(RSA, use="enc"),
        public(RSA, alg="RS512"),
        public(RSA, alg="HS256"),
        public(EC, alg="RS256"),
        public(EC, kid=7),
        public(ECKey.generate_key("P-384")),
        "x",
        None,
    ],
)
def test_a_key_that_may_not_sign_is_passed_over_and_takes_no_other_with_it(key):
    assert [one.kid for one in read([key, public(EC)])] == ["ec"]


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_short_rsa_key_is_passed_over():
    assert read([public(RSAKey.generate_key(1024))]) == ()


@pytest.mark.parametrize("keys", [None, {}, "x", [public(EC)] * (MOST_KEYS + 1)])
def test_what_is_no_list_of_keys_is_refused(keys):
    with pytest.raises(BadDocument):
        read(keys)


def test_keys_of_a_document_are_read_while_it_signs_and_is_its_own():
    document = {
        "client_id": URL,
        "client_name": "One",
        "redirect_uris": ["http://localhost/"],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": key_set(EC),
    }
    reader = keys_of_document(URL)

    assert [one.kid for one in reader(json.dumps(document).encode())] == ["ec"]
    for change in ({"token_endpoint_auth_method": "none", "jwks": None}, {"client_id": URL + "x"}):
        with pytest.raises(BadDocument):
            reader(json.dumps(document | change).encode())
