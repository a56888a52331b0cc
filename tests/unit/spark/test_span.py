"""What packed changes say about their source's time."""

from typing import Any

import pyarrow as pa
import pytest

from firn.changes.positions import position
from firn.quarantine.rules import Span
from firn_spark.staged.packed import CHANGES
from firn_spark.staged.span import span_of_batch, together

HIGH = position("postgresql", "u", '["5","5"]', 1)


def change(lsn: int, ts: int | None, **other: Any) -> dict[str, Any]:
    order = f'["{lsn}","{lsn}"]'
    told = {
        "op": "u",
        "connector": "postgresql",
        "order": order,
        "ts": ts,
        "pos": position("postgresql", "u", order, 1),
    }
    return dict.fromkeys(CHANGES.names) | told | other


def span(*changes: dict[str, Any]) -> Span:
    assert HIGH is not None
    return span_of_batch(pa.RecordBatch.from_pylist(list(changes), CHANGES), (HIGH.hex(), 1_000))


def test_the_top_the_newest_above_the_high_and_the_lowest_that_is_late() -> None:
    late = 1_000 + 86_400_000
    found = span(change(9, 50), change(7, 60), change(3, late), change(2, late + 1), change(1, 10))
    assert (found.top, found.newest) == (change(9, 0)["pos"], 60)
    assert found.low == (change(2, 0)["pos"], late + 1)


def test_an_lsn_alone_says_nothing_of_time_and_is_told_of() -> None:
    alone = change(9, 10**12, order="9", pos=position("postgresql", "u", "9", 1, commits=True))
    assert span(alone) == Span(bare=True)
    assert span(alone, change(8, 50)) == Span(change(8, 0)["pos"], 50, None, bare=True)
    assert together([span(alone), span(change(9, 50))]).bare


@pytest.mark.parametrize("other", [{"op": "r"}, {"order": None}, {"pos": None}, {"ts": None}, {"connector": "firn"}])
def test_what_has_no_place_in_time_says_nothing(other: dict[str, Any]) -> None:
    assert span(change(9, 50) | other) == Span()
