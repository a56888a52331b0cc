"""Single steps of what a table remembers; the whole is tests/property."""

from firn.changes.merge.fold import LOADED, UNKNOWN, Row
from firn.changes.merge.key_rows import join


def test_a_value_that_no_change_told_fills_nothing() -> None:
    newer = Row({"id": 1, "v": None}, b"\2", {"v": UNKNOWN})
    older = Row({"id": 1, "v": "of nobody"}, b"\1", {"v": UNKNOWN})
    joined = join(newer, older)
    assert joined is not None
    assert (joined.values["v"], joined.held) == (None, {"v": UNKNOWN})


def test_the_value_of_a_row_that_another_tool_loaded_fills_what_no_change_told() -> None:
    joined = join(Row({"id": 1, "v": None}, b"\2", {"v": UNKNOWN}), Row({"id": 1, "v": "long"}, LOADED))
    assert joined is not None
    assert (joined.values["v"], joined.held) == ("long", {"v": LOADED})


def test_of_two_source_tables_that_say_the_same_at_one_position_the_greater_name_decides() -> None:
    a, b = (Row({"id": 1}, b"\1", source=name) for name in "ab")
    assert join(a, b) == join(b, a) == b
