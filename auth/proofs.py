"""Proofs: what shows that a decision is made by the signed-in person at this moment (design D4)."""

from sqlalchemy import delete

from auth.models import session
from auth.operators import Operators
from auth.passwords import Busy
from auth.sessions import SignedIn
from auth.throttle import Throttle, proof_key, session_key
from core.clock import Clock
from core.db import Database
from core.errors import ProofFailed, TooMany
from core.settings import Settings
from policy.approval import Proof, ProofKind
from policy.audit import Audit


class Proofs:
    """Makes proofs; the only place that does."""

    def __init__(
        self,
        *,
        database: Database,
        operators: Operators,
        throttle: Throttle,
        settings: Settings,
        clock: Clock,
        audit: Audit,
    ) -> None:
        self._database = database
        self._operators = operators
        self._throttle = throttle
        self._settings = settings
        self._clock = clock
        self._audit = audit

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
        if not self.needs_password(signed_in):
            return Proof(signed_in.operator_id, ProofKind.FRESH_SIGN_IN, self._clock.now())
        return self.check_password(signed_in, password)

    def check_password(self, signed_in: SignedIn, password: str | None) -> Proof:
        """Give the proof by the password alone; raise ProofFailed, or TooMany after too many failures.

        Every refusal is on record. The fifth wrong password of a session ends that session: whoever took its cookie
        uses up its tries, and the person signs in again and decides.
        """
        if not password:
            self._note(signed_in, "missing")
            raise ProofFailed("Your password is needed for this. Nothing was changed.")
        if self._is_own(signed_in, password):
            return Proof(signed_in.operator_id, ProofKind.PASSWORD, self._clock.now())
        if not self._throttle.is_paused(session_key(signed_in.digest)):
            self._note(signed_in, "wrong")
            raise ProofFailed
        self._note(signed_in, "session_ended", end_session=True)
        raise ProofFailed("The password was wrong too often. Nothing was changed; sign in again to go on.")

    def _is_own(self, signed_in: SignedIn, password: str) -> bool:
        try:
            attempt = self._throttle.begin(session_key(signed_in.digest), proof_key(signed_in.operator_id))
        except TooMany:
            self._note(signed_in, "throttled")
            raise
        try:
            is_own = self._operators.has_password(signed_in.operator_id, password)
        except Busy:
            self._throttle.forget(attempt)
            raise
        if is_own:
            self._throttle.succeeded(attempt)
        return is_own

    def _note(self, signed_in: SignedIn, code: str, *, end_session: bool = False) -> None:
        with self._database.write() as connection:
            if end_session:
                connection.execute(delete(session).where(session.c.digest == signed_in.digest))
            row = self._audit.row("proof.failed", operator_id=signed_in.operator_id, code=code)
            self._audit.write(connection, row)
