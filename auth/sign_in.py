"""The pages of signing in and out, and of the new password."""

import hmac
import re
from dataclasses import dataclass
from datetime import timedelta

from flask import Blueprint, Response, render_template, request

from auth.operators import Operator, Operators, normal_email
from auth.passwords import SHORTEST, Busy, WeakPassword, require_strong
from auth.proofs import Proofs
from auth.sessions import Sessions, SignedIn, see_other
from auth.throttle import Key, Throttle, address_key, email_key, is_one_subscriber
from core.db import Database
from core.errors import AppError, CsrfFailed, NotSignedIn, ProofFailed, TooMany
from core.http import from_own_page
from core.ids import Ids, digest_of
from core.seal import BadSeal, Sealer
from core.settings import Settings
from policy.audit import Audit

FORM_LIFE = timedelta(hours=2)
NONCE = re.compile(r"form_[\w-]{43}", re.ASCII)
WRONG = "The e-mail address or the password is not right."


@dataclass(frozen=True, slots=True)
class SignInForms:
    """Binds a sign-in form to the browser that it was shown to, before there is a session (login CSRF)."""

    sessions: Sessions
    sealer: Sealer
    ids: Ids
    settings: Settings

    @property
    def cookie(self) -> str:
        """The name of the cookie that the form is bound to."""
        return f"{self.sessions.cookie}-form"

    def page(self, *, email: str = "", problem: str | None = None, status: int = 200) -> Response:
        """Give the sign-in page with a form of this browser; it keeps where to go back to."""
        nonce = request.cookies.get(self.cookie, "")
        if not NONCE.fullmatch(nonce):
            nonce = self.ids.token("form")
        html = render_template(
            "auth/login.html",
            form=self.sealer.seal("sign-in-form", digest_of(nonce)),
            return_to=request.values.get("return", ""),
            email=email,
            problem=problem,
        )
        answer = Response(html, status=status, mimetype="text/html")
        self.sessions.set_cookie(answer, self.cookie, nonce, None)
        return answer

    def is_own(self) -> bool:
        """Tell whether the form that was sent is one that this browser was shown."""
        nonce = request.cookies.get(self.cookie, "")
        if not NONCE.fullmatch(nonce) or not from_own_page(self.settings):
            return False
        try:
            bound_to = self.sealer.open("sign-in-form", request.form.get("form", ""), within=FORM_LIFE)
        except BadSeal:
            return False
        return isinstance(bound_to, str) and hmac.compare_digest(bound_to.encode(), digest_of(nonce).encode())


@dataclass(frozen=True, slots=True)
class SignIn:
    """Judges a sign-in: counted before it is judged, one answer for every failure."""

    database: Database
    operators: Operators
    throttle: Throttle
    audit: Audit
    settings: Settings

    def find(self, email: str, password: str) -> Operator | None:
        """Give the person of this pair; raise TooMany after too many failures of the address or the account."""
        attempt = self.throttle.begin(*self._keys(email))
        try:
            person = self.operators.find_by_password(email, password)
        except Busy:
            self.throttle.forget(attempt)
            raise
        if person is None:
            tried = self.operators.find_by_email(email)
            self.note("sign_in.failed", None if tried is None else tried.id)
            return None
        self.throttle.succeeded(attempt)
        self.note("sign_in.ok", person.id)
        return person

    def _keys(self, email: str) -> list[Key]:
        keys = [email_key(normal_email(email))]
        # Behind a proxy that nobody told us of, everybody has its address, and one stranger would lock all out.
        behind_proxy = self.settings.production and not self.settings.trusted_proxies
        if is_one_subscriber(request.remote_addr) or not behind_proxy:
            keys.append(address_key(request.remote_addr))
        return keys

    def note(self, event: str, operator_id: str | None) -> None:
        """Write what happened into the audit."""
        with self.database.write() as connection:
            self.audit.write(connection, self.audit.row(event, operator_id=operator_id))


@dataclass(frozen=True, slots=True)
class SignInPages:
    """The pages themselves."""

    sessions: Sessions
    forms: SignInForms
    sign_in: SignIn
    operators: Operators
    proofs: Proofs

    def login(self) -> Response:
        """Show the sign-in form; whoever is signed in goes on."""
        if self.sessions.current() is not None:
            return see_other(self.sessions.opened_return(request.args.get("return", "")))
        return self.forms.page()

    def sign_in_now(self) -> Response:
        """Judge the form; a session with a new id begins, whatever cookie came (fixation)."""
        email = request.form.get("email", "")
        if not self.forms.is_own():
            return self.forms.page(email=email, problem="This page was open for too long. Sign in again.", status=400)
        try:
            person = self.sign_in.find(email, request.form.get("password", ""))
        except TooMany as error:
            return _later(self.forms.page(email=email, problem=error.public, status=error.status), error)
        if person is None:
            return self.forms.page(email=email, problem=WRONG, status=401)
        path = self.sessions.opened_return(request.form.get("return", ""))
        answer = see_other(self.sessions.password_url(path) if person.must_change else path)
        try:
            self.sessions.start(answer, person, remember=request.form.get("remember") == "yes")
        except NotSignedIn:
            return self.forms.page(email=email, problem=WRONG, status=401)
        return answer

    def logout(self) -> Response:
        """End the session; a form of another site can't."""
        answer = see_other("/login")
        signed_in = self.sessions.current()
        if signed_in is not None:
            self.sessions.check_csrf(signed_in)
            self.sign_in.note("sign_out", signed_in.operator_id)
        self.sessions.end(answer)
        return answer

    def password(self) -> Response:
        """Show the form for a new password."""
        signed_in = self.sessions.current()
        if signed_in is None:
            return see_other(self.sessions.login_url("/password"))
        return self._password_page(signed_in)

    def change_password(self) -> Response:
        """Replace the password; every session and connection ends, and this browser gets a new session."""
        signed_in = self.sessions.get()
        old, new = request.form.get("password", ""), request.form.get("new_password", "")
        try:
            self.sessions.check_csrf(signed_in)
            self.proofs.check_password(signed_in, old)
            require_strong(new)
            if new == old:
                raise WeakPassword("The new password is the current one.")
        except TooMany as error:
            return _later(self._password_page(signed_in, error), error)
        except (WeakPassword, ProofFailed, CsrfFailed) as error:
            return self._password_page(signed_in, error)
        person = self.operators.set_password(signed_in.operator_id, new)
        answer = see_other(self.sessions.opened_return(request.form.get("return", "")))
        self.sessions.start(answer, person, remember=False)
        return answer

    def _password_page(self, signed_in: SignedIn, problem: AppError | None = None) -> Response:
        html = render_template(
            "auth/password.html",
            signed_in=signed_in,
            shortest=SHORTEST,
            problem=None if problem is None else problem.public,
            return_to=request.values.get("return", ""),
        )
        return Response(html, status=200 if problem is None else problem.status, mimetype="text/html")


def add_sign_in(bp: Blueprint, pages: SignInPages) -> None:
    """Serve `/login`, `/logout` and `/password`."""
    bp.add_url_rule("/login", "login", pages.login, methods=["GET"])
    bp.add_url_rule("/login", "sign_in", pages.sign_in_now, methods=["POST"])
    bp.add_url_rule("/logout", "logout", pages.logout, methods=["POST"])
    bp.add_url_rule("/password", "password", pages.password, methods=["GET"])
    bp.add_url_rule("/password", "change_password", pages.change_password, methods=["POST"])


def _later(page: Response, error: TooMany) -> Response:
    page.headers["Retry-After"] = str(error.retry_after)
    return page
