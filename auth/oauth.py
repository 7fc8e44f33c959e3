"""The OAuth endpoints and documents: a route asks, hands on, answers."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE
from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import OperationalError

from auth.authorize import Asked, SendBack, SignInFirst, read_authorization, refusal
from auth.client_auth import claimed_client_id
from auth.clients import Clients
from auth.consent import ConsentRequest, Consents, RequestOver
from auth.document_clients import document_host, is_document_id
from auth.events import ClientEvents, Step
from auth.metadata import RESOURCE_DOCUMENT, SERVER_DOCUMENT, resource_metadata, server_metadata
from auth.models import ADDED
from auth.proofs import Proofs
from auth.redirects import CUSTOM, shown_host
from auth.registration import InvalidClientMetadata, parse_registration
from auth.server import Server
from auth.sessions import Sessions, SignedIn, return_path, see_other
from auth.ticked import NothingTicked
from core.clock import to_us
from core.db import is_busy
from core.errors import AppError, CsrfFailed, NotFound, NotSignedIn, ProofFailed, TooMany
from core.http import json_answer, json_error, preflight, with_cors
from core.settings import Settings, is_loopback
from policy.scopes import Scopes

WAITING = ("authorization_pending", "slow_down")  # a device asks again and again, and nothing is wrong (RFC 8628 3.5)
SHORT_CACHE = "public, max-age=300"
Answer = Callable[[], ResponseReturnValue]


def add_machine_endpoints(
    bp: Blueprint, *, server: Server, clients: Clients, scopes: Scopes, events: ClientEvents
) -> None:
    """Serve what programs ask, and the aliases that clients of 2025-03-26 look for (design D14)."""

    def register() -> Response:
        if not request.mimetype == "application/json" and not request.mimetype.endswith("+json"):
            raise InvalidClientMetadata("Send the registration as application/json.")
        made = clients.register(parse_registration(request.get_data(), scopes), request.remote_addr)
        body = {"client_id": made.client.id, "client_id_issued_at": to_us(made.client.created_at) // 1_000_000}
        if made.secret is not None:
            body |= {"client_secret": made.secret, "client_secret_expires_at": 0}
        return with_cors(json_answer({**body, **made.metadata}, status=201))

    token = _noted(events, _token_step, server.token_answer)
    endpoints: tuple[tuple[str, Answer], ...] = (
        ("/oauth/token", token),
        ("/token", token),
        ("/oauth/register", register),
        ("/register", register),
        ("/oauth/revoke", _noted(events, lambda: Step.REVOKE, server.revocation_answer)),
        ("/oauth/device", _noted(events, lambda: Step.DEVICE, server.device_answer)),
        ("/oauth/introspect", _noted(events, lambda: Step.INTROSPECT, server.introspection_answer)),
    )
    for path, answer in endpoints:
        _add_machine(bp, path, _patient(answer), "POST")


def add_documents(bp: Blueprint, *, settings: Settings, scopes: Scopes) -> None:
    """Serve the two metadata documents at every place where a client looks (cases C01, C05).

    Under a path, the root places would speak of another resource than ours, so they exist at the root only.
    """

    def resource() -> Response:
        return _document(resource_metadata(settings, scopes))

    def issuer() -> Response:
        return _document(server_metadata(settings, scopes))

    places = {f"{RESOURCE_DOCUMENT}{settings.prefix}/mcp": resource, f"/mcp{RESOURCE_DOCUMENT}": resource}
    places[f"{SERVER_DOCUMENT}{settings.prefix}"] = issuer
    if not settings.prefix:
        places[RESOURCE_DOCUMENT] = resource
    for path, answer in places.items():
        _add_machine(bp, path, answer, "GET")


@dataclass(frozen=True, slots=True)
class ConsentPages:
    """Shows what a client asks for and takes the person's answer."""

    server: Server
    consents: Consents
    sessions: Sessions
    proofs: Proofs
    events: ClientEvents

    def show(self) -> ResponseReturnValue:
        """Answer GET: every fault first, then sign-in, then the page; looking grants nothing that wasn't before."""
        signed_in = self.sessions.current()
        ready = None if signed_in is None or signed_in.must_change else signed_in.operator_id
        try:
            asked = read_authorization(self.server, request.args, ready)
        except SendBack as error:
            self._note_failure(error.code, error.sentence, ready)
            return to_client(error.location)
        except SignInFirst:
            return self._sign_in(signed_in)
        except AppError as error:
            self._note_failure(error.code, error.public, ready)
            raise
        if signed_in is None or signed_in.must_change:
            return self._silent(asked, "login_required") if asked.silent else self._sign_in(signed_in)
        return self._remembered(asked, signed_in) or self._asked(asked, signed_in)

    def _asked(self, asked: Asked, signed_in: SignedIn) -> ResponseReturnValue:
        if asked.silent:
            return self._silent(asked, "consent_required")
        opened = self.consents.open(signed_in, asked)
        return self._page(opened, signed_in, self.consents.ticked_at_first(signed_in, opened))

    def _remembered(self, asked: Asked, signed_in: SignedIn) -> ResponseReturnValue | None:
        """Answer with a code when the person agreed to all this before and has just signed in; None to ask."""
        if self.proofs.needs_password(signed_in) or not _is_opened():
            return None
        scopes = self.consents.remembered(signed_in, asked)
        if scopes is None:
            return None
        proof = self.proofs.check(signed_in, None)
        try:
            return to_client(self.consents.allow(self.consents.open(signed_in, asked), signed_in, scopes, proof))
        except NotSignedIn:  # cut off meanwhile
            return self._silent(asked, "login_required") if asked.silent else self._sign_in(None)

    def _note_failure(self, code: str, sentence: str, operator_id: str | None) -> None:
        client_id = request.args.get("client_id", "")
        # A document that can't be read is no client yet; nobody but a person with an account can name one here.
        named = operator_id is not None and is_document_id(client_id)
        self.events.note_failure(client_id, Step.AUTHORIZE, code, sentence, is_known=named, operator_id=operator_id)

    def answer(self) -> ResponseReturnValue:
        """Answer POST: the form says only which request and which rights; all else is what was stored."""
        asked = self.consents.find(request.form.get("request", ""))
        if asked is None:
            raise NotFound("This request is not known here. Start again from the program that wants to connect.")
        signed_in = self.sessions.current()
        if signed_in is None or signed_in.must_change:
            return see_other(self.sessions.login_url(asked.restart_path))
        if signed_in.operator_id != asked.operator_id:
            return self._again(asked, signed_in, "This page was opened for another account.", 403)
        try:
            self.sessions.check_csrf(signed_in)
        except CsrfFailed as error:
            return self._again(asked, signed_in, error.public, error.status)
        if request.form.get("answer") != "allow":  # anything else is a no
            return to_client(self.consents.deny(asked, signed_in))
        return self._allow(asked, signed_in)

    def _allow(self, asked: ConsentRequest, signed_in: SignedIn) -> ResponseReturnValue:
        ticked = request.form.getlist("scope")
        try:
            proof = self.proofs.check(signed_in, request.form.get("password"))
            return to_client(self.consents.allow(asked, signed_in, ticked, proof))
        except NotSignedIn:
            return see_other(self.sessions.login_url(asked.restart_path))
        except RequestOver as error:
            return self._again(asked, signed_in, error.public, error.status)
        except (ProofFailed, NothingTicked, TooMany) as error:
            page = self._page(asked, signed_in, frozenset(ticked), problem=error, status=error.status)
            if isinstance(error, TooMany):
                page.headers["Retry-After"] = str(error.retry_after)
            return page

    def _sign_in(self, signed_in: SignedIn | None) -> Response:
        url = self.sessions.login_url if signed_in is None else self.sessions.password_url
        return see_other(url(return_path()))

    def _silent(self, asked: Asked, error: str) -> Response:
        description = "The person has to see the page."
        return to_client(refusal(self.server, asked.redirect_uri, error, description, asked.state))

    def _page(
        self,
        asked: ConsentRequest,
        signed_in: SignedIn,
        ticked: frozenset[str],
        *,
        problem: ProofFailed | NothingTicked | TooMany | None = None,
        status: int = 200,
    ) -> Response:
        client = self.server.clients.find(asked.client_id)
        html = render_template(
            "auth/consent.html",
            signed_in=signed_in,
            asked=asked,
            client_name="This program" if client is None else client.name,
            is_vouched=client is not None and client.kind == ADDED,
            document_host=document_host(asked.client_id),
            host=shown_host(asked.redirect_uri),
            is_loopback=is_loopback(urlsplit(asked.redirect_uri).hostname or ""),
            is_app=asked.redirect_uri in CUSTOM,
            groups=self.consents.groups(signed_in),
            ticked=ticked,
            needs_password=self.proofs.needs_password(signed_in),
            problem=None if problem is None else problem.public,
            problem_at="scopes" if isinstance(problem, NothingTicked) else "password",
        )
        return Response(html, status=status, mimetype="text/html")

    def _again(self, asked: ConsentRequest, signed_in: SignedIn, sentence: str, status: int) -> Response:
        html = render_template("auth/again.html", signed_in=signed_in, sentence=sentence, restart=asked.restart_path)
        return Response(html, status=status, mimetype="text/html")


