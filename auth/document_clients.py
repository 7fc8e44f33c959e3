"""Clients whose id is the https address of their metadata document: fetched for a signed-in person, kept as clients."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
from sqlalchemy import and_, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from auth.clients import Client, client_of
from auth.documents import MOST_BYTES, Document, parse_document
from auth.events import ClientEvents, Step
from auth.fetched import Counted, Library
from auth.models import DOCUMENT, client, grant
from auth.throttle import Key
from core.clock import Clock, to_us
from core.db import Database
from core.ids import digest_of
from core.purge import Rows, take_some
from policy.audit import Audit

HOST_FACTOR = 40  # fetches from one host, for all people together: 200 in 15 minutes
PERSON_FACTOR = 4  # fetches for one person: 20 in 15 minutes, however many client ids
UNUSED_KEPT = timedelta(days=30)
SENTENCES = {"client.registered": "Its document was read.", "client.changed": "Its document said something else."}
SCHEME = "https://"  # no id that this server makes begins so (checklist G2)


class DocumentClients:
    """Gives the clients that documents describe, each as its document stands there now."""

    def __init__(
        self, *, database: Database, library: Library, clock: Clock, audit: Audit, events: ClientEvents
    ) -> None:
        self._database = database
        self._library = library
        self._clock = clock
        self._audit = audit
        self._events = events

    def is_allowed(self, client_id: str) -> bool:
        """Tell whether a document could stand at this id, on a host that the settings allow."""
        return self._library.is_allowed(client_id)

    def get(self, client_id: str, operator_id: str) -> Client:
        """Give the client whose document stands at `client_id`, for this signed-in person.

        Raise HostRefused, NotFetched, BadDocument, TooMany, or Unavailable.
        """
        of_person = Key(digest_of(f"documents:{operator_id}"), PERSON_FACTOR, is_forgiven=False)
        of_host = Key(digest_of(f"documents:{document_host(client_id)}"), HOST_FACTOR, is_forgiven=False)
        read = partial(parse_document, client_id)
        return self._keep(self._library.read(client_id, read, most=MOST_BYTES, counted=Counted((of_person, of_host))))

    def _keep(self, document: Document) -> Client:
        """Store what the document says now.

        Its connections stay, since the client is whatever stands at its id; what changed is in the audit. A client
        that was removed begins anew: the connections that it had have ended.
        """
        said = _said(document)
        with self._database.read() as connection:
            row = connection.execute(select(client).where(client.c.id == document.url)).mappings().first()
        is_new = row is None or row["removed_at"] is not None
        changed = [name for name, value in said.items() if row is None or row[name] != value]
        if row is not None and not changed and not is_new:
            return client_of(row)
        now = to_us(self._clock.now())
        begins = {"created_at": now, "removed_at": None, "changed_at": None, "device": False}
        said |= begins if is_new else {"changed_at": now}
        self._store(document.url, said, "client.registered" if is_new else "client.changed", changed)
        return client_of({"id": document.url, "kind": DOCUMENT, "secret_digest": None, **dict(row or {}), **said})

    def _store(self, client_id: str, said: dict[str, Any], event: str, changed: list[str]) -> None:
        now = self._clock.now()
        with self._database.write() as connection:
            take_some(connection, unused_documents(now))
            dialect = sqlite if self._database.is_sqlite else postgresql
            new = {"id": client_id, "kind": DOCUMENT, "created_at": to_us(now), **said}
            # Two people may open its consent page for the first time at once.
            stored = dialect.insert(client).values(new).on_conflict_do_update(index_elements=["id"], set_=said)
            connection.execute(stored)
            self._audit.write(connection, self._audit.row(event, client_id=client_id, detail={"changed": changed}))
            self._events.write(connection, client_id, Step.REGISTER, SENTENCES[event])


def unused_documents(now: datetime) -> Rows:
    """Give the clients with a document that people looked at and nobody connected."""
    unused = and_(client.c.kind == DOCUMENT, ~client.c.device, ~exists().where(grant.c.client_id == client.c.id))
    over = and_(unused, client.c.created_at < to_us(now - UNUSED_KEPT))
    return Rows(name="cs_client (documents)", key=client.c.id, kept=UNUSED_KEPT, among=unused, over=over)


def is_document_id(client_id: str) -> bool:
    """Tell whether a client id names a document rather than a client that registered here."""
    return client_id.startswith(SCHEME)


def document_host(client_id: str) -> str | None:
    """Give the host where a client's document stands; None for a client without one."""
    return urlsplit(client_id).netloc if is_document_id(client_id) else None


def _said(document: Document) -> dict[str, Any]:
    return {
        "name": document.name,
        "auth_method": document.methods[0],
        "redirect_uris": orjson.dumps(document.redirect_uris).decode(),
        "registration": orjson.dumps(document.registration()).decode(),
    }
