"""The table of rules: at least 120, each held by a test that exists, and every public case up to C31 among them."""

import ast
import re

from tests.attacks.rules import RULES, pairs
from tests.support.server import REPO

CASES = (1, 2, 4, 5, 7, 8, 9, 10, 12, 14, 15, 16, 18, 19, 20, 23, 24, 26, 27, 30, 31)
LEAST = 120


def names_of(file: str) -> list[str]:
    tree = ast.parse((REPO / "tests" / file).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def test_each_rule_is_held_by_a_test_that_exists() -> None:
    names = {file: names_of(file) for file, _ in RULES}
    lost = [(file, name) for file, name in RULES if sum(one.startswith(name) for one in names[file]) != 1]

    assert lost == []


def test_there_are_enough_and_every_case_is_among_them() -> None:
    named = {int(found[1]) for _, rule in pairs() if (found := re.match(r"C(\d\d)\b", rule))}

    assert len(pairs()) >= LEAST
    assert set(CASES) <= named