def add_consent(bp: Blueprint, pages: ConsentPages) -> None:
    """Serve the authorization endpoint and its 2025-03-26 alias; no CORS here, since people answer it."""
    for path in ("/oauth/authorize", "/authorize"):
        bp.add_url_rule(path, f"show {path}", pages.show, methods=["GET"])
        bp.add_url_rule(path, f"answer {path}", pages.answer, methods=["POST"])


def _is_opened() -> bool:
    """Tell whether the person opened this address: not a look at it, nor what a browser loads ahead or in a page."""
    ahead = request.headers.get("Sec-Purpose", "") or request.headers.get("Purpose", "")
    place = (request.headers.get("Sec-Fetch-Mode", "navigate"), request.headers.get("Sec-Fetch-Dest", "document"))
    return request.method == "GET" and not ahead and place == ("navigate", "document")


def to_client(location: str) -> Response:
    """Send the browser to the client by GET: never 307, which would hand the form on (RFC 9700 4.12)."""
    answer = Response(status=303)
    answer.headers["Location"] = location
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _document(body: dict[str, object]) -> Response:
    answer = with_cors(json_answer(body))
    answer.headers["Cache-Control"] = SHORT_CACHE
    return answer


def _patient(answer: Answer) -> Answer:
    """Give `answer`, saying 503 when the database stays busy: a client comes back after that, but not after 500."""

    def answered() -> ResponseReturnValue:
        try:
            return answer()
        except OperationalError as error:
            if not is_busy(error):
                raise
            busy = with_cors(json_error(503, "temporarily_unavailable", "The server is busy. Try again in a moment."))
            busy.headers["Retry-After"] = "1"
            return busy

    return answered


