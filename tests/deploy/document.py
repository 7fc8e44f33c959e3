"""The commands that docs/deploy.md prints, so that the page and its test can't drift apart."""

import re

from tests.support.server import REPO

PAGE = REPO / "docs" / "deploy.md"
BLOCK = re.compile(r"^<!-- run: (?P<name>[\w ]+) -->\n```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def block(name: str) -> str:
    """Return the text of the code block that is marked with this name."""
    return next(found["text"] for found in BLOCK.finditer(PAGE.read_text("utf-8")) if found["name"] == name)
