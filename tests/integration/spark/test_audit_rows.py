"""`firn audit` sees each row that is lost, doubled or wrong: by its change, and with --deep by its values. The counts
alone would balance in every case here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.audit.expected_changes import TableLog
from firn.audit.row_check import RowAccount
from firn.audit.verdict import Audit
from firn.config.names import TableName
from firn.ingest.replay import Choice, replay
from firn.log import published_configs
from firn_lake.audit.row_audit import Depth
from firn_lake.lake import Lake as Read
from firn_spark import rebuild
from firn_spark.rebuild import Request
from tests.integration.spark.spark_lake import CORPUS, Lake, records, values
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import GONE, config, event
from tests.integration.spark.test_corpus import KEYS
from tests.integration.spark.test_corpus import config as corpus_config
from tests.integration.spark.test_shuffled import deliver
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
SHALLOW = Depth()
TWO = """
streams:
  spec:
    tables:
      app.a: {to: lake.t, key: [id]}
      app.b: {to: lake.t, key: [id]}
      app.x: {to: lake.log, mode: append}
      app.y: {to: lake.log, mode: append}
"""


def of(table: str, one: dict[str, Any]) -> dict[str, Any]:
    return one | {"source": one["source"] | {"table": table}}


def by_hand(lake: Lake, sql: str) -> None:
    """Beside the log: the progress in the table's history stays, and so do all counts."""
    lake.spark.sql(sql)


def rows_of(found: Audit, table: str = "lake.t") -> RowAccount:
    return next(one for one in found.rows if one.table == table)


def wrong(lake: Lake, table: str = "lake.t", depth: Depth = SHALLOW) -> tuple[int, int, int]:
    """(missing, surplus, differs) of a table whose counts balance."""
    found = audited(lake, depth)
    assert all(one.code.startswith("rows_") for one in found.differences), "counts alone would see it"
    assert not found.balanced
    rows = rows_of(found, table)
    assert rows.expected == rows.found + rows.missing + rows.differs
    return rows.missing, rows.surplus, rows.differs


@long_only
def test_a_lost_row_a_doubled_one_and_one_that_came_back_are_told(lake: Make) -> None:
    made = lake(config())
    made.land([event("c", 10 + n, {"id": n, "v": "a"}) for n in range(6)])
    made.land([event("d", 20, None, {"id": 5}), event("u", 21, {"id": 4, "v": "b"})])
    assert audited(made, SHALLOW).balanced
    first = made.catalog.load_table(("lake", "t")).metadata.snapshots[0].snapshot_id
    again = f"SELECT * FROM firn.lake.t VERSION AS OF {first} WHERE id IN (1, 5)"  # one twice, one that is deleted
    by_hand(made, f"INSERT INTO firn.lake.t {again}")
    by_hand(made, "DELETE FROM firn.lake.t WHERE id = 2")
    assert wrong(made) == (1, 2, 0)
    said = {(one.what, one.row) for one in rows_of(audited(made, SHALLOW)).samples}
    assert said == {("missing", ("2",)), ("surplus", ("5",)), ("surplus", ("1",))}


@few_cases(1)
@pytest.mark.parametrize("deep", [False, True])
def test_nan_is_one_key(lake: Make, deep: bool) -> None:
    """To Spark it is; to Python each is another. A fresh read tells the row that a commit will make."""
    made = lake(config("key: [id], columns: {id: double}"))
    made.land([event("c", 10, {"id": "NaN", "v": "a"}), event("c", 11, {"id": 1.5, "v": "a"})])
    made.land([event("u", 20, {"id": "NaN", "v": "b"})])
    made.post([event("u", 30, {"id": "NaN", "v": "c"})])
    fresh = Read(made.catalog, lambda: made.store).table("lake.t").read(["v"], fresh=True).pylist()
    assert sorted(row["v"] for row in fresh) == ["a", "c"]
    assert made.commit(made.seal()) == 0
    assert sorted(row["v"] for row in made.rows("lake.t")) == ["a", "c"]
    found = audited(made, Depth(deep=deep))
    assert found.balanced, found.differences
    assert (rows_of(found).expected, rows_of(found).found) == (2, 2)


@long_only
def test_a_stale_value_that_beat_a_newer_one_is_missing(lake: Make) -> None:
    made = lake(config())
    made.land([event("c", 10, {"id": 1, "v": "old"}), event("c", 11, {"id": 2, "v": "b"})])
    made.land([event("u", 20, {"id": 1, "v": "new"})])
    (first, _) = made.catalog.load_table(("lake", "t")).metadata.snapshots
    by_hand(
        made,
        "MERGE INTO firn.lake.t t USING (SELECT id AS i, v AS w, _firn_pos AS p FROM firn.lake.t VERSION AS OF "
        f"{first.snapshot_id} WHERE id = 1) o ON t.id = o.i WHEN MATCHED THEN UPDATE SET t.v = o.w, t._firn_pos = o.p",
    )
    assert wrong(made) == (1, 0, 0)


