"""auth/passwords.py: argon2id, one answer for everybody."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from auth import passwords
from auth.passwords import Busy, Passwords, WeakPassword, require_strong
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


def test_only_two_are_worked_on_at_once_and_the_others_wait_or_are_told_to_come_back(monkeypatch):
    monkeypatch.setattr(passwords, "PATIENCE", 0.05)
    here, working, may_end = Passwords(Argon2(1, 8, 1)), threading.Semaphore(0), threading.Event()
    stored = here.hash("correct horse battery")

    class Slow:
        def verify(self, *_: object) -> bool:
            working.release()
            return may_end.wait(10)

        def hash(self, _: object) -> str:
            return stored

    quick, here._hasher = here._hasher, Slow()
    with ThreadPoolExecutor(2) as pool:
        two = [pool.submit(here.verify, stored, "x") for _ in range(2)]
        assert all(working.acquire(timeout=10) for _ in two)
        for third in (lambda: here.verify(stored, "x"), lambda: here.verify(None, "x"), lambda: here.hash("x")):
            with pytest.raises(Busy) as told:
                third()
            assert told.value.retry_after > 0
        may_end.set()
        assert [one.result() for one in two] == [True, True]
    here._hasher = quick
    assert here.verify(stored, "correct horse battery")  # every turn was given back
