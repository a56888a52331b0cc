"""The engine against Spark's own MERGE INTO, fed with the same folded changes: equal tables after every epoch, however
the table is partitioned, and whichever way the rows are found and removed."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from firn.config.names import TableName
from firn_spark.merge import affected_rows, mirror
from firn_spark.merge.deciding import Shape
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table
from tests.integration.spark.committing import files_of
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.soak import LONG, SEED, times

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("by_sql")]


DAY = 86_400_000


class Reference:
    """Stands in for mirror.folded: merges what it gives into `lake.reference`, unpartitioned, of the same columns."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spark = spark
        self._real = mirror.folded
        monkeypatch.setattr(mirror, "folded", self)

    def __call__(
        self, spark: SparkSession, table: Table, changes: DataFrame, memory: Any, shape: Shape, *rest: Any
    ) -> Any:
        found = self._real(spark, table, changes, memory, shape, *rest)
        if str(table.name) == "lake.t":
            self._merge(table, found, shape)
        return found

    def _merge(self, table: Table, folded: DataFrame, shape: Shape) -> None:
        spark = self._spark
        folded.createOrReplaceTempView("folded")
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS firn.lake.reference USING iceberg AS SELECT * FROM {table.sql} WHERE false"
        )
        names = [f"`{column.name}`" for column in shape.columns] + ["_firn_pos", "_firn_ts"]
        values = [f"s.c{i}" for i in range(len(shape.columns))] + ["s._order", "timestamp_millis(s._ts)"]
        same = " AND ".join(f"t.{names[i]} <=> s.c{i}" for i in shape.key)
        spark.sql(
            f"MERGE INTO firn.lake.reference t USING folded s ON {same} "
            "WHEN MATCHED AND s._op = 'd' AND s._gone >= t._firn_pos THEN DELETE "
            "WHEN MATCHED AND s._op <> 'd' AND s._order > t._firn_pos THEN UPDATE SET "
            + ", ".join(f"t.{name} = {value}" for name, value in zip(names, values, strict=True))
            + f" WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
        )

    def differs(self) -> tuple[int, int]:
        """Rows that only the engine's table has, and rows that only the reference has."""
        ours, theirs = (self._spark.sql(f"SELECT * FROM firn.lake.{name}") for name in ("t", "reference"))
        theirs = theirs.select(*ours.columns)
        return ours.exceptAll(theirs).count(), theirs.exceptAll(ours).count()


def history(seed: int, events: int) -> list[dict[str, Any]]:
    """Inserts, updates and deletes of a composite key, one half of which may be null; `at` moves between days."""
    dice = random.Random(seed)
    told = []
    for lsn in range(100, 100 + events):
        key = {"id": dice.randrange(12), "region": dice.choice((None, "null", "north", "south"))}
        row = key | {"v": f"v{lsn}", "at": dice.randrange(4) * DAY}
        match dice.choices("cud", (3, 5, 3))[0]:
            case "d":
                told.append(event("d", lsn, None, key | {"v": None, "at": None}))
            case op:
                told.append(event(op, lsn, row))
    return told


def config(partitions: str, write: str) -> str:
    columns = "{id: long, region: string, v: string, at: timestamp(3)}"
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
        f"      app.t: {{to: lake.t, key: [region, id], columns: {columns}, write: {write},\n"
        f"              {f'partition_by: [{partitions}]' if partitions else ''}}}\n"
    )


# (how the table is partitioned, what its spec becomes after the second epoch, how rows are found, and how removed)
TABLES = [
    ("", "ADD PARTITION FIELD bucket(3, id)", "local", "driver"),
    ("region, day(at)", "DROP PARTITION FIELD region", "broadcast", "executors"),
    ("'bucket(4, id)', 'truncate(2, region)'", "REPLACE PARTITION FIELD id_bucket WITH id", "shuffle", "rewrite"),
    ("'bucket(4, id)', day(at)", "DROP PARTITION FIELD at_day", "broadcast", "rewrite"),
]


@pytest.mark.parametrize(("partitions", "then", "found", "removed"), TABLES if LONG else TABLES[1:2])
def test_the_engine_does_what_merge_does(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: str,
    then: str,
    found: str,
    removed: str,
) -> None:
    lake = Lake(spark, tmp_path, config(partitions, "copy-on-write" if removed == "rewrite" else "merge-on-read"))
    if found != "local":
        monkeypatch.setattr(affected_rows, "FEW", 0)
    if found == "shuffle":
        monkeypatch.setattr(affected_rows, "BROADCAST", 0)
    if removed == "executors":
        monkeypatch.setattr(deletes, "ON_DRIVER", 0)
        monkeypatch.setattr(deletes, "_PER_FILE", 3)
        monkeypatch.setattr(deletes, "_TASKS", 2)
    reference = Reference(lake.spark, monkeypatch)
    told = history(SEED, 40 * (epochs := times(3, 8)))
    late = random.Random(SEED).sample(told[:-40], 10)  # again, and some of them after what made them void
    for n in range(epochs):
        lake.land(told[40 * n : 40 * (n + 1)] + (late if n == epochs - 1 else []))
        if n:
            assert (lake.line("lake.t")["way"]["lookup"], lake.line("lake.t")["way"]["deletes"]) == (found, removed)
        if n == 1:
            lake.spark.sql(f"ALTER TABLE firn.lake.t {then}")
        assert reference.differs() == (0, 0), f"after epoch {n + 1}"
    alike(lake)


def alike(lake: Lake) -> None:
    """PyIceberg and Spark read every snapshot of the table alike, and no key twice."""
    table = lake.catalog.load_table(TableName.parse("lake.t").identifier)
    for snapshot in table.metadata.snapshots:
        theirs = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        ours = lake.spark.read.option("snapshot-id", snapshot.snapshot_id).table("firn.lake.t").toArrow().to_pylist()
        assert sorted(map(repr, theirs)) == sorted(map(repr, ours))
        assert len({(row["region"], row["id"]) for row in ours}) == len(ours)
    assert len(table.metadata.snapshots) > 1


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_files_that_lost_rows_to_another_writer_meanwhile_are_not_rewritten_with_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    lake = Lake(spark, tmp_path, config("", "copy-on-write"))
    lake.land([event("c", 10 + n, {"id": n, "region": "north", "v": "a", "at": 0}) for n in range(4)])
    lake.spark.sql(f"ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
    real = fence.commit
    calls = []

    def commit(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 1:
            lake.spark.sql("DELETE FROM firn.lake.t WHERE id = 3")
        real(*given)

    monkeypatch.setattr(fence, "commit", commit)
    lake.land([event("u", 20, {"id": 1, "region": "north", "v": "b", "at": 0})])
    assert len(calls) == 2, "refused, and done again from a fresh look"
    assert lake.line("lake.t")["way"] == {
        "lookup": "local", "keys": 1, "deletes": "rewrite", "positions": 1, "rewritten": 1,
        "slices": "a test of Spark SQL",
    }  # fmt: skip
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == {0: "a", 1: "b", 2: "a"}
    referred, there = files_of(lake.catalog.load_table(TableName.parse("lake.t").identifier))
    assert there <= referred, "the refused commit's files are gone"
