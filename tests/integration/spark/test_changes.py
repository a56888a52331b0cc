"""Changes between any two snapshots that the commit job made: applied to the rows of the one they give those of the
other, whatever happened in between."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType

from firn.config.names import TableName
from firn.maintenance import compaction_trigger
from firn_lake.changes.row_changes import Changes
from firn_lake.lake import Lake as Reader
from firn_lake.lake_table import LakeTable
from firn_lake.reading.versions import version_of
from firn_spark.driver import small_files
from firn_spark.tables.evolve import Tables
from tests.applying import applied, rows_of
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.soak import LONG, long_only, times

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are merged when a test says so."""
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    monkeypatch.setattr(small_files, "_AT_LEAST", 2)


def table_of(lake: Lake, name: str = "lake.t") -> LakeTable:
    return Reader(lake.catalog).table(name)


def merge(lake: Lake, name: str = "lake.t") -> bool:
    """Small files of the table into few, if there are some of a size. -> whether there were."""
    table = Tables(lake.spark).load(TableName.parse(name))
    assert table is not None
    return small_files.merge(lake.spark, table, lake.stream) is not None


def check_all_pairs(table: LakeTable) -> None:
    """For every two snapshots: the earlier rows, with the changes applied, are the later ones; and so step by step."""
    iceberg = table.iceberg
    kept = iceberg.metadata.snapshots
    for before, after in itertools.product([None, *kept], kept):
        changes = Changes(before, version_of(iceberg, after))
        then, now = (rows_of(iceberg, one, changes._rows) for one in (before, after))
        assert applied(then, changes) == now, changes
    check_steps(iceberg)


def check_steps(iceberg: Table) -> None:
    """All steps, one after the other, lead from the first snapshot to the last."""
    first, last = iceberg.metadata.snapshots[0], iceberg.metadata.snapshots[-1]
    version = version_of(iceberg, last)
    steps = Changes(first, version, steps=True)
    assert applied(rows_of(iceberg, first, version.schema), steps) == rows_of(iceberg, last)


def history(lake: Lake, seed: int, epochs: int, first: int = 1) -> None:
    """Epochs of inserts, updates and deletes of 30 keys, and of a merge of small files here and there."""
    dice = random.Random(seed)
    there: set[int] = set()
    lsn = 1_000 * first
    for epoch in range(first, first + epochs):
        told: list[dict[str, Any]] = []
        for _ in range(dice.randint(1, 25)):
            lsn += 1
            number = dice.randrange(30)
            if number in there and dice.random() < 0.35:
                there.discard(number)
                told.append(event("d", lsn, None, before={"id": number}))
            else:
                told.append(event("u" if number in there else "c", lsn, {"id": number, "v": f"{epoch}-{lsn}"}))
                there.add(number)
        lake.land(told)
        if epoch % 4 == 0:
            merge(lake)


@pytest.mark.parametrize(
    "how", [", partition_by: ['bucket(3, id)']", *(["", ", write: copy-on-write"] if LONG else [])]
)
def test_changes_lead_from_any_snapshot_to_any_other(lake: Make, how: str) -> None:
    one = lake(config(f"key: [id]{how}"))
    history(one, seed=len(how), epochs=times(5, 9))
    table = table_of(one)
    operations = {snapshot.summary.operation for snapshot in table.iceberg.metadata.snapshots if snapshot.summary}
    assert Operation.REPLACE in operations or "copy" in how
    assert any(one.delete_files for one in table.iceberg.scan().plan_files()) != ("copy" in how)
    check_all_pairs(table)


def test_a_merge_of_small_files_changes_nothing(lake: Make) -> None:
    one = lake(config())
    history(one, seed=5, epochs=3)
    before = table_of(one).snapshots()[-1].id
    assert merge(one)
    table = table_of(one)
    assert table.snapshots()[-1].operation == "replace"
    assert table.changes(before).count() == 0
    # The same without believing what the snapshot says of itself: all rows are compared.
    changes = table.changes(before)
    changes._line = None
    assert changes.count() == 0


