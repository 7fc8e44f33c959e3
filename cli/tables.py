"""Rows as text in columns."""

from collections.abc import Sequence

GAP = "  "


def lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give the rows under their heads, each column as wide as its widest cell; control characters are replaced."""
    cells = [[_plain(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells)
    return "\n".join(GAP.join(row).rstrip() for row in padded)


def _plain(cell: str) -> str:
    # A client's name is a stranger's text: it must not move the cursor of an administrator's terminal.
    return "".join(letter if letter.isprintable() else "�" for letter in cell)