@long_only
def test_rows_of_another_source_table_that_a_truncate_took_are_missing(lake: Make) -> None:
    made = lake(TWO)
    made.land([of("a", event("c", 10, {"id": 1, "v": "a"}))])
    made.land([of("b", event("c", 30, {"id": 2, "v": "b"})), of("a", event("t", 20))])
    assert audited(made, SHALLOW).balanced
    assert [row["id"] for row in made.rows("lake.t")] == [2]
    by_hand(made, "DELETE FROM firn.lake.t WHERE true")
    assert wrong(made) == (1, 0, 0)


@long_only
def test_one_of_two_equal_snapshot_rows_and_a_row_of_a_copy_are_missing(lake: Make) -> None:
    made = lake(TWO)
    reads = [of(table, event("r", 10, {"id": 1})) for table in "xy"]
    (batch,) = made.post([*reads, *(of("x", event("c", 20, {"id": 7}, commit=20)) for _ in range(3))])
    assert made.commit(made.seal()) == 0
    assert audited(made, SHALLOW).balanced
    rows = {row["_firn_id"]: row["_firn_op"] for row in made.rows("lake.log")}
    assert list(rows.values()).count("c") == 3
    taken = [next(name for name, op in rows.items() if op == wanted) for wanted in "rc"]
    by_hand(made, f"DELETE FROM firn.lake.log WHERE _firn_id IN ('{taken[0]}', '{taken[1]}')")
    assert wrong(made, "lake.log") == (2, 0, 0)
    lost = rows_of(audited(made, SHALLOW), "lake.log").samples
    assert {one.row for one in lost} == {(one,) for one in taken}
    assert {one.batch for one in lost} == {batch.batch_id}
    assert all(one.index in range(5) for one in lost)


def test_an_append_row_that_is_there_twice_is_surplus(lake: Make) -> None:
    made = lake(TWO)
    made.land([of("x", event("c", 20 + n, {"id": n})) for n in range(3)])
    by_hand(made, "INSERT INTO firn.lake.log SELECT * FROM firn.lake.log WHERE id = 1")
    assert wrong(made, "lake.log") == (0, 1, 0)


@long_only
def test_values_lost_by_a_retype_and_held_values_lost_are_told_by_their_column(lake: Make) -> None:
    made = lake(config())
    made.land([event("c", 10, {"id": 1, "v": "a", "n": 1}), event("c", 11, {"id": 2, "v": "b", "n": 2})])
    made.land([event("u", 20, {"id": 1, "v": GONE, "n": 2}), event("c", 21, {"id": 3, "v": "c", "n": "text"})])
    found = audited(made)
    assert found.balanced, found.differences
    assert rows_of(found).found == 3
    by_hand(made, "UPDATE firn.lake.t SET n = NULL WHERE id = 2")
    by_hand(made, "UPDATE firn.lake.t SET v = NULL WHERE id = 1")
    assert audited(made, SHALLOW).balanced, "which change made a row is as it should be"
    assert wrong(made, depth=Depth(deep=True)) == (0, 0, 2)
    rows = rows_of(audited(made))
    assert rows.columns == {"n": 1, "v": 1}
    assert {(one.row, one.columns) for one in rows.samples} == {(("2",), ("n",)), (("1",), ("v",))}


def test_values_of_an_append_table_are_compared(lake: Make) -> None:
    made = lake(TWO)
    made.land([of("x", event("c", 20 + n, {"id": n, "v": n * 0.5, "w": None})) for n in range(3)])
    assert audited(made).balanced
    by_hand(made, "UPDATE firn.lake.log SET v = 9 WHERE id = 1")
    assert wrong(made, "lake.log", Depth(deep=True)) == (0, 0, 1)


def test_a_table_of_changes_that_say_nothing_has_no_column_to_compare(lake: Make) -> None:
    made = lake(TWO)
    made.land([of("x", event("c", 20, {}))])
    found = audited(made)
    assert found.balanced
    assert rows_of(found, "lake.log").found == 1


def test_a_sample_takes_the_same_rows_of_both_and_its_seed_says_which(lake: Make) -> None:
    made = lake(config())
    made.land([event("c", 100 + n, {"id": n, "v": "a"}) for n in range(200)])
    by_hand(made, "DELETE FROM firn.lake.t WHERE id % 2 = 0")
    some = [rows_of(audited(made, Depth(deep=True, rows=50, seed=seed))) for seed in (1, 1, 2)]
    assert some[0].share == 0.5
    assert some[0].samples == some[1].samples
    assert some[0].samples != some[2].samples
    for one in some:
        assert 60 < one.expected < 140
        assert one.expected == one.found + one.missing
        assert one.surplus == 0


