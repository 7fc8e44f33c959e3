"""The demo shop as a whole in this process, called over its MCP endpoint by agents that hold real tokens."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from flask import Flask

from flows.caller import Role
from tests.support.raw_mcp import MODERN, RawAnswer, RawMcp
from tests.web.house import PASSWORD, House

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)


class Wire(RawMcp):
    """MCP by hand, without a network."""

    def __init__(self, app: Flask, token: str, version: str = MODERN) -> None:
        super().__init__("http://localhost:6535/mcp", token, version=version)
        self.app = app

    def as_version(self, version: str) -> "Wire":
        return Wire(self.app, self.token or "", version)

    def post(
        self, body: bytes, headers: Mapping[str, str], replaced: Mapping[str, str | None] | None = None
    ) -> RawAnswer:
        given = {name: value for name, value in {**headers, **(replaced or {})}.items() if value is not None}
        answer = self.app.test_client().post("/mcp", headers=given, data=body)
        return RawAnswer(answer.status_code, {name.lower(): value for name, value in answer.headers}, answer.data)


@dataclass(frozen=True, slots=True)
class Shop:
    """The house, and its people's agents."""

    house: House

    def agent(
        self, person: str = "alice", *scopes: str, role: Role = Role.OPERATOR, only: Iterable[str] | None = None
    ) -> Wire:
        """Give an agent of a person, who is made where there is none; with the read rights, or `only` these."""
        email = f"{person}@example.test"
        if self.house.parts.operators.find_by_email(email) is None:
            self.house.parts.operators.add(email, role, PASSWORD)
        wanted = (*self.house.parts.scopes.read_scopes, *scopes) if only is None else tuple(only)
        issued = self.house.parts.local.issue(f"{person}{len(wanted)}", email, wanted, timedelta(days=1))
        return Wire(self.house.app, issued.token)


@contextmanager
def open_shop(folder: Path, **given: Any) -> Iterator[Shop]:
    """Open a shop on an empty database."""
    house = House(f"sqlite:///{folder}/shop.db", folder, **given)
    yield Shop(house)
    house.close()


def runs_of(agent: Wire, flow_id: str) -> list[dict[str, Any]]:
    """Give the runs of one flow that the agent may see, newest first."""
    return list(agent.call("traces_list", {"flowId": flow_id}).data["runs"])
