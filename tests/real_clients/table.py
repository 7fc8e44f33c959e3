"""How far each real client gets, as rows of a table."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from tests.real_clients.place import Place

READ, WRITE = "orders_list", "orders_refund"


class Step(StrEnum):
    """What a client does one after the other."""

    REGISTERED = "registered"
    SIGNED_IN = "signed in"
    LISTED = "listed"
    READ = "read"
    WRITE_ASKED = "write asked"


class Tools(Protocol):
    """A client that is signed in."""

    def names(self) -> list[str]:
        """List the tools."""

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its structured answer."""


@dataclass(frozen=True, slots=True)
class RealClient:
    """A client of the table and how it signs in."""

    name: str
    version: Callable[[], str]
    signed_in: Callable[[Place], AbstractContextManager[Tools]]


@dataclass(slots=True)
class Row:
    """How far one client got, and what stopped it."""

    client: str
    version: str
    reached: list[Step] = field(default_factory=list)
    remark: str = ""

    @property
    def missing(self) -> Step | None:
        """The first step that it didn't reach."""
        return next((step for step in Step if step not in self.reached), None)


def walk(client: RealClient, place: Place) -> Row:
    """Lead one client as far as it goes; whatever it throws becomes its remark."""
    row = Row(client.name, client.version())
    try:
        with client.signed_in(place) as tools:
            row.reached.append(Step.SIGNED_IN)
            _use(tools, place, row)
    except Exception as error:  # noqa: BLE001 a client may break in any way, and the others are to be seen all the same
        row.remark = row.remark or " ".join(f"{type(error).__name__}: {error}".split())[:600]
    if place.registered:
        row.reached.insert(0, Step.REGISTERED)
    return row


def _use(tools: Tools, place: Place, row: Row) -> None:
    names = tools.names()
    assert {READ, WRITE} <= set(names), f"listed only {names}"
    row.reached.append(Step.LISTED)
    orders = tools.call(READ, {"status": "paid", "limit": 1})["orders"]
    row.reached.append(Step.READ)
    answer = tools.call(WRITE, {"order_id": orders[0]["number"], "reason": "damaged in transit"})
    assert answer["status"] == "confirmation_required", answer
    place.browser.open(answer["confirmUrl"])
    assert "Approve" in place.browser.page.describe(), place.browser.page.describe()
    row.reached.append(Step.WRITE_ASKED)


def as_text(rows: Iterable[Row]) -> str:
    """Return the table for the test report."""
    head = ["client", "version", *Step, "remarks"]
    lines = [[r.client, r.version, *("yes" if step in r.reached else "-" for step in Step), r.remark] for r in rows]
    widths = [max(len(line[n]) for line in [head, *lines]) for n in range(len(head) - 1)]
    return "\n".join(_spaced(line, widths) for line in [head, *lines])


def _spaced(line: list[str], widths: list[int]) -> str:
    return "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
