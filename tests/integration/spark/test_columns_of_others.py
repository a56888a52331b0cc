"""Columns that another engine adds to a table that a stream feeds: one rule for all types that streams write."""

import warnings
from collections.abc import Callable
from datetime import time
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as t

from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
WRITTEN = {
    "s": (t.StringType(), "theirs"),
    "n": (t.LongType(), 5),
    "m": (t.MapType(100, t.StringType(), 101, t.LongType(), False), [("a", 1)]),
    "f": (t.FixedType(3), b"abc"),
    "st": (t.StructType(t.NestedField(102, "a", t.LongType())), {"a": 1}),
    "li": (t.ListType(103, t.FixedType(2), False), [b"ab", None]),
}
OTHER = {
    "at": (t.TimeType(), time(1, 2, 3)),
    "floats": (t.MapType(104, t.DoubleType(), 105, t.LongType(), False), [(1.5, 1)]),
}


@HOMES
@pytest.mark.parametrize("how", ["merge-on-read", "copy-on-write"])
def test_a_change_says_that_they_have_no_value_unless_no_change_can_name_them(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str, how: str
) -> None:
    commit_in(home, monkeypatch, events=100)
    one = lake(config(f"key: [id], write: {how}"))
    one.land([event("c", 10 + n, {"id": n, "v": "first"}) for n in range(4)])
    table = one.catalog.load_table(("lake", "t"))
    with table.update_schema() as schema:
        for name, (kind, _) in (WRITTEN | OTHER).items():
            schema.add_column(name, kind)
    theirs: dict[str, Any] = {name: value for name, (_, value) in (WRITTEN | OTHER).items()}
    rows = table.scan().to_arrow().to_pylist()
    with warnings.catch_warnings(action="ignore"):  # PyIceberg does not know all of the table's properties
        table.overwrite(pa.Table.from_pylist([row | theirs for row in rows], table.schema().as_arrow()))
    one.land([event("u", 20, {"id": 1, "v": "second"}), event("c", 21, {"id": 9, "v": "second"})])
    assert one.line("lake.t")["way"]["lookup"] == home
    found = {row["id"]: {name: row[name] for name in theirs} for row in one.rows("lake.t")}
    nothing = dict.fromkeys(theirs)
    kept = nothing | {name: value for name, (_, value) in OTHER.items()}
    assert found == {0: theirs, 1: kept, 2: theirs, 3: theirs, 9: nothing}
