"""auth/pkce.py: S256 for everybody, well-formed, once (OAuth 2.1 4.1; RFC 7636; case C15)."""

from types import SimpleNamespace

import pytest
from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge

from auth.pkce import S256Always
from tests.support.oauth import challenge_of

VERIFIER = "abcXYZ019-._~" + "v" * 40
CHALLENGE = challenge_of(VERIFIER)
NO_CHALLENGE = "One code_challenge of 43 to 128 unreserved characters is required."
NOT_S256 = "code_challenge_method must be S256."
WRONG = "The code_verifier is not the one of the code."


def asking(**lists: list[str]) -> SimpleNamespace:
    return SimpleNamespace(request=SimpleNamespace(payload=SimpleNamespace(datalist=lists)))


def redeeming(verifier: str | None, challenge: str = CHALLENGE) -> SimpleNamespace:
    form = {} if verifier is None else {"code_verifier": verifier}
    code = SimpleNamespace(code_challenge=challenge)
    return SimpleNamespace(request=SimpleNamespace(form=form, authorization_code=code))


@pytest.mark.parametrize("challenge", [CHALLENGE, "a" * 43, "a" * 128, "-._~" * 11])
def test_one_well_formed_s256_challenge_passes(challenge):
    S256Always().validate_code_challenge(asking(code_challenge=[challenge], code_challenge_method=["S256"]), "")


@pytest.mark.parametrize(
    "challenges",
    [None, [], [""], ["a" * 42], ["a" * 129], ["a" * 42 + "+"], ["a" * 42 + "é"], ["a" * 43 + "\n"], ["a" * 43] * 2],
)
def test_no_malformed_or_repeated_challenge_passes(challenges):
    given = {} if challenges is None else {"code_challenge": challenges}
    with pytest.raises(InvalidRequestError) as refused:
        S256Always().validate_code_challenge(asking(code_challenge_method=["S256"], **given), "")

    assert refused.value.description == NO_CHALLENGE


@pytest.mark.parametrize(
    "methods", [None, [], [""], ["plain"], ["s256"], ["S512"], ["S256", "S256"], ["S256", "plain"]]
)
def test_no_other_missing_or_repeated_method_passes(methods):
    given = {} if methods is None else {"code_challenge_method": methods}
    with pytest.raises(InvalidRequestError) as refused:
        S256Always().validate_code_challenge(asking(code_challenge=[CHALLENGE], **given), "")

    assert refused.value.description == NOT_S256


def test_the_verifier_of_the_challenge_redeems():
    S256Always().validate_code_verifier(redeeming(VERIFIER), None)


@pytest.mark.parametrize("verifier", [None, ""])
def test_a_missing_verifier_is_a_bad_request(verifier):
    with pytest.raises(InvalidRequestError) as refused:
        S256Always().validate_code_verifier(redeeming(verifier), None)

    assert refused.value.description == "code_verifier is required."


@pytest.mark.parametrize("verifier", ["w" * 43, VERIFIER + "v", VERIFIER.upper(), CHALLENGE])
def test_another_verifier_redeems_nothing(verifier):
    with pytest.raises(InvalidGrantError) as refused:
        S256Always().validate_code_verifier(redeeming(verifier), None)

    assert refused.value.description == WRONG


@pytest.mark.parametrize("verifier", ["v" * 42, "v" * 129, "v" * 42 + " ", "v" * 42 + "é", "v" * 43 + "\n"])
def test_a_malformed_verifier_redeems_nothing_though_its_hash_would_fit(verifier):
    with pytest.raises(InvalidGrantError) as refused:
        S256Always().validate_code_verifier(redeeming(verifier, challenge_of(verifier)), None)

    assert refused.value.description == WRONG


def test_plain_is_neither_known_nor_the_default():
    assert S256Always.SUPPORTED_CODE_CHALLENGE_METHOD == ("S256",)
    assert S256Always.DEFAULT_CODE_CHALLENGE_METHOD == "S256"
    assert issubclass(S256Always, CodeChallenge)
