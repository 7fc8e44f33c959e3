"""Consent: a person sees one request of one client and answers it once; the answer makes a grant and its code."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import Connection, insert, select, update

from auth.authorize import Asked, answer_location
from auth.clients import Client, Clients
from auth.events import ClientEvents, Step
from auth.grants import covers, granted_before
from auth.models import ADDED, DOCUMENT, auth_code, authorization_request, grant
from auth.purge import authorization_requests, codes
from auth.redirects import leads_here, shown_host
from auth.sessions import SignedIn, require_living
from auth.ticked import NothingTicked
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import AppError, NotFound, ProofFailed
from core.ids import Ids, digest_of, urlsafe
from core.purge import take_some
from core.seal import Sealer
from core.settings import Settings
from policy.approval import Proof
from policy.audit import Audit
from policy.scopes import Kind, Scopes, ScopeWords

ID = re.compile(r"ar_[0-9a-f]{32}", re.ASCII)
# A second submit of the same page gets the same code, also when a quick client has redeemed it meanwhile (case C19 b).
SAME_CODE = timedelta(seconds=10)
GROUPS = ((Kind.READ, "Read", None), (Kind.ACT, "Act", "each single call still waits for your approval"))
ScopeGroup = tuple[str, str | None, list[ScopeWords]]


class RequestOver(AppError):
    """The request can't be answered any more; a new one with the same wishes can."""

    code = "request_expired"
    status = 410
    public = "This request was open for too long. Nothing was connected."
    remedy = "Start connecting again from the program."


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """One request as the person saw it; nothing of it comes back from the form."""

    id: str
    operator_id: str
    client_id: str
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str | None
    code_challenge: str
    resource: str
    expires_at: datetime

    @property
    def restart_path(self) -> str:
        """Give the path that asks the same again."""
        wishes = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.scopes),
            "code_challenge": self.code_challenge,
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.state is not None:
            wishes["state"] = self.state
        return f"/oauth/authorize?{urlencode(wishes, quote_via=quote, safe='')}"