@long_only  # tests/property/test_audit_rows.py balances such histories, and the others here those of real tables
def test_a_table_that_is_right_balances_whatever_it_went_through(spark: SparkSession, tmp_path: Path) -> None:
    made = Lake(spark, tmp_path, config("key: [id], columns: {w: int}"))
    made.land([event("c", 10 + n, {"id": n, "v": "a", "n": n, "w": n}) for n in range(5)])
    assert audited(made).balanced
    # Late, deleted, moved in two halves, held, retyped, dead.
    made.land([event("u", 31, {"id": 1, "v": GONE, "n": 1.5, "w": "x"}), event("d", 32, None, {"id": 2})])
    made.land(
        [event("u", 20, {"id": 2, "v": "late", "n": 1, "w": 1}), event("u", 33, {"id": 3, "v": GONE, "n": "t", "w": 2})]
    )
    made.land([event("d", 40, None, {"id": 4}), event("u", 15, {"id": 3, "v": "old", "n": 3, "w": 3})])
    made.land([event("c", 40, {"id": 9, "v": GONE, "n": 7, "w": 4}), event("t", 9), event("u", 42, {"id": 0, "v": 5})])
    found = audited(made)
    assert (found.balanced, rows_of(found).untold) == (True, {}), found.differences
    # A dead letter that comes back under another type, a column that is renamed, more that is pending.
    made.config = published_configs.publish(made.store, config("key: [id], columns: {w: string}, renames: {val: v}"))
    list(replay(made.store, made.config, made.stream, Choice(), clock=lambda: made.now))
    assert audited(made).balanced
    made.land([event("u", 50, {"id": 3, "val": "renamed", "n": 1, "w": "y"})])
    found = audited(made)
    assert found.balanced, found.differences
    code = rebuild.run(
        Request("r1", TableName("lake", "t"), in_place=True), made.staging, made.warehouse, made.catalog_uri,
        spark=made.spark, log=made.lines.append,
    )  # fmt: skip
    assert code == 0, made.lines
    made.post([event("u", 60, {"id": 3, "val": "pending", "n": 1})])
    found = audited(made)
    assert found.balanced, found.differences
    assert found.pending == 1
    assert rows_of(found).found == len(made.rows("lake.t"))


def test_rows_that_an_older_firn_named_are_found_by_that_name(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(TWO)
    made.land([of("x", event("c", 20 + n, {"id": n})) for n in range(4)])
    known = TableLog.identities
    monkeypatch.setattr(TableLog, "identities", lambda self, row: ("new" + known(self, row)[0], known(self, row)[0]))
    found = audited(made)
    assert (found.balanced, rows_of(found, "lake.log").found) == (True, 4)
    assert audited(made, Depth(deep=True, share=0.5, seed=1)).balanced
    by_hand(made, "DELETE FROM firn.lake.log WHERE id = 3")
    assert wrong(made, "lake.log") == (1, 0, 0)


def test_rows_that_a_rollback_took_out_on_purpose_are_not_missed(lake: Make) -> None:
    made = lake(config())
    made.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"})])
    made.land([event("u", 20, {"id": 1, "v": "c"}), event("c", 21, {"id": 3, "v": "d"})])
    table = Read(made.catalog).table("lake.t")
    table.rollback(table.snapshots()[0].id, then="skip")
    made.land([event("u", 30, {"id": 2, "v": "e"})])
    found = audited(made)
    assert found.balanced, found.differences
    by_hand(made, "DELETE FROM firn.lake.t WHERE id = 2")
    assert wrong(made) == (1, 0, 0)


@long_only  # tests/e2e/test_shuffled_corpora.py audits a shuffled corpus
@pytest.mark.parametrize(("encoding", "seed"), [("plain", 1), ("schema", 2)])
def test_every_type_of_the_corpus_shuffled_over_epochs_balances(
    spark: SparkSession, tmp_path: Path, encoding: str, seed: int
) -> None:
    file = CORPUS / "spec" / f"{encoding}.ndjson.gz"
    events = values(file) if encoding == "plain" else records(file)
    made = Lake(
        spark, tmp_path, corpus_config(KEYS if encoding == "plain" else {"uidx": ["a", "b"], "ren_new": ["id"]})
    )
    deliver(made, events, seed, epochs=2)
    found = audited(made)
    assert found.balanced, [(one.message, one.rows) for one in found.differences]
    assert sum(one.found for one in found.rows) > 300
    assert not [one for one in found.rows if one.untold.keys() - {"retyped"}]
