"""What a table remembers is enough: whatever comes, in whatever order and split, the row engine equals `fold`."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.merge.fold import LOADED, Key, Row, RowChange, fold
from firn.changes.positions import RANK
from tests.memory_table import MemoryTable
from tests.property.test_fold import Source, histories
from tests.soak import times


def delivered(batches: Iterable[list[RowChange]], table: MemoryTable | None = None) -> Mapping[Key, Row]:
    """The rows after the batches, one after the other; the log is what has been delivered so far."""
    table = table or MemoryTable()
    for batch in batches:
        table.commit(batch)
    return table.live


@st.composite
def deliveries(draw: st.DrawFn, log: list[RowChange], most: int = 6) -> list[list[RowChange]]:
    """All of `log`, shuffled, some of it twice, in up to `most` batches."""
    again = draw(st.lists(st.sampled_from(log), max_size=8)) if log else []
    shuffled = draw(st.permutations([*log, *again]))
    batches: list[list[RowChange]] = [[] for _ in range(most)]
    for change in shuffled:
        batches[draw(st.integers(0, most - 1))].append(change)
    return batches


@given(histories(), st.data())
def test_any_order_any_split_any_repeat_equals_the_specification(source: Source, data: st.DataObject) -> None:
    assert delivered(data.draw(deliveries(source.log))) == fold({}, source.log).rows


@given(histories(), st.data())
def test_after_each_batch_it_equals_the_specification_of_what_has_come(source: Source, data: st.DataObject) -> None:
    """Every snapshot is right, and not only the last one: what is still to come must not be what fixes it."""
    batches = data.draw(deliveries(source.log))
    for count in range(1, len(batches) + 1):
        come = [change for batch in batches[:count] for change in batch]
        assert delivered(batches[:count]) == fold({}, come).rows


def test_what_a_move_took_from_a_row_goes_with_a_truncate_that_turns_out_to_lie_between() -> None:
    source = Source(now=1)
    source.tell("c", 2, {"id": 2, "n": 1, "v": "long"})
    source.now = 3
    source.tell("d", 2, None)
    source.tell("c", 1, {"id": 1, "n": 2}, keeps_v=True)
    source.now = 2
    source.tell("t", 0, None)
    rows = delivered([source.log[:3], source.log[3:]])
    assert rows == fold({}, source.log).rows
    assert rows[1,].values["v"] is None


@given(histories(), st.data())
def test_one_change_at_a_time_backwards(source: Source, data: st.DataObject) -> None:
    assert delivered([[change] for change in reversed(source.log)]) == fold({}, source.log).rows


@settings(
    max_examples=max(times(200, 600, 600), settings().max_examples)
)  # few of these histories need the row that a delete took
@given(histories(), st.data())
def test_what_comes_in_order_on_a_table_older_than_the_log_needs_only_its_rows(
    source: Source, data: st.DataObject
) -> None:
    cuts = [i for i in range(len(source.log) + 1) if _between_statements(source.log, i)]
    cut = data.draw(st.sampled_from(cuts))
    older = source.log[:cut]
    table = MemoryTable(dict(fold({}, older).rows), frozenset(change.source for change in older))
    newer = source.log[cut:]
    batches: list[list[RowChange]] = [[], [], [], []]
    # In order but split anyhow, even between the halves of a move.
    ends = sorted(data.draw(st.lists(st.integers(0, len(newer)), min_size=3, max_size=3)))
    for place, change in enumerate(newer):
        batches[sum(place >= end for end in ends)].append(change)
    assert delivered(batches, table) == fold({}, source.log).rows


def _between_statements(log: list[RowChange], i: int) -> bool:
    return i in {0, len(log)} or log[i - 1].position != log[i].position


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("creates", [False, True])
@pytest.mark.parametrize("took", ["d", "t"])
def test_a_row_that_was_loaded_after_its_delete_is_older_than_it_whatever_comes_beside(
    took: str, creates: bool, beside: bool
) -> None:
    def told(op: str, key: int, at: int, *unavailable: str) -> RowChange:
        values = None if op in "dt" else {"v": f"v{at}", "w": f"w{at}"} | dict.fromkeys(unavailable)
        position = at.to_bytes(45)
        return RowChange(
            op, () if op == "t" else (key,), position, b"\1" + position + RANK[op], values, frozenset(unavailable), "t"
        )

    table = MemoryTable()
    first = [told("c", key, 10 + key) for key in range(5)]
    table.commit(first)
    table.commit([told(took, 1, 100)])
    if creates:
        table.commit([told("d", 2, 120), told("c", 20, 120, "w")])
    table.live[1,] = Row({"v": "loaded", "w": "loaded"}, LOADED)
    table.commit([*([first[3]] if beside else ()), told("u", 1, 200, "v")])
    assert table.live[1,].values == {"v": None, "w": "w200"}
