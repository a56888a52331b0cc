"""The peers that need no Spark, one run a process, and the floor. One JSON line: what it took and where the result is.

    python -m benchmarks.peers duckdb|pyiceberg|delta-rs|dlt --base FOLDER --events FOLDER --work FOLDER [--limit N]

Each reads the events from NDJSON with types given, keeps the last of each key, and applies it to a table that holds the
base rows. Loading that table is not timed; neither are the imports.
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.reference import connect
from benchmarks.workload import SCHEMA

_COLUMNS = ("name", "balance", "branch", "updated_at", "note")
_EVENT = {
    "before": pl.Struct({"id": pl.Int64}),
    "after": pl.Struct({
        "id": pl.Int64, "name": pl.String, "balance": pl.String, "branch": pl.Int32, "updated_at": pl.Int64,
        "note": pl.String,
    }),
    "source": pl.Struct({"lsn": pl.Int64}),
    "op": pl.String,
}  # fmt: skip
Prepared = Callable[[], dict[str, str]]  # what is timed -> where the result is


def last_changes(events: Path, limit: int) -> tuple[pl.DataFrame, list[int]]:
    """(rows to write with the table's types, keys that are gone) of the first `limit` events; 0: of all."""
    read = pl.concat([pl.read_ndjson(file, schema=_EVENT) for file in sorted(events.glob("*.ndjson"))])
    read = read.head(limit) if limit else read
    after, before = pl.col("after").struct, pl.col("before").struct
    last = (
        read.select(
            pl.coalesce(after.field("id"), before.field("id")).alias("key"),
            pl.col("source").struct.field("lsn"), "op", "after",
        )
        .sort("lsn")
        .unique("key", keep="last")
    )  # fmt: skip
    rows = last.filter(pl.col("op") != "d").select(pl.col("after").struct.unnest())
    rows = rows.with_columns(
        pl.col("balance").cast(pl.Decimal(18, 2)), pl.col("updated_at").cast(pl.Datetime("us", "UTC"))
    )
    return rows, last.filter(pl.col("op") == "d")["key"].to_list()


def duckdb_floor(base: Path, events: Path, work: Path, _: int) -> Prepared:
    """No table format: read, keep the last, anti-join, write one Parquet file."""
    from benchmarks import reference

    def run() -> dict[str, str]:
        db = connect()
        target = work / "result.parquet"
        last = reference.LAST.format(events=f"{events}/*.ndjson")
        db.sql(f"create temp table last as {last}")
        db.sql(f"copy ({reference.result(base)}) to '{target}' (format parquet, compression zstd)")
        return {"kind": "parquet", "path": str(target)}

    return run


def pyiceberg_upsert(base: Path, events: Path, work: Path, limit: int) -> Prepared:
    """Table.upsert of the rows, then Table.delete of the keys that are gone: two commits."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import In

    uri = f"sqlite:///{work}/catalog.db"
    catalog = SqlCatalog("firn", uri=uri, warehouse=f"file://{work}/warehouse")
    catalog.create_namespace("bank")
    table = catalog.create_table("bank.accounts", schema=SCHEMA)
    table.append(pq.read_table(base))

    def run() -> dict[str, str]:
        rows, gone = last_changes(events, limit)
        table.upsert(rows.to_arrow().cast(SCHEMA), join_cols=["id"])
        table.delete(In("id", gone))  # type: ignore[call-arg, arg-type]
        return {"kind": "iceberg", "catalog": uri, "name": "bank.accounts"}

    return run


def delta_merge(base: Path, events: Path, work: Path, limit: int) -> Prepared:
    """delta-rs: DeltaTable.merge with update, delete and insert clauses."""
    from deltalake import DeltaTable, write_deltalake

    path = str(work / "delta")
    for file in sorted(base.glob("*.parquet")):
        write_deltalake(path, pq.read_table(file), mode="append")

    def run() -> dict[str, str]:
        rows, gone = last_changes(events, limit)
        deleted = pl.DataFrame({"id": gone}, schema={"id": pl.Int64}).with_columns(pl.lit("d").alias("op"))
        changes = pl.concat([rows.with_columns(pl.lit("u").alias("op")), deleted], how="diagonal")
        values = {name: f"s.{name}" for name in _COLUMNS}
        merge = DeltaTable(path).merge(changes.to_arrow(), "t.id = s.id", source_alias="s", target_alias="t")
        merge = merge.when_matched_delete("s.op = 'd'").when_matched_update(values)
        merge.when_not_matched_insert({"id": "s.id", **values}, predicate="s.op <> 'd'").execute()
        return {"kind": "delta", "path": path}

    return run


def dlt_merge(base: Path, events: Path, work: Path, limit: int) -> Prepared:
    """dlt's filesystem destination: Iceberg, write disposition merge, strategy upsert, and a hard_delete column."""
    uri, lake = f"sqlite:///{work}/catalog.db", f"file://{work}/lake"
    os.environ |= {
        "RUNTIME__DLTHUB_TELEMETRY": "false", "DESTINATION__FILESYSTEM__BUCKET_URL": lake,
        "DLT_DATA_DIR": str(work / "dlt"), "ICEBERG_CATALOG__ICEBERG_CATALOG_NAME": "firn",
        "ICEBERG_CATALOG__ICEBERG_CATALOG_TYPE": "sql",
        "ICEBERG_CATALOG__ICEBERG_CATALOG_CONFIG": json.dumps({"type": "sql", "uri": uri, "warehouse": lake}),
        "NORMALIZE__PARQUET_NORMALIZER__ADD_DLT_LOAD_ID": "true",
        "NORMALIZE__PARQUET_NORMALIZER__ADD_DLT_ID": "true", "LOAD__WORKERS": "2", "NORMALIZE__WORKERS": "1",
    }  # fmt: skip
    import dlt

    types: dict[str, Any] = {
        "id": {"data_type": "bigint", "nullable": False}, "name": {"data_type": "text"},
        "balance": {"data_type": "decimal", "precision": 18, "scale": 2},
        "branch": {"data_type": "bigint", "precision": 32},
        "updated_at": {"data_type": "timestamp", "timezone": True}, "note": {"data_type": "text"},
        "deleted": {"data_type": "bool", "hard_delete": True},
    }  # fmt: skip
    pipeline = dlt.pipeline("bench", destination="filesystem", dataset_name="bank", pipelines_dir=str(work / "pipes"))

    def load(rows: pa.Table, how: Any) -> None:
        resource = dlt.resource(
            [rows], name="accounts", primary_key="id", table_format="iceberg", columns=types, write_disposition=how
        )
        pipeline.run(resource).raise_on_failed_jobs()

    for file in sorted(base.glob("*.parquet")):
        rows = pq.read_table(file)
        load(rows.append_column("deleted", pa.nulls(rows.num_rows, pa.bool_())), "append")

    def run() -> dict[str, str]:
        rows, gone = last_changes(events, limit)
        deleted = pl.DataFrame({"id": gone}, schema={"id": pl.Int64}).with_columns(pl.lit(True).alias("deleted"))
        changes = pl.concat([rows.with_columns(pl.lit(None, pl.Boolean).alias("deleted")), deleted], how="diagonal")
        load(changes.to_arrow(), {"disposition": "merge", "strategy": "upsert"})
        return {"kind": "iceberg", "catalog": uri, "name": "bank.accounts"}

    return run


PEERS = {"duckdb": duckdb_floor, "pyiceberg": pyiceberg_upsert, "delta-rs": delta_merge, "dlt": dlt_merge}


def main() -> None:
    """Prepares, then times one run."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=PEERS)
    for name in ("base", "events", "work"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--limit", type=int, default=0, help="only the first so many events")
    given = arguments.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    run = PEERS[given.who](given.base.absolute(), given.events.absolute(), given.work.absolute(), given.limit)
    print(json.dumps({"begin": given.who}), flush=True)
    began = time.perf_counter()
    table = run()
    print(json.dumps({"seconds": time.perf_counter() - began, "table": table}), flush=True)


if __name__ == "__main__":
    main()
