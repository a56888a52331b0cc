from types import SimpleNamespace
from typing import Any

from firn.commit.cut_writer import landed
from firn.config.names import TableName
from firn.tables.outcome import Outcome
from firn.tables.table_state import TableState

NAME = TableName.parse("shop.orders")


def state(snapshot: int) -> TableState:
    return TableState("file:///t", {}, (), snapshot, ())


def work(asked: list[TableName]) -> Any:
    def look(name: TableName) -> TableState:
        asked.append(name)
        return state(9)

    lake = SimpleNamespace(looks_at_once=1, state=look)
    return SimpleNamespace(states={NAME: state(1)}, foreign={}, lake=lake)


def outcome(snapshot: int | None) -> Outcome:
    return Outcome(str(NAME), ("public.orders",), state=None if snapshot is None else state(snapshot))


def test_a_table_is_as_its_own_last_commit_left_it_and_nobody_is_asked() -> None:
    asked = list[TableName]()
    assert landed(work(asked), [outcome(2), outcome(3)]) == {NAME: state(3)}
    assert asked == []


def test_of_a_table_whose_last_outcome_says_nothing_the_catalog_is_asked() -> None:
    """Another job has come further: what this one had committed before is not what the table is."""
    asked = list[TableName]()
    assert landed(work(asked), [outcome(2), outcome(None)]) == {NAME: state(9)}
    assert asked == [NAME]


def test_the_state_of_a_table_is_in_no_log_line() -> None:
    assert "state" not in outcome(2).line()
