"""The engine against Spark's own MERGE INTO of the same changes: equal tables after every epoch, however the table is
partitioned and written, and whichever home commits."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn_spark.tables import deletes, fence
from tests.integration.spark.committing import files_of
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.soak import LONG, SEED, long_only, times

pytestmark = pytest.mark.spark

DAY = 86_400_000


class Reference:
    """`lake.reference`, into which the newest change of each key is merged. A deleted row stays, and says so: so a
    change that comes after it is late here too."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        spark.sql(
            "CREATE TABLE firn.lake.reference (id bigint, region string, v string, at timestamp_ntz, lsn bigint,"
            " gone boolean) USING iceberg"
        )

    def merge(self, told: list[dict[str, Any]]) -> None:
        newest: dict[tuple[Any, Any], dict[str, Any]] = {}
        for one in sorted(told, key=lambda one: one["source"]["lsn"]):
            row = one["after"] or one["before"]
            newest[row["id"], row["region"]] = one
        rows = []
        for (number, region), one in newest.items():
            row = one["after"] or {"v": None, "at": None}
            rows.append((number, region, row["v"], row["at"], one["source"]["lsn"], one["op"] == "d"))
        frame = self._spark.createDataFrame(rows, "id long, region string, v string, ms long, lsn long, gone boolean")
        frame.selectExpr("*", "cast(timestamp_millis(ms) as timestamp_ntz) AS at").createOrReplaceTempView("changes")
        self._spark.sql(
            "MERGE INTO firn.lake.reference t USING changes s ON t.id = s.id AND t.region <=> s.region "
            "WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET v = s.v, at = s.at, lsn = s.lsn, gone = s.gone "
            "WHEN NOT MATCHED THEN INSERT (id, region, v, at, lsn, gone) "
            "VALUES (s.id, s.region, s.v, s.at, s.lsn, s.gone)"
        )

    def differs(self) -> tuple[int, int]:
        """Rows that only the engine's table has, and rows that only the reference has."""
        ours = self._spark.sql("SELECT id, region, v, at FROM firn.lake.t")
        theirs = self._spark.sql("SELECT id, region, v, at FROM firn.lake.reference WHERE NOT gone")
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


# How the table is partitioned and written, what its spec becomes after the second epoch, and where it is committed.
TABLES = [
    ("", "merge-on-read", "ADD PARTITION FIELD bucket(3, id)", "slices"),
    ("region, day(at)", "merge-on-read", "DROP PARTITION FIELD region", "slices"),
    ("'bucket(4, id)', 'truncate(2, region)'", "copy-on-write", "REPLACE PARTITION FIELD id_bucket WITH id", "slices"),
    ("'bucket(4, id)', day(at)", "copy-on-write", "DROP PARTITION FIELD at_day", "driver"),
]


@long_only
@pytest.mark.parametrize(("partitions", "write", "then", "home"), TABLES if LONG else TABLES[1:2])
def test_the_engine_does_what_merge_does(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: str,
    write: str,
    then: str,
    home: str,
) -> None:
    lake = Lake(spark, tmp_path, config(partitions, write))
    commit_in(home, monkeypatch, events=15)
    monkeypatch.setattr(deletes, "_PER_FILE", 3)
    told = history(SEED, 40 * (epochs := times(3, 8)))
    late = random.Random(SEED).sample(told[:-40], 10)  # again, and some of them after what made them void
    reference = None
    for n in range(epochs):
        part = told[40 * n : 40 * (n + 1)] + (late if n == epochs - 1 else [])
        lake.land(part)
        assert lake.line("lake.t")["way"]["lookup"] == home
        if n == 1:
            lake.spark.sql(f"ALTER TABLE firn.lake.t {then}")
        reference = reference or Reference(lake.spark)  # in the table's namespace
        reference.merge(part)
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
    way = lake.line("lake.t")["way"]
    assert (way["by"], way["deletes"], way["rewritten"]) == ("columns", "rewrite", 1)
    assert {row["id"]: row["v"] for row in lake.rows("lake.t")} == {0: "a", 1: "b", 2: "a"}
    referred, there = files_of(lake.catalog.load_table(TableName.parse("lake.t").identifier))
    assert there <= referred, "the refused commit's files are gone"
