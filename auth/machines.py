"""Clients that act for nobody: each with one grant of a machine, made by whoever runs this server (RFC 6749 4.4)."""

from collections.abc import Iterable

from sqlalchemy import Connection, insert

from auth.clients import Clients, Registered
from auth.local import granted_by_hand
from auth.models import MACHINE, grant
from auth.operators import Operator, Operators
from auth.registration import Registration
from core.clock import Clock, to_us
from core.errors import NotFound
from core.ids import Ids
from core.settings import Settings
from flows.caller import Surface
from policy.audit import Audit
from policy.scopes import Scopes


class Machines:
    """Adds the clients of machines; their tokens come from `auth/machine_grant.py`."""

    def __init__(
        self,
        *,
        ids: Ids,
        clock: Clock,
        clients: Clients,
        operators: Operators,
        scopes: Scopes,
        settings: Settings,
        audit: Audit,
    ) -> None:
        self._ids = ids
        self._clock = clock
        self._clients = clients
        self._operators = operators
        self._scopes = scopes
        self._settings = settings
        self._audit = audit

    def add_client(self, wanted: Registration, name: str, scopes: Iterable[str]) -> tuple[Registered, tuple[str, ...]]:
        """Store a client that acts as the machine `name`; give it with the scopes that it holds.

        Raise NotFound, or UnknownScope for what the machine's role can't hold.
        """
        machine = self._operators.find_by_email(f"machine:{name}")
        if machine is None or machine.kind != MACHINE or machine.disabled_at is not None:
            raise NotFound("There is no active machine of this name.")
        granted = granted_by_hand(self._scopes, tuple(scopes), machine)

        def connect(connection: Connection, client_id: str) -> None:
            self._grant(connection, client_id, machine, granted)

        return self._clients.add(wanted, also=connect), granted

    def _grant(self, connection: Connection, client_id: str, machine: Operator, scopes: tuple[str, ...]) -> None:
        owner = {"operator_id": machine.id, "client_id": client_id}
        row = {"id": self._ids.new("gr"), "scopes": " ".join(scopes), "resource": self._settings.resource, "version": 1}
        connection.execute(insert(grant), row | owner | {"created_at": to_us(self._clock.now())})
        noted = self._audit.row(
            "grant.made",
            operator_id=machine.id,
            client_id=client_id,
            grant_id=row["id"],
            surface=Surface.CLI.value,
            detail={"scopes": list(scopes)},
        )
        self._audit.write(connection, noted)
