"""A stream of many tables: a job looks at those that its range touches and at some of the others, each in its turn. The
cut says of the rest what the one before did."""

from typing import Final

import pytest

from firn.config.names import TableName
from firn.log import holds
from firn.tables import turns
from firn.tables.table_state import TableState
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake
from tests.model.test_quarantine import release

CONFIG: Final = """
streams:
  shop:
    tables: {'*': {to: 'lake.{table}', key: [id]}}
"""
NAMES: Final = [f"t{n}" for n in range(30)]
MOST: Final = 5
TURNS: Final = len(NAMES) // MOST  # epochs in which each table has its turn


class Looking(MemoryLake):
    """Notes the tables that it is asked for."""

    def __init__(self, of: MemoryLake) -> None:
        super().__init__(of.store, of.catalog)
        self.asked: list[TableName] = []

    def state(self, table: TableName) -> TableState | None:
        self.asked.append(table)
        return super().state(table)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Looking:
    monkeypatch.setattr(turns, "MOST", MOST)
    ground = MemoryGround()
    return Looking(ground.lake)


@pytest.fixture
def stream(lake: Looking) -> Stream:
    ground = MemoryGround()
    ground.store, ground.catalog, ground.lake = lake.store, lake.catalog, lake
    stream = Stream(ground, CONFIG)
    stream.land(*(of(name, 10 + n) for n, name in enumerate(NAMES)))
    return stream


def of(name: str, number: int) -> dict[str, object]:
    return event("c", number, {"id": number, "v": "a"}, table=name)


def go_on(stream: Stream, epochs: int = TURNS) -> None:
    """Epochs that touch one table alone."""
    for _ in range(epochs):
        n = stream.seal(of("t0", 1_000 + 10 * stream.seal()))
        assert stream.commit(n - 1, n) == 0, stream.lines


def at(lake: Looking) -> dict[str, int | None]:
    return {str(name): table.current for name, table in lake.catalog.tables.items() if not name.table.endswith("_")}


def test_a_job_looks_at_what_its_range_touches_and_at_a_share_of_the_rest(stream: Stream, lake: Looking) -> None:
    seen = set[TableName]()
    for _ in range(TURNS):
        lake.asked.clear()
        stream.land(of("t0", 1_000 + 10 * len(seen)))
        assert TableName("lake", "t0") in lake.asked
        assert len(set(lake.asked)) < len(NAMES) // 2
        seen |= set(lake.asked)
        # Nothing is missing in the cut, and nothing is old: nobody else has moved a table.
        assert stream.cut().tables == at(lake)
        assert stream.cut().progress.keys() == at(lake).keys()
    assert {one.table for one in seen} == set(NAMES)


def test_a_table_that_is_touched_again_goes_on_from_where_it_was(stream: Stream, lake: Looking) -> None:
    go_on(stream, 2)
    stream.land(of("t7", 5_000))
    assert sorted(stream.values(TableName("lake", "t7"))) == [(17, "a"), (5_000, "a")]
    assert stream.cut().counts["lake.t7"]["merged"] == 1
    assert stream.cut().tables == at(lake)


@pytest.mark.parametrize("name", ["t3", "t11", "t29"])
def test_a_table_that_was_rolled_back_is_held_at_its_turn(stream: Stream, lake: Looking, name: str) -> None:
    table = TableName("lake", name)
    lake.catalog.rollback(table, None)
    go_on(stream)
    held = holds.read_all(stream.store, STREAM).held()
    assert held[str(table)].reason == "rolled_back"
    assert stream.cut().quarantined == {str(table): "rolled_back"}
    release(stream, str(table), "replay")
    go_on(stream, 1)
    assert [v for v, _ in stream.values(table)] == [10 + NAMES.index(name)]
    assert stream.cut().quarantined == {}
    assert stream.cut().tables == at(lake)


def test_one_that_is_touched_before_its_turn_is_held_at_once(stream: Stream, lake: Looking) -> None:
    table = TableName("lake", "t4")
    lake.catalog.rollback(table, None)
    stream.land(of("t4", 6_000))
    assert stream.cut().quarantined == {str(table): "rolled_back"}


def test_another_snapshot_of_the_same_rows_comes_into_the_cut_at_its_turn(stream: Stream, lake: Looking) -> None:
    table = TableName("lake", "t5")
    was = lake.catalog.tables[table]
    lake.catalog._add(was, was.snapshots[was.current or 0].rows, {"operation": "replace"}, (), ())
    go_on(stream)
    assert stream.cut().tables == at(lake)
