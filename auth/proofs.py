"""Proofs: what shows that a decision is made by the signed-in person at this moment (design D4)."""

from auth.operators import Operators
from auth.sessions import SignedIn
from auth.throttle import Throttle, proof_key
from core.clock import Clock
from core.errors import ProofFailed
from core.settings import Settings
from policy.approval import Proof, ProofKind


class Proofs:
    """Makes proofs; the only place that does."""

    def __init__(self, operators: Operators, throttle: Throttle, settings: Settings, clock: Clock) -> None:
        self._operators = operators
        self._throttle = throttle
        self._settings = settings
        self._clock = clock

    def needs_password(self, signed_in: SignedIn) -> bool:
        """Tell whether the page must ask for the password.

        A browser sends its cookies to every port of a host, so on a loopback or plain-http console a session
        alone never decides; elsewhere a sign-in of the last 10 minutes does.
        """
        if not self._settings.cookie_alone_decides:
            return True
        age = self._clock.now() - signed_in.signed_in_at
        return not age <= self._settings.lifetimes.fresh_sign_in or age.total_seconds() < 0

    def check(self, signed_in: SignedIn, password: str | None) -> Proof:
        """Give the proof for one decision; raise ProofFailed, or TooMany after too many failures."""
        now = self._clock.now()
        if not self.needs_password(signed_in):
            return Proof(signed_in.operator_id, ProofKind.FRESH_SIGN_IN, now)
        if not password:
            raise ProofFailed("Your password is needed for this. Nothing was changed.")
        attempt = self._throttle.begin(proof_key(signed_in.operator_id))
        if not self._operators.has_password(signed_in.operator_id, password):
            raise ProofFailed
        self._throttle.succeeded(attempt)
        return Proof(signed_in.operator_id, ProofKind.PASSWORD, now)
