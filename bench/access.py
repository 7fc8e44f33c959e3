"""The authorization server under load: tokens, registrations, and the check that every call passes."""

import hashlib
import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlencode

from sqlalchemy import Connection, create_engine, text

import app
from auth.bearer import Challenge
from bench.ours import Ours
from core.settings import load_settings
from flows.caller import Surface

CLIENTS = 8  # at once
REFRESHES, REGISTRATIONS = 60, 25  # of each of them
OTHER_TOKENS, CHECKS = 5_000, 3_000
FORM, JSON = {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "application/json"}
REGISTRATION = json.dumps({"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"})
Call = Callable[[http.client.HTTPConnection], None]


def measure_access(ours: Ours, port: int) -> dict[str, float]:
    """Give the latencies in milliseconds, by name."""
    found = {
        "token_p95_ms": _p95(_together([_refreshing(ours) for _ in range(CLIENTS)], REFRESHES, port)),
        "register_p95_ms": _p95(_together([_register] * CLIENTS, REGISTRATIONS, port)),
        "bearer_p50_ms": _bearer(ours),
    }
    for name, milliseconds in found.items():
        print(f"{name}: {milliseconds:.2f}", flush=True)
    return {name: round(milliseconds, 2) for name, milliseconds in found.items()}


def _together(calls: list[Call], times: int, port: int) -> list[float]:
    """Let every client call so often, all at once; give what each call took, in milliseconds."""
    took: list[float] = []

    def client(call: Call) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(times):
            began = time.perf_counter()
            call(connection)
            took.append((time.perf_counter() - began) * 1000)
        connection.close()

    threads = [threading.Thread(target=client, args=(call,)) for call in calls]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(took) == len(calls) * times
    return took


def _refreshing(ours: Ours) -> Call:
    """Give a client that replaces its own refresh token again and again, the steady work of a token endpoint."""
    client_id, held = f"bench-{secrets.token_hex(8)}", [f"cs_rt_{secrets.token_urlsafe(32)}"]
    with create_engine(ours.database_url).begin() as connection:
        grant_id = _connect(connection, ours, client_id)
        _store(connection, held[0], "refresh", grant_id)

    def refresh(connection: http.client.HTTPConnection) -> None:
        fields = {"grant_type": "refresh_token", "refresh_token": held[0], "client_id": client_id}
        held[0] = _post(connection, "/oauth/token", urlencode(fields), FORM, 200)["refresh_token"]

    return refresh


def _register(connection: http.client.HTTPConnection) -> None:
    _post(connection, "/oauth/register", REGISTRATION, JSON, 201)


def _post(
    connection: http.client.HTTPConnection, path: str, body: str, headers: dict[str, str], status: int
) -> dict[str, str]:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    raw = answer.read()
    assert answer.status == status, raw
    return dict(json.loads(raw))


def _bearer(ours: Ours) -> float:
    """Give the middle time of the check in this process, among some thousand tokens."""
    with create_engine(ours.database_url).begin() as connection:
        grant_id = _connect(connection, ours, f"bench-{secrets.token_hex(8)}")
        for _ in range(OTHER_TOKENS):
            _store(connection, secrets.token_urlsafe(32), "access", grant_id)
    parts = app.build(load_settings(ours.environment(), folder=Path(ours.folder)))
    header, took = f"Bearer {ours.token}", []
    for _ in range(CHECKS):
        began = time.perf_counter()
        found = parts.bearer.principal(header, Surface.MCP)
        took.append((time.perf_counter() - began) * 1000)
        assert not isinstance(found, Challenge)
    return sorted(took)[CHECKS // 2]


def _connect(connection: Connection, ours: Ours, client_id: str) -> str:
    """Store a public client that the operator of the bench has connected; give the grant's id."""
    grant_id, now = f"gr_{secrets.token_hex(16)}", time.time_ns() // 1000
    connection.execute(
        text(
            "INSERT INTO cs_client (id, kind, name, auth_method, redirect_uris, registration, created_at, device) "
            "VALUES (:id, 'registered', 'Bench', 'none', '[]', :registration, :now, false)"
        ),
        {"id": client_id, "registration": '{"grant_types": ["refresh_token"]}', "now": now},
    )
    connection.execute(
        text(
            "INSERT INTO cs_grant (id, operator_id, client_id, scopes, resource, version, created_at) "
            "SELECT :id, id, :client, 'mcp:flows:read', :resource, 1, :now FROM cs_operator LIMIT 1"
        ),
        {"id": grant_id, "client": client_id, "resource": f"http://localhost:{ours.base_port}/mcp", "now": now},
    )
    return grant_id


def _store(connection: Connection, secret: str, kind: str, grant_id: str) -> None:
    now = time.time_ns() // 1000
    row = {"digest": hashlib.sha256(secret.encode()).hexdigest(), "kind": kind, "grant": grant_id, "now": now}
    connection.execute(
        text(
            "INSERT INTO cs_token (digest, kind, grant_id, generation, issued_at, expires_at) "
            "VALUES (:digest, :kind, :grant, 1, :now, :until)"
        ),
        row | {"until": now + 3_600_000_000},
    )


def _p95(took: list[float]) -> float:
    return quantiles(took, n=20, method="inclusive")[-1]
