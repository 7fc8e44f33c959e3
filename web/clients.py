"""Programs as people know them: a name that nobody has verified, and where its answers go."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from auth.clients import Clients
from auth.document_clients import document_host
from auth.grants import Connections
from auth.models import ADDED, LOCAL
from auth.redirects import shown_host
from auth.sessions import CONSOLE
from core.errors import NotFound
from core.settings import is_loopback


@dataclass(frozen=True, slots=True)
class ClientCard:
    """A program in words; `since` is when it was connected, None when it isn't any more."""

    name: str
    trust: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClientNames:
    """Looks programs up for pages; one that is gone keeps its id as its name."""

    clients: Clients
    connections: Connections

    def of_grant(self, operator_id: str, client_id: str, grant_id: str) -> ClientCard:
        """Give the program that asks through this grant of this person."""
        try:
            since = self.connections.get(operator_id, grant_id).created_at
        except NotFound:
            since = None
        return replace(self.card(client_id), since=since)

    def card(self, client_id: str) -> ClientCard:
        """Give the program of this id."""
        client = self.clients.find(client_id)
        if client is None:
            return ClientCard(client_id, "This program was removed")
        hosts = (shown_host(uri) for uri in client.redirect_uris)
        described_at = document_host(client.id)
        return ClientCard(client.name, trust_of(client.kind, hosts=hosts, described_at=described_at))

    def names(self, client_ids: Iterable[str]) -> dict[str, str]:
        """Give the name of each program."""
        found = {client_id: self.clients.find(client_id) for client_id in set(client_ids) - {CONSOLE}}
        return {CONSOLE: "Console"} | {client_id: client.name for client_id, client in found.items() if client}


def trust_of(kind: str, *, hosts: Iterable[str], described_at: str | None = None) -> str:
    """Say what is known of a program: often nothing but where its answers go (RFC 7591 5: it chose its name itself)."""
    if kind == LOCAL:
        return "Made on this server’s command line"
    places = dict.fromkeys(_place(host) for host in hosts)
    described = "" if described_at is None else f"described at {described_at} · "
    known = "Added by whoever runs this server" if kind == ADDED else "Name not verified"
    return f"{known} · {described}its answers go to {', '.join(places) or 'nowhere'}"


def _place(host: str) -> str:
    return f"your computer ({host})" if is_loopback(host.rpartition(":")[0] or host) else host
