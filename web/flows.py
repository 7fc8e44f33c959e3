"""The page of flows: what exists, what it touches, who confirms it, and whether the reader may."""

from dataclasses import dataclass

from flask import Blueprint, Response

from auth.sessions import Sessions, SignedIn
from core.settings import Settings
from flows.operation import Flow, Rule, Source
from flows.registry import Registry
from policy.rules import confirmation_rule
from policy.scopes import Scopes
from web.rendering import Pages


@dataclass(frozen=True, slots=True)
class Listed:
    """One flow as the reader sees it."""

    flow: Flow
    may: bool
    needs: tuple[str, ...]
    confirmed: str


def flows_routes(
    *, pages: Pages, sessions: Sessions, registry: Registry, scopes: Scopes, settings: Settings
) -> Blueprint:
    """Serve `/flows`."""
    bp = Blueprint("flows", __name__)

    @bp.get("/flows")
    @sessions.required
    def index() -> Response:
        listed = [_listed(flow, sessions.get(), scopes, settings) for flow in registry]
        return pages.page(
            "console/flows.html",
            nav="flows",
            own=[one for one in listed if one.flow.source is not Source.BUILTIN],
            built_in=[one for one in listed if one.flow.source is Source.BUILTIN],
        )

    return bp


def _listed(flow: Flow, reader: SignedIn, scopes: Scopes, settings: Settings) -> Listed:
    may = not scopes.missing(flow, scopes.of_role(reader.role))
    return Listed(flow, may, scopes.missing(flow, frozenset()), _confirmed(flow, settings))


def _confirmed(flow: Flow, settings: Settings) -> str:
    if flow.only_reads:
        return "Not needed, it only reads."
    if any(confirmation_rule(flow, client_id, settings) is Rule.CLIENT for client_id in settings.unattended_clients):
        return "By a person for each call; programs listed as unattended ask by themselves, unconfirmed by a person."
    return "By the person whose agent asks, for each call."
