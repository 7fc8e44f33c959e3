"""auth/throttle.py: which tries count together."""

import pytest

from auth.throttle import address_key, email_key, proof_key, session_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        (None, ""),
        ("", "unreadable"),
    ],
)
def test_one_subscriber_is_one_address(one, other):
    assert address_key(one) == address_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("192.0.2.1", "192.0.2.2"), ("::ffff:192.0.2.1", "::ffff:192.0.2.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1")],
)
def test_two_subscribers_are_two(one, other):
    assert address_key(one) != address_key(other)


def test_a_stranger_who_fails_to_sign_in_does_not_lock_the_decisions_of_the_person():
    assert email_key("op_1") != proof_key("op_1")
    assert "op_1" not in proof_key("op_1").digest


def test_a_thief_of_one_session_does_not_use_up_the_tries_of_another():
    assert len({session_key("a").digest, session_key("b").digest, proof_key("a").digest}) == 3
    assert session_key("a").factor < proof_key("a").factor
