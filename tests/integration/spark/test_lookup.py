"""The look-up finds the rows of the changed keys, all of them, and reads only the data files that can have them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode import types
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.config.names import TableName
from firn.config.partitions import Partition
from firn_spark.merge import affected_rows
from firn_spark.merge.deciding import Shape
from firn_spark.tables.evolve import Table, Tables
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("by_sql")]


NAME = TableName("lake", "keys")
# A column's name -> its type, the SQL of the values that rows have from 0 on, and whether their order tells files.
COLUMNS: dict[str, tuple[Type, str, bool]] = {
    "i": (types.INT, "CAST(n AS INT)", True),
    "l": (types.LONG, "n * 10000000000", True),
    "s": (types.STRING, "concat('k', n, '\\'\"`')", True),
    "m": (types.decimal(12, 2), "CAST(n / 4 AS DECIMAL(12, 2))", True),
    "d": (types.DATE, "date_add(DATE'0001-01-01', CAST(n AS INT))", True),
    "t": (types.TIMESTAMP, "TIMESTAMP_NTZ'2026-10-25 00:30:00' + make_interval(0, 0, 0, 0, n)", True),
    "z": (types.TIMESTAMPTZ, "timestamp_seconds(n * 3600 - 62135596800)", True),
    "far": (types.TIMESTAMP, "TIMESTAMP_NTZ'+20000-01-01 00:00:00' + make_interval(0, 0, 0, 0, n)", False),
    "u": (types.UUID, "concat('f', substr(uuid_of(n), 2))", False),
    "b": (types.BOOLEAN, "n % 2 = 0", False),
    "x": (types.DOUBLE, "IF(n = 3, double('NaN'), -0.0D * n)", False),
    "y": (types.BINARY, "encode(concat('k', n), 'UTF-8')", False),
}
ROWS = 8


def values(spark: SparkSession, start: int, end: int) -> DataFrame:
    """The rows from `start` to `end`; the last one of them has nulls only."""
    uuid = "concat(lpad(lower(hex(n * 400000000)), 8, '0'), '-0000-4000-8000-000000000000')"
    rows = spark.range(start, end, 1, 1).selectExpr("id AS n")
    real = rows.select(*(f.expr(sql.replace("uuid_of(n)", uuid)).alias(name) for name, (_, sql, _) in COLUMNS.items()))
    nulls = real.limit(1).select(*(f.lit(None).cast(field.dataType) for field in real.schema))
    return real.union(nulls).coalesce(1)


@pytest.fixture
def there(spark: SparkSession, tmp_path: Path) -> tuple[Lake, Table]:
    """A table of two data files, each with half of the rows and one row of nulls."""
    lake = Lake(spark, tmp_path, config())
    lake.spark.conf.set("spark.sql.adaptive.enabled", "false")
    tables = Tables(lake.spark)
    columns = [Column(name, kind) for name, (kind, _, _) in COLUMNS.items()]
    table = tables.create(NAME, lake.warehouse, columns, MIRROR_METADATA, (), {})
    for start in (0, ROWS // 2):
        rows = values(lake.spark, start, start + ROWS // 2)
        metadata = [f.lit(b"\1").alias("_firn_pos"), f.lit(None).cast("timestamp").alias("_firn_ts")]
        rows.select("*", *metadata).writeTo(table.files_sql).append()
    found = tables.load(NAME)
    assert found is not None
    return lake, found


def look(lake: Lake, table: Table, key: tuple[int, ...], changed: DataFrame, few: bool) -> tuple[int, int]:
    """(rows found, data files read)"""
    columns = [Column(name, kind) for name, (kind, _, _) in COLUMNS.items()]
    shape = Shape(columns, key, (), {}, ())
    folded = changed.select(*(f.col(name).alias(f"c{i}") for i, name in enumerate(COLUMNS)))
    keys = affected_rows.keys_of(folded, table, shape, few=few)
    assert keys.count == folded.count()
    rows = affected_rows.found(lake.spark, table, shape, keys).select("t_file", "t_row")
    found = rows.collect()
    assert len(set(found)) == len(found)
    leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [leaves.apply(i) for i in range(leaves.size()) if "BatchScan" in leaves.apply(i).nodeName()]
    files = sum(scan.metrics().apply("resultDataFiles").value() for scan in scans)
    return len(found), int(files)


@pytest.mark.parametrize("few", [True, False])
def test_keys_of_every_type_are_found_and_only_where_they_can_be(there: tuple[Lake, Table], few: bool) -> None:
    lake, table = there
    wrong = {}
    for i, (name, (_, _, ordered)) in enumerate(COLUMNS.items()):
        some = values(lake.spark, 5, 7).limit(2)  # rows 5 and 6, which are in the second file
        expected = ROWS if name == "b" else 7 if name == "x" else 2
        answer = look(lake, table, (i,), some, few)
        if answer != (expected, 1 if ordered else 2):
            wrong[name] = answer
        nulls = values(lake.spark, 5, 6).where(f.col("i").isNull())
        answer = look(lake, table, (i,), nulls, few)
        if answer != (2, 2):
            wrong[f"{name} is null"] = answer
    assert wrong == {}


def test_buckets_and_values_that_no_changed_key_has_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Two changed values far from each other: their range covers every file, they themselves lie in two."""
    lake = Lake(spark, tmp_path, config())
    lake.spark.conf.set("spark.sql.adaptive.enabled", "false")
    tables = Tables(lake.spark)
    columns = [Column(name, kind) for name, (kind, _, _) in COLUMNS.items()]
    partitions = (Partition("bucket", "i", 16), Partition("identity", "b"))
    table = tables.create(NAME, lake.warehouse, columns, MIRROR_METADATA, partitions, {})
    metadata = [f.lit(b"\1").alias("_firn_pos"), f.lit(None).cast("timestamp").alias("_firn_ts")]
    values(lake.spark, 0, 100).select("*", *metadata).writeTo(table.files_sql).append()
    for few in (True, False):
        far = values(lake.spark, 0, 100).where("i IN (0, 99)")
        found, files = look(lake, table, (0,), far, few)
        assert found == 2
        assert files <= 4, "each value's bucket, of true and of false"
        assert look(lake, table, (0, 2), far.where("false"), few)[0] == 0, "all changes became dead letters"


def jobs(lake: Lake) -> int:
    """How many Spark jobs have run."""
    return int(lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_small_commit_takes_few_spark_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """Each job costs 50 ms and more, whatever it does: delete facts and held columns cost none where there are none."""
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10 + n, {"id": n, "v": "a"}) for n in range(5)])
    lake.post([event("u", 20 + n, {"id": n, "v": "b"}) for n in range(3)])
    n = lake.seal()
    before = jobs(lake)
    assert lake.commit(n) == 0
    line: dict[str, Any] = lake.line("lake.t")
    assert line["way"] == {
        "lookup": "local", "keys": 3, "deletes": "driver", "positions": 3, "slices": "a test of Spark SQL",
    }  # fmt: skip
    assert set(line["stages"]) == {"read", "fold", "lookup", "facts", "write", "deletes", "commit"}
    assert line["stages"]["facts"] < 0.1
    assert jobs(lake) - before <= 10