def _noted(events: ClientEvents, step: Callable[[], Step], answer: Answer) -> Answer:
    """Give `answer`, writing down why a known client failed."""

    def answered() -> ResponseReturnValue:
        try:
            response = answer()
        except AppError as error:
            events.note_failure(_claimed(), step(), error.code, error.public)
            raise
        if isinstance(response, Response) and response.status_code >= 400:
            said = response.get_json()
            if said["error"] in WAITING:
                return response
            events.note_failure(_claimed(), step(), said["error"], said["error_description"])
        return response

    return answered


def _claimed() -> str:
    return claimed_client_id(request.form, request.headers.get("Authorization"))


def _token_step() -> Step:
    steps = {"refresh_token": Step.REFRESH, DEVICE_CODE_GRANT_TYPE: Step.DEVICE}
    return steps.get(request.form.get("grant_type", ""), Step.TOKEN)


def _add_machine(bp: Blueprint, path: str, answer: Answer, method: str) -> None:
    bp.add_url_rule(
        path, f"{method} {path}".replace(".", "_"), answer, methods=[method], provide_automatic_options=False
    )
    bp.add_url_rule(
        path,
        f"OPTIONS {path}".replace(".", "_"),
        lambda: preflight(f"{method}, OPTIONS"),
        methods=["OPTIONS"],
        provide_automatic_options=False,
    )
