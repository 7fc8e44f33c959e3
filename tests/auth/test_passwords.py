"""auth/passwords.py: argon2id, one answer for everybody."""

import pytest

from auth.passwords import Passwords, WeakPassword, require_strong
from core.settings import Argon2

PASSWORDS = Passwords(Argon2(1, 8, 1))


def test_only_the_same_password_fits():
    stored = PASSWORDS.hash("correct horse battery")

    assert stored.startswith("$argon2id$")
    assert PASSWORDS.verify(stored, "correct horse battery")
    assert not PASSWORDS.verify(stored, "correct horse batterz")
    assert not PASSWORDS.verify(stored, "")


def test_composed_and_decomposed_letters_are_the_same_password():
    assert PASSWORDS.verify(PASSWORDS.hash("Zoe\u0308 has a password"), "Zo\u00eb has a password")


def test_nobody_has_no_password_and_costs_the_same_work():

    assert not PASSWORDS.verify(None, "nobody has this password")
    assert PASSWORDS._nobody is not None  # a real hash was verified, so that time tells nothing


def test_a_damaged_hash_lets_nobody_in():
    assert not PASSWORDS.verify("$argon2id$broken", "x")
    assert not PASSWORDS.verify("", "x")


def test_a_password_without_end_is_refused_and_not_cut():
    with pytest.raises(WeakPassword):
        PASSWORDS.hash("a" * 1025)

    assert not PASSWORDS.verify(PASSWORDS.hash("a" * 1024), "a" * 1025)


@pytest.mark.parametrize("password", ["", "short", "a" * 11, "a" * 1025])
def test_a_person_chooses_at_least_twelve_characters(password):
    with pytest.raises(WeakPassword):
        require_strong(password)
