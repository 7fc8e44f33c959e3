"""The whole application in this process: people with browsers, their agents at the door, a clock that one moves."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import update

import app
from auth.models import client
from core.settings import Argon2, Settings
from flows.caller import Role, Surface
from flows.catalogue.seed import load_shop
from flows.envelope import Envelope
from flows.operation import Flow
from migrations.revisions import is_demo, upgrade
from policy.dispatch import Call
from policy.principal import Principal
from tests.support.html import Page, values_of

NOW = datetime(2026, 12, 1, 9, 41, tzinfo=UTC)
BASE_URL = "http://localhost:6535"
PASSWORD = "a long enough password"
REFUND = "orders:refund"
STOCK = "stock:adjust"


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)


class Reader:
    """A signed-in person with a browser that runs no script."""

    def __init__(self, browser: FlaskClient, email: str, base_url: str = BASE_URL) -> None:
        self.browser, self.email, self.base_url = browser, email, base_url

    def open(self, path: str) -> Page:
        """Open a page and follow where it leads."""
        return self._page(self.browser.get(path, base_url=self.base_url, follow_redirects=True))

    def press(self, page: Page, button: str, **fields: str | list[str]) -> Page:
        """Fill in fields by their names, press the button and follow where it leads."""
        return self._page(self.sent(page, button, **fields), follow=True)

    def sent(self, page: Page, button: str, **fields: str | list[str]) -> Any:
        """Fill in fields by their names, press the button and return the bare answer."""
        pressed = page.button(button)
        form = page.form_of(pressed)
        assert form is not None
        sent = [(name, value) for name, value in values_of(page, form, pressed) if name not in fields]
        for name, given in fields.items():
            sent += [(name, value) for value in (given if isinstance(given, list) else [given])]
        return self.post(form.attrs.get("action") or page.url, sent)

    def post(self, path: str, fields: list[tuple[str, str]]) -> Any:
        """Send a form that may be on no page."""
        gathered: dict[str, list[str]] = {}
        for name, value in fields:
            gathered.setdefault(name, []).append(value)
        return self.browser.post(path, base_url=self.base_url, data=gathered)

    def _page(self, answer: Any, *, follow: bool = False) -> Page:
        while follow and answer.status_code in (302, 303):
            answer = self.browser.get(answer.headers["Location"], base_url=self.base_url)
        return Page(answer.request.path, answer.status_code, dict(answer.headers), answer.text)


class House:
    """The parts of one process on an empty database with the demo shop."""

    def __init__(
        self, database_url: str, folder: Path, base_url: str = BASE_URL, catalogue: Iterable[Flow] | None = None
    ) -> None:
        self.clock = MovedClock()
        self.settings = Settings(
            base_url=base_url,
            port=6535,
            instance=folder,
            database_url=database_url,
            secret_keys=("k" * 40,),
            production=base_url != BASE_URL,
            argon2=Argon2(1, 8, 1),
        )
        self.parts = app.build(self.settings, catalogue=catalogue, clock=self.clock)
        upgrade(self.parts.database, demo=is_demo(self.settings.flows))
        with self.parts.database.write() as connection:
            load_shop(connection)
        self.app = app.serve(self.parts)

    def close(self) -> None:
        """Let go of the database and end the threads."""
        self.parts.outbox.close()
        for engine in (self.parts.database.writing, self.parts.database.reading):
            engine.dispose()

    def reader(self, email: str = "alice@example.test", role: Role = Role.OPERATOR) -> Reader:
        """Give a person with an account who has signed in."""
        self.parts.operators.add(email, role, PASSWORD)
        reader = Reader(self.app.test_client(), email, self.settings.base_url)
        reader.press(reader.open("/login"), "Sign in", email=email, password=PASSWORD)
        return reader

    def agent(self, reader: Reader, *scopes: str, name: str = "helper", registered: bool = False) -> Principal:
        """Connect an agent of this person with the read rights and `scopes`; local, or as if it had registered."""
        wanted = (*self.parts.scopes.read_scopes, *scopes)
        issued = self.parts.local.issue(name, reader.email, wanted, timedelta(days=1))
        if registered:
            addresses = '["https://agent.example/callback"]'
            with self.parts.database.write() as connection:
                change = update(client).where(client.c.id == issued.client_id)
                connection.execute(change.values(kind="registered", redirect_uris=addresses))
        principal = self.parts.bearer.principal(f"Bearer {issued.token}", Surface.MCP)
        assert isinstance(principal, Principal)
        return principal

    def call(self, agent: Principal, flow_id: str, *, says: str | None = None, **arguments: Any) -> Envelope:
        """Call a flow as the agent."""
        with self.app.test_request_context():
            return self.parts.door.dispatch(agent, Call(flow_id, arguments, reason=says))

    def spend(self, agent: Principal, waiting: Envelope, flow_id: str, **arguments: Any) -> Envelope:
        """Call a flow again with the token that the first call was given."""
        assert waiting.waiting is not None
        call = Call(flow_id, arguments, confirm_token=waiting.waiting.confirm_token, confirmation="CONFIRM")
        with self.app.test_request_context():
            return self.parts.door.dispatch(agent, call)


def path_of(waiting: Envelope) -> str:
    """Give the path of the page on which a person decides."""
    assert waiting.waiting is not None, waiting
    return f"/confirmations/{waiting.waiting.confirmation_id}"
