"""`/device`: a person types the code that a device shows, sees who asks for what, and answers once (RFC 8628 3.3)."""

from dataclasses import dataclass

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from auth.clients import Clients
from auth.devices import ALLOW, DENY, DeviceCodeOver, DeviceRequest, Devices
from auth.document_clients import document_host
from auth.models import ADDED
from auth.proofs import Proofs
from auth.sessions import Sessions, SignedIn, see_other
from auth.throttle import Key, Throttle
from auth.ticked import NothingTicked
from core.errors import AppError, NotSignedIn, ProofFailed, TooMany
from core.ids import digest_of
from core.seal import BadSeal, Sealer
from core.settings import Settings
from policy.scopes import ScopeWords

PERSON_FACTOR = 4  # wrong codes of a person, over all sessions: 20 in 15 minutes; of one session 5
PURPOSE = "device-request"
WRONG = "This code isn’t waiting here. Look at the device and type what it shows now."
TOO_OFTEN = "The code was wrong too often. This session has ended."
ALLOWED = "Allowed. Go back to the device: it goes on by itself, and stands under your connections from then on."
DENIED = "Denied. The device gets nothing."
STANDS = "You have allowed this device already. To take that back, end its connection."


@dataclass(frozen=True, slots=True)
class DevicePages:
    """Nothing but a code that was typed in this session leads on, and nothing of the request comes back from a form."""

    devices: Devices
    clients: Clients
    sessions: Sessions
    proofs: Proofs
    throttle: Throttle
    sealer: Sealer
    settings: Settings

    def ask(self) -> ResponseReturnValue:
        """Answer GET: the field for the code, always empty."""
        return self._page("auth/device.html")

    def answer(self) -> ResponseReturnValue:
        """Answer POST: a typed code, or the answer to what it asks for."""
        signed_in = self.sessions.get()
        if "request" not in request.form:
            return self._typed(signed_in)
        digest = self._opened(signed_in)
        allows = request.form.get("answer") == ALLOW  # anything else is a no
        try:
            asked = None if digest is None else self.devices.find_again(digest)
            if asked is None:
                raise DeviceCodeOver
            return self._allow(asked, signed_in) if allows else self._deny(asked, signed_in)
        except DeviceCodeOver as error:
            return self._answered(digest, signed_in, allows=allows) or self._refused(error)

    def _typed(self, signed_in: SignedIn) -> ResponseReturnValue:
        own = Key(digest_of(f"device-codes:{signed_in.digest}"))
        keys = (own, Key(digest_of(f"device-codes:{signed_in.operator_id}"), PERSON_FACTOR))
        try:
            one = self.throttle.begin(*keys)
        except TooMany as error:
            self.devices.note_guessing(signed_in, "throttled")
            return _later(self._refused(TooMany(_until(error), retry_after=error.retry_after)), error)
        asked = self.devices.find(request.form.get("code", ""))
        if asked is not None:
            self.throttle.forget(one)  # a success forgives no failure: a thief would alternate
            return self._question(asked, signed_in, frozenset(w.scope for w in self._offered(asked, signed_in)))
        if not self.throttle.is_paused(own):
            return self._page("auth/device.html", problem=WRONG, status=400)
        self.devices.note_guessing(signed_in, "session_ended")
        answer = self._page("auth/device.html", problem=TOO_OFTEN, status=403, signed_in=None)
        self.sessions.end(answer)  # RFC 8628 5.1: whoever tries codes out uses up this session
        return answer

    def _allow(self, asked: DeviceRequest, signed_in: SignedIn) -> ResponseReturnValue:
        ticked = request.form.getlist("scope")
        try:
            proof = self.proofs.check(signed_in, request.form.get("password"))
            self.devices.allow(asked, signed_in, ticked, proof)
        except NotSignedIn:
            return see_other(self.sessions.login_url("/device"))
        except (ProofFailed, NothingTicked, TooMany) as error:
            return _later(self._question(asked, signed_in, frozenset(ticked), problem=error), error)
        return self._done(ALLOWED)

    def _deny(self, asked: DeviceRequest, signed_in: SignedIn) -> ResponseReturnValue:
        self.devices.deny(asked, signed_in)
        return self._done(DENIED)

    def _answered(self, digest: str | None, signed_in: SignedIn, *, allows: bool) -> Response | None:
        """Say how it stands to the person who answered before: a second click is no error (case C19)."""
        stands = None if digest is None else self.devices.answered(digest, signed_in.operator_id)
        if stands == ALLOW:
            return self._done(ALLOWED if allows else STANDS)
        return self._done(DENIED) if stands == DENY else None

    def _opened(self, signed_in: SignedIn) -> str | None:
        """Give the digest of the code that was typed in this session."""
        try:
            sealed = self.sealer.open(PURPOSE, request.form["request"], within=self.settings.lifetimes.device_code)
        except BadSeal:
            return None
        if not isinstance(sealed, list) or sealed[0] != signed_in.digest:
            return None
        return str(sealed[1])

    def _offered(self, asked: DeviceRequest, signed_in: SignedIn) -> list[ScopeWords]:
        return self.devices.offered(asked, signed_in.role)

    def _question(
        self, asked: DeviceRequest, signed_in: SignedIn, ticked: frozenset[str], *, problem: AppError | None = None
    ) -> Response:
        client = self.clients.find(asked.client_id)
        return self._page(
            "auth/device_request.html",
            status=200 if problem is None else problem.status,
            asked=asked,
            sealed=self.sealer.seal(PURPOSE, [signed_in.digest, asked.digest]),
            client_name="This program" if client is None else client.name,
            is_vouched=client is not None and client.kind == ADDED,
            document_host=document_host(asked.client_id),
            groups=[("Read", None, self._offered(asked, signed_in))],
            ticked=ticked,
            needs_password=self.proofs.needs_password(signed_in),
            problem=None if problem is None else problem.public,
            problem_at="scopes" if isinstance(problem, NothingTicked) else "password",
        )

    def _done(self, sentence: str) -> Response:
        return self._page("auth/device_done.html", sentence=sentence)

    def _refused(self, error: AppError) -> Response:
        return self._page("auth/device.html", problem=error.public, status=error.status)

    def _page(self, template: str, *, status: int = 200, **context: object) -> Response:
        html = render_template(template, **{"signed_in": self.sessions.current()} | context)
        return Response(html, status=status, mimetype="text/html")


def _until(error: TooMany) -> str:
    minutes = -(-error.retry_after // 60)
    return f"The code was wrong too often. Try again in {minutes} minute{'' if minutes == 1 else 's'}."


def _later(page: Response, error: AppError) -> Response:
    if isinstance(error, TooMany):
        page.headers["Retry-After"] = str(error.retry_after)
    return page


def add_device(bp: Blueprint, pages: DevicePages) -> None:
    """Serve the page; without the setting there is none."""
    if not pages.settings.device_grant:
        return
    required, checked = pages.sessions.required, pages.sessions.csrf_checked
    bp.add_url_rule("/device", "ask device", required(pages.ask), methods=["GET"])
    bp.add_url_rule("/device", "answer device", required(checked(pages.answer)), methods=["POST"])
