"""What the commands are handed: the built application, as far as they use it."""

from typing import Protocol

from auth.clients import Clients
from auth.document_clients import DocumentClients
from auth.events import ClientEvents
from auth.local import LocalIdentities
from auth.machines import Machines
from auth.operators import Operators
from core.clock import Clock
from core.db import Database
from core.ids import Chance
from core.settings import Settings
from flows.outbox import Outbox
from flows.registry import Registry
from policy.audit import Audit
from policy.dispatch import Door


class Parts(Protocol):
    """The built parts; `app.Parts` has more of them."""

    @property
    def settings(self) -> Settings: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def chance(self) -> Chance: ...
    @property
    def database(self) -> Database: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def operators(self) -> Operators: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def door(self) -> Door: ...
    @property
    def clients(self) -> Clients: ...
    @property
    def events(self) -> ClientEvents: ...
    @property
    def machines(self) -> Machines: ...
    @property
    def document_clients(self) -> DocumentClients: ...
    @property
    def local(self) -> LocalIdentities: ...


class Build(Protocol):
    """Makes the parts, from the environment's settings where none are given."""

    def __call__(self, settings: Settings | None = None) -> Parts: ...
