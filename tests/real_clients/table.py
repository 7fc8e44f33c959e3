"""How far each real client gets, as rows of a table."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
    STAYED = "stayed signed in"
    CUT_OFF = "cut off"


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


class Walk:
    """One client on its way; whatever it throws ends its way and becomes the remark of its row."""

    def __init__(self, client: RealClient, place: Place) -> None:
        self.row = Row(client.name, client.version())
        self._client, self._place = client, place
        self._tools: Tools | None = None

    def start(self, stack: ExitStack) -> None:
        """Register, sign in and use the tools up to a write; the client stays open until `stack` is closed."""
        with self._as_remark():
            self._tools = stack.enter_context(self._client.signed_in(self._place))
            self._reached(Step.SIGNED_IN)
            self._use(self._tools)
        if self._place.registered:
            self.row.reached.insert(0, Step.REGISTERED)

    def return_later(self) -> None:
        """Read once more, when the first access token has run out: without another consent."""
        if self._tools is None or self.row.missing is not Step.STAYED:
            return
        with self._as_remark():
            assert self._tools.call(READ, {"limit": 1})["orders"]
            assert self._place.consents == 1, f"{self._place.consents} consents"
            self._reached(Step.STAYED)

    def call_in_vain(self) -> None:
        """Read once more, when the person has ended the connection: no answer without another consent."""
        if self._tools is None or self.row.missing is not Step.CUT_OFF:
            return
        try:
            self._tools.call(READ, {"limit": 1})
        except Exception:  # noqa: BLE001 each client says in its own way that it was refused
            self._reached(Step.CUT_OFF)
        else:
            if self._place.consents > 1:
                self._reached(Step.CUT_OFF)
            else:
                self.row.remark = "was answered after its connection was ended"

    def _use(self, tools: Tools) -> None:
        names = tools.names()
        assert {READ, WRITE} <= set(names), f"listed only {names}"
        self._reached(Step.LISTED)
        orders = tools.call(READ, {"status": "paid", "limit": 1})["orders"]
        self._reached(Step.READ)
        answer = tools.call(WRITE, {"order_id": orders[0]["number"], "reason": "damaged in transit"})
        assert answer["status"] == "confirmation_required", answer
        self._place.browser.open(answer["confirmUrl"]).button("Approve")
        self._reached(Step.WRITE_ASKED)

    def _reached(self, step: Step) -> None:
        self.row.reached.append(step)

    @contextmanager
    def _as_remark(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 a client may break in any way, and the others are to be seen
            self.row.remark = " ".join(f"{type(error).__name__}: {error}".split())[:600]


def as_text(rows: Iterable[Row]) -> str:
    """Return the table for the test report."""
    head = ["client", "version", *Step, "remarks"]
    lines = [[r.client, r.version, *("yes" if step in r.reached else "-" for step in Step), r.remark] for r in rows]
    widths = [max(len(line[n]) for line in [head, *lines]) for n in range(len(head) - 1)]
    return "\n".join(_spaced(line, widths) for line in [head, *lines])


def _spaced(line: list[str], widths: list[int]) -> str:
    return "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
