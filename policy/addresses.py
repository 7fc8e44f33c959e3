"""The addresses of what can be read: `countersign://flows/orders.list`; the same in `search`, `fetch` and resources."""

import re
from dataclasses import dataclass
from enum import StrEnum

SCHEME = "countersign://"


class Kind(StrEnum):
    """What an address names; the value stands in it."""

    MANIFEST = "manifest"
    FLOW = "flows"
    RUN = "runs"
    DOC = "docs"


# No percent signs: an id needs none, so that each thing has exactly one address.
NAMES = {
    Kind.MANIFEST: re.compile(""),
    Kind.FLOW: re.compile(r"/([a-z0-9._]{1,80})"),
    Kind.RUN: re.compile(r"/([a-z0-9_]{1,40})"),
    Kind.DOC: re.compile(r"/([a-z0-9-]{1,80})"),
}


@dataclass(frozen=True, slots=True)
class Address:
    """What is named: `name` is empty where there is only one of its kind."""

    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{SCHEME}{self.kind}/{self.name}" if self.name else f"{SCHEME}{self.kind}"


def find_address(text: str) -> Address | None:
    """Read an address; None for whatever isn't one of ours, letter by letter."""
    for kind, name in NAMES.items():
        start = f"{SCHEME}{kind}"
        found = name.fullmatch(text.removeprefix(start)) if text.startswith(start) else None
        if found is not None:
            return Address(kind, *found.groups())
    return None