class Consents:
    """Keeps the requests that people look at, and makes grants of their answers."""

    def __init__(
        self,
        *,
        database: Database,
        ids: Ids,
        clock: Clock,
        sealer: Sealer,
        clients: Clients,
        scopes: Scopes,
        settings: Settings,
        audit: Audit,
        events: ClientEvents,
    ) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._sealer = sealer
        self._clients = clients
        self._scopes = scopes
        self._settings = settings
        self._audit = audit
        self._events = events

    # --- asking ---------------------------------------------------------------------------------------------------

    def open(self, signed_in: SignedIn, asked: Asked) -> ConsentRequest:
        """Store what this person is shown; each page has a request of its own, so that a second look harms none."""
        now = self._clock.now()
        row = {
            "id": self._ids.new("ar"),
            "operator_id": signed_in.operator_id,
            "client_id": asked.client.id,
            "redirect_uri": asked.redirect_uri,
            "scope": " ".join(asked.scopes),
            "state": asked.state,
            "code_challenge": asked.code_challenge,
            "resource": asked.resource,
            "created_at": to_us(now),
            "expires_at": to_us(now + self._settings.lifetimes.authorization_request),
        }
        with self._database.write() as connection:
            take_some(connection, authorization_requests(now, self._settings.retention.requests))
            connection.execute(insert(authorization_request), row)
            said = {"operator_id": signed_in.operator_id}
            self._events.write(connection, asked.client.id, Step.AUTHORIZE, "The request was good.", **said)
        return _request(row)

    def find(self, request_id: str) -> ConsentRequest | None:
        """Give a stored request, whoever asks; the caller compares the person."""
        if not ID.fullmatch(request_id):
            return None
        with self._database.read() as connection:
            row = connection.execute(_by_id(request_id)).mappings().first()
        return None if row is None else _request(row)

    def groups(self, signed_in: SignedIn) -> list[ScopeGroup]:
        """Give the rights that this person may hand on, in words, grouped as the page shows them."""
        offered = [self._scopes.words(scope) for scope in self._offered(signed_in)]
        return [(legend, hint, [one for one in offered if one.kind is kind]) for kind, legend, hint in GROUPS]

    def ticked_at_first(self, signed_in: SignedIn, asked: ConsentRequest) -> frozenset[str]:
        """Give what is ticked before the person touches it: reading, what was asked for, what was granted before."""
        with self._database.read() as connection:
            before = granted_before(connection, signed_in.operator_id, asked.client_id, to_us(self._clock.now()))
        return frozenset((*self._scopes.read_scopes, *asked.scopes, *before))

    def remembered(self, signed_in: SignedIn, asked: Asked) -> tuple[str, ...] | None:
        """Give the rights of a request that this person has agreed to before, so that the page may be left out.

        Only while a connection stands that has all of them, for the same resource, made on the same redirect host and
        since the client last changed; never for a program on the person's machine, where any other could listen, nor
        for one that registered itself, whose name anybody can take (checklist C4, S18). None: the page is shown.
        """
        is_proven = asked.client.kind in (ADDED, DOCUMENT) and not leads_here(asked.redirect_uri)
        if asked.must_show or not is_proven:
            return None
        try:
            wanted = self._chosen(signed_in, asked.scopes or self._scopes.read_scopes)
        except NothingTicked:
            return None
        with self._database.read() as connection:
            found = covers(
                connection,
                wanted,
                operator_id=signed_in.operator_id,
                client_id=asked.client.id,
                redirect_host=shown_host(asked.redirect_uri),
                resource=asked.resource,
                since=asked.client.changed_at or asked.client.created_at,
                now=self._clock.now(),
            )
        return wanted if found else None

    # --- answering ------------------------------------------------------------------------------------------------

    def allow(self, asked: ConsentRequest, signed_in: SignedIn, ticked: Iterable[str], proof: Proof) -> str:
        """Grant the ticked rights; give the address with the code, the same for a repeated submit.

        Raise NothingTicked, RequestOver, ProofFailed, NotSignedIn when the session ended meanwhile, NotFound for
        another person's request or a client that is gone.
        """
        if asked.operator_id != signed_in.operator_id:
            raise NotFound
        if proof.operator_id != signed_in.operator_id:
            raise ProofFailed
        chosen = self._chosen(signed_in, ticked)
        self._require_client(asked)
        with self._database.write() as connection:
            require_living(connection, signed_in)
            row = connection.execute(_by_id(asked.id).with_for_update()).mappings().one()
            code = self._same_code(connection, row, chosen) or self._grant(connection, row, chosen)
        return answer_location(self._settings.issuer, asked.redirect_uri, asked.state, {"code": code})

    def deny(self, asked: ConsentRequest, signed_in: SignedIn) -> str:
        """Say no; give the address that tells the client. What was granted before stays (case C19 d)."""
        if asked.operator_id != signed_in.operator_id:
            raise NotFound
        self._require_client(asked)
        with self._database.write() as connection:
            first = connection.execute(
                update(authorization_request)
                .where(authorization_request.c.id == asked.id, authorization_request.c.decision.is_(None))
                .values(decision="deny")
            )
            if first.rowcount:
                fields: dict[str, Any] = {"operator_id": asked.operator_id, "client_id": asked.client_id}
                self._audit.write(connection, self._audit.row("grant.denied", **fields))
                said = {"code": "access_denied", "operator_id": asked.operator_id}
                self._events.write(connection, asked.client_id, Step.CONSENT, "The person did not agree.", **said)
        answer = {"error": "access_denied", "error_description": "The person did not agree."}
        return answer_location(self._settings.issuer, asked.redirect_uri, asked.state, answer)

    def _same_code(self, connection: Connection, row: Any, chosen: tuple[str, ...]) -> str | None:
        """Give the code that this page was answered with, when the same answer comes again while it is of use."""
        if row["decision"] != "allow":
            return None
        codes_of_it = {digest_of(code): code for code in self._codes(row["id"], row["grant_id"])}
        found = connection.execute(
            select(auth_code.c.digest, auth_code.c.used_at, auth_code.c.expires_at, grant.c.scopes)
            .join(grant, grant.c.id == auth_code.c.grant_id)
            .where(auth_code.c.digest.in_(codes_of_it), grant.c.revoked_at.is_(None))
        ).first()
        if found is None or tuple(found.scopes.split()) != chosen:
            return None
        now, code = self._clock.now(), codes_of_it[found.digest]
        if found.used_at is None:
            return code if from_us(found.expires_at) > now else None
        return code if now - from_us(found.used_at) <= SAME_CODE else None

    def _grant(self, connection: Connection, row: Any, chosen: tuple[str, ...]) -> str:
        now = self._clock.now()
        if from_us(row["expires_at"]) <= now:
            raise RequestOver
        grant_id = self._ids.new("gr")
        code = self._codes(row["id"], grant_id)[0]
        owner: dict[str, Any] = {"operator_id": row["operator_id"], "client_id": row["client_id"]}
        granted = {
            "id": grant_id,
            "scopes": " ".join(chosen),
            "resource": row["resource"],
            "version": 1,
            "created_at": to_us(now),
            "redirect_host": shown_host(row["redirect_uri"]),
        }
        connection.execute(insert(grant), granted | owner)
        one_code = {
            "digest": digest_of(code),
            "grant_id": grant_id,
            "client_id": row["client_id"],
            "redirect_uri": row["redirect_uri"],
            "code_challenge": row["code_challenge"],
            "created_at": to_us(now),
            "expires_at": to_us(now + self._settings.lifetimes.auth_code),
        }
        take_some(connection, codes(now, self._settings.retention.requests))
        connection.execute(insert(auth_code), one_code)
        answered = update(authorization_request).where(authorization_request.c.id == row["id"])
        connection.execute(answered.values(decision="allow", grant_id=grant_id))
        made = self._audit.row("grant.made", grant_id=grant_id, detail={"scopes": list(chosen)}, **owner)
        self._audit.write(connection, made)
        said = {"operator_id": row["operator_id"], "grant_id": grant_id}
        self._events.write(connection, row["client_id"], Step.CONSENT, "The person agreed; a code was given.", **said)
        return code

    def _codes(self, request_id: str, grant_id: str) -> list[str]:
        """Give the code of this answer, and what it was or will be by other keys."""
        # Derived, so that a repeated submit can be answered with it though only its digest is stored.
        derived = self._sealer.derive("code", f"{request_id}:{grant_id}")
        return [f"cs_ac_{urlsafe(one)}" for one in derived]

    def _offered(self, signed_in: SignedIn) -> tuple[str, ...]:
        held = self._scopes.of_role(signed_in.role)
        return tuple(scope for scope in self._scopes.consentable if scope in held)

    def _chosen(self, signed_in: SignedIn, ticked: Iterable[str]) -> tuple[str, ...]:
        chosen = set(self._scopes.with_implied(scope for scope in ticked if scope in self._offered(signed_in)))
        if not chosen:
            raise NothingTicked
        return tuple(scope for scope in self._offered(signed_in) if scope in chosen)

    def _require_client(self, asked: ConsentRequest) -> Client:
        # Removed or changed while the person read the page.
        client = self._clients.find(asked.client_id)
        if client is None or not client.check_redirect_uri(asked.redirect_uri):
            raise NotFound("The program that asked is not known here any more.")
        return client


def _by_id(request_id: str) -> Any:
    return select(authorization_request).where(authorization_request.c.id == request_id)


def _request(row: Any) -> ConsentRequest:
    return ConsentRequest(
        id=row["id"],
        operator_id=row["operator_id"],
        client_id=row["client_id"],
        redirect_uri=row["redirect_uri"],
        scopes=tuple(row["scope"].split()),
        state=row["state"],
        code_challenge=row["code_challenge"],
        resource=row["resource"],
        expires_at=from_us(row["expires_at"]),
    )
