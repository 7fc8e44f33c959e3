"""The pages on which a person sees, changes and ends what their agents may do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from auth.consent import GROUPS, ScopeGroup
from auth.document_clients import document_host
from auth.grants import Connection, Connections, NoRights
from auth.proofs import Proofs
from auth.sessions import Sessions, see_other
from core.connecting import connect_lines
from core.errors import ProofFailed, TooMany
from core.settings import Settings
from flows.caller import Role
from flows.trace import Traces
from policy.scopes import INVOKE, Kind, Scopes, ScopeWords
from policy.words import joined, lowered
from web.clients import trust_of
from web.rendering import Pages


@dataclass(frozen=True, slots=True)
class Shown:
    """One connection in words."""

    id: str
    name: str
    trust: str
    labels: tuple[str, ...]
    acts: tuple[str, ...]
    since: datetime
    last_call: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Group:
    """One program with its connections, the newest first."""

    name: str
    trust: str
    grants: tuple[Shown, ...]

    @property
    def last_call(self) -> datetime | None:
        """When it called last through any of them."""
        return max((one.last_call for one in self.grants if one.last_call), default=None)

    @property
    def rights(self) -> str:
        """The rights of all of them in a few words: that it reads, and for what it may ask."""
        acts = dict.fromkeys(lowered(label) for one in self.grants for label in one.acts)
        return f"reads, may {joined(list(acts))}" if acts else "only reads"


@dataclass(frozen=True, slots=True)
class Form:
    """The tick boxes as they stand, and what is wrong with them."""

    ticked: frozenset[str]
    asked: tuple[str, ...] = ()
    password_fault: str | None = None
    fault: str | None = None

    @property
    def faults(self) -> list[tuple[str | None, str]]:
        """Every fault with the field that it is about."""
        found = [("password", self.password_fault), (None, self.fault)]
        return [(field, sentence) for field, sentence in found if sentence]


def connections_routes(
    *,
    pages: Pages,
    sessions: Sessions,
    proofs: Proofs,
    connections: Connections,
    traces: Traces,
    scopes: Scopes,
    settings: Settings,
) -> Blueprint:
    """Serve `/connections` and `/connections/<id>`: changing rights takes a proof, ending access doesn't."""
    bp = Blueprint("connections", __name__, url_prefix="/connections")

    @bp.get("")
    @sessions.required
    def index() -> Response:
        living = connections.list(sessions.get().operator_id)
        ended = request.args.get("ended")
        return pages.page(
            "console/connections.html",
            nav="connections",
            clients=by_client(living, traces.last_calls([one.grant_id for one in living]), scopes),
            ended=ended is not None and all(one.grant_id != ended for one in living),
            lines=connect_lines(settings.resource),
        )

    @bp.get("/<grant_id>")
    @sessions.required
    def show(grant_id: str) -> Response:
        one = connections.get(sessions.get().operator_id, grant_id)
        offered = _offered(scopes, sessions.get().role)
        wanted = dict.fromkeys(request.args.getlist("add"))
        asked = tuple(scope for scope in wanted if scope in offered and scope not in one.scopes)
        # Ticked, because it is what the reader came for; nothing is given before Save and its proof.
        form = Form(frozenset((*one.scopes, *asked)), asked)
        return _page(one, form, cannot=_cannot(wanted, offered, one))

    @bp.post("/<grant_id>")
    @sessions.required
    @sessions.csrf_checked
    def change(grant_id: str) -> ResponseReturnValue:
        reader = sessions.get()
        one = connections.get(reader.operator_id, grant_id)
        chosen = frozenset(request.form.getlist("scope"))
        form = Form(
            chosen, tuple(scope for scope in _offered(scopes, reader.role) if scope in chosen - set(one.scopes))
        )
        try:
            proof = proofs.check(reader, request.form.get("password"))
            changed = connections.change(reader.operator_id, grant_id, chosen, proof)
        except (ProofFailed, TooMany) as error:
            return pages.refused(error, _page(one, replace(form, password_fault=error.public), status=error.status))
        except NoRights as error:
            return _page(one, replace(form, fault=error.public), status=error.status)
        return see_other(f"/connections/{grant_id}?saved={changed.version}")

    @bp.post("/<grant_id>/end")
    @sessions.required
    @sessions.csrf_checked
    def end(grant_id: str) -> ResponseReturnValue:
        connections.revoke(sessions.get().operator_id, grant_id)
        return see_other(f"/connections?ended={grant_id}")

    def _page(one: Connection, form: Form, *, cannot: Sequence[str] = (), status: int = 200) -> Response:
        reader = sessions.get()
        offered = _offered(scopes, reader.role)
        return pages.page(
            "console/connection.html",
            nav="connections",
            status=status,
            one=_shown(one, traces.last_calls([one.grant_id]).get(one.grant_id), scopes),
            groups=_groups([scopes.words(scope) for scope in offered]),
            form=form,
            asked_words=[scopes.words(scope) for scope in form.asked],
            cannot=cannot,
            saved=request.args.get("saved") == str(one.version),
            needs_password=proofs.needs_password(reader),
        )

    return bp


def by_client(living: Iterable[Connection], last_calls: Mapping[str, datetime], scopes: Scopes) -> list[Group]:
    """Group connections by their program, in the order of the first of each."""
    grouped: dict[str, list[Shown]] = {}
    for one in living:
        grouped.setdefault(one.client_id, []).append(_shown(one, last_calls.get(one.grant_id), scopes))
    return [Group(grants[0].name, grants[0].trust, tuple(grants)) for grants in grouped.values()]


def _offered(scopes: Scopes, role: Role) -> tuple[str, ...]:
    held = scopes.of_role(role)
    return tuple(scope for scope in scopes.consentable if scope in held)


def _cannot(wanted: Iterable[str], offered: Sequence[str], one: Connection) -> list[str]:
    said = []
    for scope in wanted:
        if scope not in offered:
            said.append("A right was asked for that your role can’t give, or that doesn’t exist.")
        elif scope in one.scopes:
            said.append("It has a right that was asked for already. Let the agent try again.")
    return list(dict.fromkeys(said))


def _groups(offered: Sequence[ScopeWords]) -> list[ScopeGroup]:
    return [(legend, hint, [one for one in offered if one.kind is kind]) for kind, legend, hint in GROUPS]


def _shown(one: Connection, last_call: datetime | None, scopes: Scopes) -> Shown:
    held = [scopes.words(scope) for scope in scopes.consentable if scope in one.effective]
    # The general right to ask says nothing beside the flows' own ones.
    acts = [words.label for words in held if words.kind is Kind.ACT and words.scope != INVOKE]
    return Shown(
        id=one.grant_id,
        name=one.client_name,
        trust=trust_of(one.client_kind, hosts=one.hosts, described_at=document_host(one.client_id)),
        labels=tuple(words.label for words in held),
        acts=tuple(acts) or tuple(words.label for words in held if words.kind is Kind.ACT),
        since=one.created_at,
        last_call=last_call,
        until=one.expires_at,
    )
