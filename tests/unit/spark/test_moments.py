"""Which snapshot a moment means, from a table's metadata alone."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from firn.tables.snapshot_history import AsOf, NoSuchMoment
from firn_spark.sources.moments import NotOneLine, Timeline


def metadata(**more: Any) -> dict[str, Any]:
    """Three snapshots at 1, 2 and 3 seconds; the first has expired from the line of the third."""
    snapshots = [
        {"snapshot-id": 10**17 + n, "parent-snapshot-id": parent, "timestamp-ms": n * 1000, "schema-id": 0,
         "summary": {"operation": "append"}}
        for n, parent in ((1, None), (2, 10**17 + 1), (3, 99))
    ]  # fmt: skip
    log = [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots]
    refs = {"main": {"snapshot-id": 10**17 + 3, "type": "branch"}, "kept": {"snapshot-id": 10**17 + 1, "type": "tag"}}
    told = {"table-uuid": "u", "snapshots": snapshots, "snapshot-log": log, "refs": refs, "schemas": []}
    return told | {"current-snapshot-id": 10**17 + 3} | more


@pytest.mark.parametrize(
    ("as_of", "found"),
    [
        (None, 3),
        (10**17 + 2, 2),
        (str(10**17 + 2), 2),
        ("kept", 1),
        (" main ", 3),
        (2_500, 2),
        ("1970-01-01T00:00:01", 1),
        ("1970-01-01T02:00:02+02:00", 2),
        (datetime(2026, 1, 1), 3),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2),
        (json.dumps({"table": "u", "snapshot": 10**17 + 1}), 1),
    ],
)
def test_a_moment_is_a_snapshot(as_of: AsOf, found: int) -> None:
    snapshot = Timeline("t", metadata()).at(as_of)
    assert snapshot is not None
    assert snapshot.id == 10**17 + found


def test_a_cursor_at_the_beginning_and_a_table_without_rows_have_none() -> None:
    assert Timeline("t", metadata()).at(json.dumps({"table": "u", "snapshot": None})) is None
    empty = Timeline("t", metadata() | {"snapshots": [], "snapshot-log": [], "refs": {}, "current-snapshot-id": -1})
    assert empty.at(None) is None
    with pytest.raises(NoSuchMoment, match="it has: none"):
        empty.at("x")


@pytest.mark.parametrize(
    ("as_of", "said"),
    [
        ("gone", r"t has no such tag or branch \(it has: kept, main\), and it is not a time either; write "),
        (10**17 + 9, "has no snapshot 100000000000000009, or it has expired"),
        (1, r"had no snapshot at 1: its first kept one is of 1970-01-01T00:00:01\.000"),
        ('{"table": "other", "snapshot": 1}', "the cursor is of another table"),
        ('{"table": ', "the cursor .* is not JSON"),
    ],
)
def test_a_moment_that_is_not_there_is_told_what_is(as_of: AsOf, said: str) -> None:
    with pytest.raises(NoSuchMoment, match=said):
        Timeline("t", metadata()).at(as_of)


def test_a_line_is_whole_or_refused() -> None:
    timeline = Timeline("t", metadata())
    first, second, third = timeline.snapshots.values()
    assert timeline.line(first, second) == [second]
    assert timeline.line(None, second) == [first, second]
    assert timeline.line(second, second) == []
    for before in (None, first, second):
        with pytest.raises(NotOneLine, match="have expired"):
            timeline.line(before, third)
    assert timeline.is_branch("main")
    assert timeline.is_branch(None)
    assert not timeline.is_branch("kept")