@long_only
def test_changes_across_a_new_a_renamed_and_a_widened_column(lake: Make) -> None:
    one = lake(config("key: [id], columns: {n: int}"))
    one.land([event("c", 1, {"id": 1, "n": 1, "v": "a"}), event("c", 2, {"id": 2, "n": 2, "v": "b"})])
    one.land([event("c", 3, {"id": 3, "n": 3, "v": "c", "added": "x"})])
    loaded = one.catalog.load_table("lake.t")
    with loaded.update_schema() as update:
        update.rename_column("v", "renamed")
    with loaded.update_schema() as update:
        update.update_column("n", field_type=LongType())
    one.land([event("u", 4, {"id": 1, "n": 1, "renamed": "a", "added": "y"}), event("d", 5, None, before={"id": 2})])
    table = table_of(one)
    check_all_pairs(table)
    first = table.snapshots()[0].id
    found = {row["id"]: row for row in table.changes(first).pylist()}
    assert {number: row["_change"] for number, row in found.items()} == {1: "update", 2: "delete", 3: "insert"}
    assert found[1]["_before"] == {"id": 1, "n": 1, "renamed": "a", "added": None}
    assert found[2]["renamed"] == "b"
    assert table.read(as_of=first).schema.names == ["id", "n", "v"]
    assert table.read(as_of=first, filter="v = 'a'").count() == 1


@long_only
def test_changes_across_a_column_that_got_another_type(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 1, {"id": 1, "v": 7}), event("c", 2, {"id": 2, "v": 8}), event("c", 3, {"id": 3, "v": None})])
    one.land([event("u", 4, {"id": 2, "v": "text"})])
    table = table_of(one)
    assert table.columns()["v"] == "string"
    check_all_pairs(table)
    first = table.snapshots()[0].id
    # To Iceberg it is a new column: what it held before, an earlier snapshot has under another id.
    assert {row["id"]: row["_before"]["v"] for row in table.changes(first).pylist()} == {1: None, 2: None}


def test_changes_across_a_truncate(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", n, {"id": n, "v": "a"}) for n in range(1, 5)])
    one.land([event("t", 10)])
    one.land([event("c", 11, {"id": 2, "v": "a"}), event("c", 12, {"id": 9, "v": "b"})])
    table = table_of(one)
    check_all_pairs(table)
    first = table.snapshots()[0].id
    found = {row["id"]: row["_change"] for row in table.changes(first).pylist()}
    assert found == {1: "delete", 3: "delete", 4: "delete", 9: "insert"}


@long_only
def test_an_append_table_has_inserts_only(lake: Make) -> None:
    one = lake(config("mode: append"))
    for number in range(4):
        one.land([event("c", 10 * number + k, {"id": k, "v": "same"}) for k in range(3)])
    assert merge(one)
    table = table_of(one)
    assert table.key == ()
    check_all_pairs(table)
    first = table.snapshots()[0].id
    assert table.changes(first).counts() == {"insert": 9, "update": 0, "delete": 0}


@long_only
def test_what_a_change_costs_follows_the_change(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    for number in range(6):
        one.land([event("c", 100 * number + k, {"id": 100 * number + k, "v": "x"}) for k in range(20)])
    before = table_of(one).snapshots()[-1].id
    one.land([event("u", 9_000, {"id": 305, "v": "y"})])
    opened: list[str] = []
    table = table_of(one)
    iceberg = table.iceberg
    new_input = type(iceberg.io).new_input
    monkeypatch.setattr(type(iceberg.io), "new_input", lambda io, path: (opened.append(path), new_input(io, path))[1])
    changes = table.changes(before)
    opened.clear()
    assert [row["_before"]["v"] for row in changes.pylist()] == ["x"]
    data = [path for path in opened if path.endswith(".parquet") and "/data/" in path]
    assert len(data) == 3, data  # the new row, the file it was in, and which row of it went
