"""The MERGE that one writes by hand: Spark reads the events, keeps the last of each key, and merges into Iceberg."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark import COLUMNS, TABLE, Lake, base_lake

_IMAGE = "id bigint, name string, balance string, branch int, updated_at bigint, note string"
_EVENT = f"before struct<id: bigint>, after struct<{_IMAGE}>, source struct<lsn: bigint, `table`: string>, op string"
_CHANGES = """
select op, id, after.name, cast(after.balance as decimal(18, 2)) balance, after.branch,
       timestamp_micros(after.updated_at) updated_at, after.note
from (select *, row_number() over (partition by id order by lsn desc) place
      from (select op, after, source.lsn, coalesce(after.id, before.id) id from events))
where place = 1
"""
_MERGE = """
merge into firn.{table} t using changes s on t.id = s.id
when matched and s.op = 'd' then delete
when matched then update set name = s.name, balance = s.balance, branch = s.branch, updated_at = s.updated_at,
  note = s.note
when not matched and s.op <> 'd' then insert (id, name, balance, branch, updated_at, note)
  values (s.id, s.name, s.balance, s.branch, s.updated_at, s.note)
"""


def base(spark: SparkSession, rows: int, source: Path) -> Path:
    """A base lake with the rows of the Parquet files in `source`."""

    def load(lake: Lake) -> None:
        lake.spark.sql("create namespace firn.bank")
        lake.spark.sql(f"create table firn.{TABLE} ({COLUMNS}) using iceberg tblproperties ('format-version' = '2')")
        lake.spark.read.parquet(str(source)).writeTo(f"firn.{TABLE}").append()

    return base_lake(spark, f"plain-{rows}", load)


def split(events: Path, parts: int) -> list[list[Path]]:
    """The files of the events in so many parts of equal size."""
    files = sorted(events.glob("*.ndjson"))
    assert len(files) % parts == 0, f"{len(files)} files can't be made {parts} equal parts"
    size = len(files) // parts
    return [files[n * size : (n + 1) * size] for n in range(parts)]


def set_mode(lake: Lake, mode: str) -> None:
    """merge-on-read or copy-on-write."""
    lake.spark.sql(f"alter table firn.{TABLE} set tblproperties ('write.merge.mode' = '{mode}')")


def merge(lake: Lake, files: list[Path]) -> None:
    """The events of the files into the table, in one snapshot."""
    lake.spark.read.schema(_EVENT).json([str(file) for file in files]).createOrReplaceTempView("events")
    lake.spark.sql(_CHANGES).createOrReplaceTempView("changes")
    lake.spark.sql(_MERGE.format(table=TABLE))


def make_tables(lake: Lake, names: Sequence[str], file: Path) -> None:
    """Makes the tables, and loads the creates of the file into them."""
    lake.spark.sql("create namespace firn.bank")
    rows = lake.spark.read.schema(_EVENT).json(str(file)).persist()
    for name in names:
        rows.where(rows["source.table"] == name).createOrReplaceTempView("events")
        properties = "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'"
        lake.spark.sql(f"create table firn.bank.{name} ({COLUMNS}) using iceberg tblproperties ({properties})")
        lake.spark.sql(_CHANGES).drop("op").writeTo(f"firn.bank.{name}").append()


def merge_tables(lake: Lake, names: Sequence[str], file: Path) -> None:
    """The events of the file into the tables that they name, one MERGE after the other."""
    rows = lake.spark.read.schema(_EVENT).json(str(file)).persist()
    for name in names:
        rows.where(rows["source.table"] == name).createOrReplaceTempView("events")
        lake.spark.sql(_CHANGES).createOrReplaceTempView("changes")
        lake.spark.sql(_MERGE.format(table=f"bank.{name}"))
