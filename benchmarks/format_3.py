"""Tables of Iceberg's format 3 beside format 2: random deletes into many rows, a commit each, in turns.

    python -m benchmarks.format_3 [--rows 5000000] [--commits 50] [--deletes 1000] [--files 10] [--scans 31]

One JSON line for each format: CPU seconds of the commits and of full scans by Spark and by PyIceberg, and files and
bytes of deletes. Then one for each of the three: what format 3 takes for each second of format 2, pair by pair. Both
tables must be equal at the end.

All seconds are CPU seconds (benchmarks/pairs.py); the first pairs are not counted.
"""

import argparse
import json
import random
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks import firn_case, spark
from benchmarks.pairs import LEAST, in_turns, ratio
from benchmarks.spark import CACHE, TABLE, Lake
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.positions import WIDTH
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import epochs, published_configs
from firn.log.store import open_store
from firn_spark.tables.evolve import FORMAT_VERSION, Tables

FORMATS = ("2", "3")
_START = datetime(2026, 11, 21, tzinfo=UTC)
_WARM = 5  # pairs that are not counted: Java still compiles


def loaded(session: SparkSession, version: str, rows: int, files: int) -> Lake:
    """A lake with the table in this format, as a bulk load would write it."""
    lake = spark.emptied(session, CACHE / "runs" / f"format-{version}")
    columns = [
        Column("id", Type("long"), required=True), Column("name", Type("string")),
        Column("balance", Type("decimal", precision=18, scale=2)), Column("branch", Type("int")),
        Column("updated_at", Type("timestamptz")), Column("note", Type("string")),
    ]  # fmt: skip
    properties = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": firn_case.STREAM}
    properties |= {"firn.source": "public.accounts", FORMAT_VERSION: version}
    Tables(lake.spark).create(TableName.parse(TABLE), lake.warehouse, columns, MIRROR_METADATA, [], properties)
    position = bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2" + bytes(8)
    made = lake.spark.range(0, rows, 1, files).select(
        "id",
        f.concat(f.lit("name-"), f.col("id") % 1000).alias("name"),
        (f.col("id") % 10_000).cast("decimal(18,2)").alias("balance"),
        (f.col("id") % 100).cast("int").alias("branch"),
        f.timestamp_seconds(f.col("id")).alias("updated_at"),
        f.sha1(f.col("id").cast("string")).alias("note"),
        f.lit(position).alias(POSITION),
        f.lit(firn_case.LOADED).alias(TIME),
    )
    made.writeTo(f"firn.{TABLE}").append()
    return lake


def staged(lake: Lake, gone: list[list[int]]) -> str:
    """A staging store with an epoch for each list of ids that are deleted. -> its URL."""
    where = f"file://{lake.folder}/staging"
    store = open_store(where)
    known = published_configs.publish(store, firn_case.CONFIG)
    now = _START
    for n, ids in enumerate(gone):
        now += timedelta(seconds=2)
        body = b"\n".join(_delete(id, 24_000_000_000 + 10_000 * n + place) for place, id in enumerate(ids))
        answer = accept.accept(store, known, firn_case.STREAM, body, now=now)
        assert not answer.rejected, answer
        found = epochs.candidates(store, firn_case.STREAM, now + timedelta(seconds=1), above=0)
        assert epochs.seal(store, firn_case.STREAM, found, now=now, config=known.sha, nonce=str(n))
    return where


def _delete(id: int, lsn: int) -> bytes:
    source = {"connector": "postgresql", "schema": "public", "table": "accounts", "ts_ms": 1_760_000_000_000}
    source |= {"lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}
    return json.dumps({"op": "d", "before": {"id": id}, "after": None, "source": source}).encode()


def by_spark(lake: Lake) -> Any:
    """A full scan."""
    return tuple(lake.spark.sql(f"select count(*), sum(balance), max(note) from firn.{TABLE}").collect()[0])


def by_pyiceberg(lake: Lake) -> Any:
    """A full scan of two columns."""
    catalog = SqlCatalog("firn", uri=lake.catalog_uri, warehouse=lake.warehouse)
    return catalog.load_table(TABLE).scan(selected_fields=("id", "balance")).to_arrow().num_rows


def written(lake: Lake) -> dict[str, int]:
    """What the commits have left: files of deletes ever written, and those that are read."""
    data = Path(f"{lake.warehouse.removeprefix('file://')}/{TABLE.replace('.', '/')}").rglob("*-deletes.*")
    ever = [path.stat().st_size for path in data]
    live = lake.spark.sql(
        f"""select count(*), count(distinct file_path), sum(coalesce(content_size_in_bytes, file_size_in_bytes))
        from firn.{TABLE}.delete_files"""
    ).collect()[0]
    return {
        "delete_files_written": len(ever), "delete_bytes_written": sum(ever),
        "live_deletes": live[0], "live_delete_files": live[1], "live_delete_bytes": live[2],
    }  # fmt: skip


def main() -> None:
    """Runs both formats in turns, and says what each took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("rows", 5_000_000), ("commits", 50), ("deletes", 1_000), ("files", 10), ("scans", 31)):
        arguments.add_argument(f"--{name}", type=int, default=usual)
    given = arguments.parse_args()
    if min(given.commits - _WARM, given.scans) < LEAST:
        arguments.error(f"an interval takes {_WARM + LEAST} commits and {LEAST} scans at least")
    picked = random.Random(1).sample(range(given.rows), given.commits * given.deletes)
    gone = [picked[n * given.deletes : (n + 1) * given.deletes] for n in range(given.commits)]
    session = spark.start()
    lakes = {version: loaded(session, version, given.rows, given.files) for version in FORMATS}
    places = {version: staged(lake, gone) for version, lake in lakes.items()}
    rows = given.rows - given.commits * given.deletes
    spent = {
        "commit": in_turns(
            FORMATS, lambda version, n: firn_case.commit_epochs(lakes[version], places[version], n, n), given.commits
        ),
        "spark_scan": in_turns(
            FORMATS, lambda version, _: by_spark(lakes[version]), _WARM + given.scans, lambda found: found[0] == rows
        ),
        "pyiceberg_scan": in_turns(
            FORMATS, lambda version, _: by_pyiceberg(lakes[version]), _WARM + given.scans, lambda found: found == rows
        ),
    }
    assert by_spark(lakes["2"]) == by_spark(lakes["3"])
    for place, version in enumerate(FORMATS):
        told: dict[str, Any] = {"format": version}
        told["commits_cpu_seconds"] = round(sum(pair[place] for pair in spent["commit"]), 1)
        for name, pairs in spent.items():
            told[f"{name}_cpu_median"] = round(statistics.median(pair[place] for pair in pairs[_WARM:]), 3)
        print(json.dumps(told | written(lakes[version])), flush=True)
    for name, pairs in spent.items():
        median, low, high = (round(each, 3) for each in ratio(pairs[_WARM:]))
        told = {"format_3_by_format_2": name, "pairs": len(pairs) - _WARM, "median": median, "low": low, "high": high}
        print(json.dumps(told), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
