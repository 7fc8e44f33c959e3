"""The authorization server's parts without a server: rows put in by hand, straight calls, a clock that one moves."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Table, insert, select, text, update

import app
from auth.models import auth_code, client, client_event, grant, operator, token
from core.clock import MICROSECOND, to_us
from core.db import db
from core.ids import digest_of
from core.settings import Argon2, Settings
from policy.models import audit
from tests.auth.served import MovableClock
from tests.support.oauth import challenge_of

BASE_URL = "http://localhost:6535"
RESOURCE = f"{BASE_URL}/mcp"
REDIRECT_URI = "http://127.0.0.1:4711/callback"
ALICE_ID, BOB_ID, APP, OTHER = "op_alice", "op_bob", "cl_app", "cl_other"
GRANT = "gr_" + "a" * 32
READ, REFUND, STOCK = "mcp:flows:read", "orders:refund", "stock:adjust"
CODE, ACCESS_TOKEN, REFRESH_TOKEN = "cs_ac_" + "c" * 43, "cs_at_" + "a" * 43, "cs_rt_" + "r" * 43
VERIFIER = "v" * 43
KEY = "k" * 40


class Office:
    """Alice, the program that she has connected, another program, and nothing else."""

    def __init__(self, folder: Path, *, keys: tuple[str, ...] = (KEY,), clock: MovableClock | None = None) -> None:
        self.clock = clock or MovableClock()
        url = f"sqlite:///{folder / 'office.db'}"
        settings = Settings(
            base_url=BASE_URL,
            port=6535,
            production=False,
            instance=folder,
            database_url=url,
            secret_keys=keys,
            argon2=Argon2(1, 8, 1),
        )
        self.parts = app.build(settings, clock=self.clock)
        db.metadata.create_all(self.parts.database.writing)

    def open(self) -> None:
        """Put in who is there."""
        self.add_operator(ALICE_ID)
        for client_id in (APP, OTHER):
            self.add_client(client_id)
        self.add_grant()

    def close(self) -> None:
        """Let go of the database."""
        for engine in (self.parts.database.writing, self.parts.database.reading):
            engine.dispose()

    @property
    def now(self) -> int:
        """The moment as tables keep it."""
        return to_us(self.clock.now())

    def after(self, **span: float) -> int:
        """Give a later moment as tables keep it, without moving to it."""
        return self.now + timedelta(**span) // MICROSECOND

    # --- rows in --------------------------------------------------------------------------------------------------

    def add_operator(self, operator_id: str, **columns: Any) -> None:
        row = {"id": operator_id, "email": f"{operator_id}@example.test", "role": "operator", "password_hash": "!"}
        self._insert(operator, row | {"must_change": False, "created_at": self.now} | columns)

    def add_client(self, client_id: str, **columns: Any) -> None:
        row = {"id": client_id, "kind": "registered", "name": f"The {client_id}", "auth_method": "none"}
        row |= {"redirect_uris": f'["{REDIRECT_URI}"]', "created_at": self.now}
        row |= {"registration": '{"grant_types": ["authorization_code", "refresh_token"]}', "device": False}
        self._insert(client, row | columns)

    def add_grant(self, grant_id: str = GRANT, **columns: Any) -> None:
        row = {"id": grant_id, "operator_id": ALICE_ID, "client_id": APP, "scopes": f"{READ} {REFUND}"}
        row |= {"resource": RESOURCE, "version": 1, "created_at": self.now, "redirect_host": "127.0.0.1:4711"}
        self._insert(grant, row | columns)

    def add_code(self, code: str = CODE, **columns: Any) -> None:
        row = {"digest": digest_of(code), "grant_id": GRANT, "client_id": APP, "redirect_uri": REDIRECT_URI}
        row |= {"code_challenge": challenge_of(VERIFIER), "created_at": self.now}
        self._insert(auth_code, row | {"expires_at": self.after(seconds=120)} | columns)

    def add_token(self, raw: str, **columns: Any) -> None:
        kind, span = ("access", {"hours": 1}) if raw.startswith("cs_at_") else ("refresh", {"days": 30})
        row = {"digest": digest_of(raw), "kind": kind, "grant_id": GRANT, "generation": 1, "issued_at": self.now}
        self._insert(token, row | {"expires_at": self.after(**span)} | columns)

    def change(self, table: Table, **values: Any) -> None:
        """Change every row of a table."""
        with self.parts.database.write() as connection:
            connection.execute(update(table).values(**values))

    def _insert(self, table: Table, row: Mapping[str, Any]) -> None:
        with self.parts.database.write() as connection:
            connection.execute(insert(table), row)

    # --- rows out -------------------------------------------------------------------------------------------------

    def rows(self, table: Table) -> list[Mapping[str, Any]]:
        """Give every row in the order in which it came; ids of one moment have none."""
        with self.parts.database.read() as connection:
            return [dict(row) for row in connection.execute(select(table).order_by(text("rowid"))).mappings()]

    def token_row(self, raw: str) -> Mapping[str, Any]:
        """Give the stored form of a token; there is exactly one."""
        [found] = [row for row in self.rows(token) if row["digest"] == digest_of(raw)]
        return found

    def grant_row(self, grant_id: str = GRANT) -> Mapping[str, Any]:
        [found] = [row for row in self.rows(grant) if row["id"] == grant_id]
        return found

    def events(self) -> list[tuple[str, ...]]:
        """Give what the client log says, without ids and times."""
        names = ("client_id", "step", "sentence", "code", "operator_id", "grant_id")
        return [tuple(row[name] for name in names) for row in self.rows(client_event)]

    def audit(self) -> list[tuple[str, ...]]:
        """Give what the audit says, without ids and times."""
        names = ("event", "code", "operator_id", "client_id", "grant_id", "detail")
        return [tuple(row[name] for name in names) for row in self.rows(audit)]

    # --- the token endpoint ---------------------------------------------------------------------------------------

    def ask(self, address: str = "192.0.2.1", **fields: str | None) -> tuple[int, dict[str, Any]]:
        """Send these fields to the token endpoint; None leaves one out."""
        form = {name: value for name, value in ({"client_id": APP} | fields).items() if value is not None}
        given = {"method": "POST", "data": form, "environ_base": {"REMOTE_ADDR": address}}
        with self.parts.flask.test_request_context("/oauth/token", **given):
            answer = self.parts.server.token_answer()
        return answer.status_code, dict(answer.json)

    def redeem(self, code: str = CODE, **fields: str | None) -> tuple[int, dict[str, Any]]:
        wanted = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI}
        return self.ask(**wanted | {"code_verifier": VERIFIER} | fields)

    def refresh(self, refresh_token: str = REFRESH_TOKEN, **fields: str | None) -> tuple[int, dict[str, Any]]:
        return self.ask(**{"grant_type": "refresh_token", "refresh_token": refresh_token} | fields)
