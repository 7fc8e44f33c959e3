"""auth/proofs.py: when a session alone decides, and when a password must."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from auth.proofs import Proofs
from auth.sessions import SignedIn
from auth.throttle import Key, Try
from core.clock import SystemClock
from core.errors import ProofFailed
from core.settings import Settings
from flows.caller import Role
from policy.approval import ProofKind

NOW = SystemClock().now()


class StoppedClock:
    def now(self):
        return NOW


class OnePassword:
    """Stands for the operators."""

    def has_password(self, operator_id: str, password: str) -> bool:
        return (operator_id, password) == ("op_1", "right")


class Count:
    """Stands for the throttle."""

    def __init__(self) -> None:
        self.begun, self.forgiven = 0, 0

    def begin(self, *_: Key) -> Try:
        self.begun += 1
        return Try(())

    def succeeded(self, _: Try) -> None:
        self.forgiven += 1

    def is_paused(self, _: Key) -> bool:
        return False


class NoDatabase:
    """Stands for the database."""

    @contextmanager
    def write(self) -> Iterator[None]:
        yield


class NoAudit:
    """Stands for the audit; what it holds is tested over HTTP."""

    def row(self, *_: object, **__: object) -> None:
        """Make nothing."""

    def write(self, *_: object) -> None:
        """Write nothing."""


def proofs(base_url: str, count: Count | None = None) -> Proofs:
    settings = Settings(
        base_url=base_url, port=1, instance=Path("/x"), database_url="sqlite:///x", secret_keys=(), production=True
    )
    return Proofs(
        database=NoDatabase(),
        operators=OnePassword(),
        throttle=count or Count(),
        settings=settings,
        clock=StoppedClock(),
        audit=NoAudit(),
    )


def person(**since: float) -> SignedIn:
    return SignedIn("op_1", "a@example.test", Role.OPERATOR, "csrf", NOW - timedelta(**since), False, "digest")


@pytest.mark.parametrize(
    "base_url",
    [
        "http://localhost:6535",
        "http://127.0.0.1:6535",
        "https://localhost",
        "https://127.0.0.1",
        "http://app.example.com",
    ],
)
def test_on_loopback_and_plain_http_a_session_alone_never_decides(base_url):
    assert proofs(base_url).needs_password(person(seconds=0))


def test_on_https_a_sign_in_of_ten_minutes_is_proof_and_an_older_one_is_not():
    here = proofs("https://app.example.com")

    assert not here.needs_password(person(minutes=10))
    assert here.needs_password(person(minutes=10, seconds=1))
    assert here.needs_password(person(minutes=-1))  # the clock went back
    assert here.check(person(minutes=1), None).kind is ProofKind.FRESH_SIGN_IN


def test_the_password_is_checked_for_each_decision_and_each_try_counts():
    count = Count()
    here = proofs("http://localhost:6535", count)
    proof = here.check(person(seconds=1), "right")
    with pytest.raises(ProofFailed):
        here.check(person(seconds=1), "wrong")
    for nothing in (None, ""):
        with pytest.raises(ProofFailed):
            here.check(person(seconds=1), nothing)

    assert (proof.operator_id, proof.kind) == ("op_1", ProofKind.PASSWORD)
    assert (count.begun, count.forgiven) == (2, 1)


def test_another_persons_session_proves_nothing_with_this_persons_password():
    with pytest.raises(ProofFailed):
        proofs("http://localhost:6535").check(replace(person(seconds=1), operator_id="op_2"), "right")


def test_what_a_session_shows_of_itself_holds_no_secret():
    assert repr(person(seconds=1)) == "SignedIn(op_1)"
