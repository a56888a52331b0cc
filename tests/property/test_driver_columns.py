"""What the driver does by columns, against the same said value by value."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from firn.changes.decode.types import Column, parse
from firn.quarantine.rules import IN_TIME, High, span_of
from firn_spark.files import row_lookup
from firn_spark.files.row_group import RowGroup
from firn_spark.staged.packed import CHANGES
from firn_spark.staged.span import span_of_all

INTS = st.one_of(st.integers(-3, 12), st.none())
TEXTS = st.one_of(st.sampled_from(("", "a", "ab", "b", "é")), st.none())


def group_of(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> RowGroup:
    kinds = {"long": pa.int64(), "date": pa.date32(), "string": pa.string()}
    arrays = [
        pa.array([row[i] for row in rows], pa.int32() if column.type.name == "date" else kinds[column.type.name]).cast(
            kinds[column.type.name]
        )
        for i, column in enumerate(columns)
    ]
    file = io.BytesIO()
    pq.write_table(pa.table(arrays, names=[column.name for column in columns]), file)
    return RowGroup(pq.ParquetFile(file), 0, {column.name: column.name for column in columns})


@given(st.lists(INTS, max_size=30), st.sets(INTS, max_size=12), st.booleans(), st.sampled_from(("long", "date")))
def test_rows_of_one_column_are_found_sorted_or_not(
    held: list[int | None], wanted: set[int | None], rising: bool, kind: str
) -> None:
    if rising:
        held = sorted({one for one in held if one is not None})
    key = [Column("id", parse(kind))]
    rows = row_lookup.Wanted(key, {(one,) for one in wanted})
    found = group_of(key, [(one,) for one in held]).candidates(key, rows.values)
    assert found is not None
    assert sorted(found.to_pylist()) == [place for place, one in enumerate(held) if one in wanted]


@given(st.lists(st.tuples(TEXTS, INTS), max_size=30), st.sets(st.tuples(TEXTS, INTS), max_size=8))
def test_rows_of_two_columns_are_among_those_that_are_found(
    held: list[tuple[str | None, int | None]], wanted: set[tuple[str | None, int | None]]
) -> None:
    key = [Column("a", parse("string")), Column("b", parse("long"))]
    found = row_lookup._places(row_lookup.Wanted(key, wanted), group_of(key, held))
    assert sorted(found) == [place for place, one in enumerate(held) if one in wanted]


CHANGE = st.tuples(
    st.sampled_from("rcud"),
    st.sampled_from((*IN_TIME, "firn", None)),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(0, 2),
    st.one_of(st.none(), st.sampled_from((0, 1_000, 301_000, 400_000))),
)


@given(st.lists(CHANGE, max_size=20), st.one_of(st.none(), st.tuples(st.integers(0, 4), st.sampled_from((0, 1_000)))))
def test_the_span_of_changes(told: list[tuple[Any, ...]], high: tuple[int, int] | None) -> None:
    rows = []
    for op, connector, ordered, commit, generation, ts in told:
        pos = None if commit is None else generation.to_bytes(4) + commit.to_bytes(16) + b"\1" + bytes(24)
        row = {"op": op, "connector": connector, "order": "[]" if ordered else None, "pos": pos, "ts": ts}
        rows.append(dict.fromkeys(CHANGES.names) | row)
    known: High | None = None
    if high is not None:
        known = ((1).to_bytes(4) + high[0].to_bytes(16) + b"\1" + bytes(24)).hex(), high[1]
    there = (
        (row["pos"], row["ts"])
        for row in rows
        if row["op"] != "r" and row["order"] is not None and row["connector"] in IN_TIME
        if row["pos"] is not None and row["ts"] is not None
    )
    assert span_of_all([pa.RecordBatch.from_pylist(rows, CHANGES)], known) == span_of(there, known)
