"""Columns of text: as wide as their cells, and no stranger's text moves the cursor."""

from cli.tables import lines


def test_columns_are_as_wide_as_their_widest_cell():
    assert lines(("A", "LONG"), [("xyz", "1"), ("q", "")]) == "A    LONG\nxyz  1\nq"


def test_control_characters_of_a_stranger_are_replaced():
    assert lines(("NAME",), [("evil\x1b[2J\r\nname",)]) == "NAME\nevil�[2J��name"
