"""What a table's metadata costs as it grows: commits, planning and care by the number of data files and of snapshots.

    python -m benchmarks.metadata [--files 1000 10000 100000] [--snapshots 10 100 1000 3000] [--commits 8]

The data files are entries of manifests alone, each with a hundred keys in its bounds; nothing reads them, since what is
committed are keys that none of them has. One JSON line for each size. `driver`: seconds of Firn's commits in the job's
own process (by slices a commit opens all files below the first and above the last of its slices, and there are none);
`plan_all`, `plan_key`, `plan_partition`: of Iceberg's planning of a scan; `lake_cold`, `lake_warm`: of firn_lake's
planning of one key, in a process that has read none or all of the manifests; `measure`: of care's look at all files;
`care`: of rewriting manifests. `--draw` makes the plots of docs/metadata.md of such lines (standard input).
"""

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyspark.sql import SparkSession

from benchmarks import firn_case, report, spark
from benchmarks.results import Plot
from benchmarks.spark import CACHE, TABLE, Lake
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA
from firn.config.maintenance import Care
from firn.config.names import TableName
from firn.config.partitions import parse
from firn.ingest import accept
from firn.log import epochs, published_configs
from firn.log.store import open_store
from firn.tables import partition_policy
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.reading.manifests import KNOWN, Planner
from firn_spark.maintenance import health, manifests
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.java import java_class

PARTITIONS = 100
_PICTURES = spark.ROOT / "docs" / "benchmarks"
_START = datetime(2026, 11, 21, tzinfo=UTC)
_KEYS = 100  # of a data file
_AT_ONCE = 1_000  # files of one commit that made the table
_CHANGES = 100  # of a commit that is timed
_CARE = "care: {compact: {on: false}, expire: {at_least: 100000, at_most: 100000}}\n"
_RULE = firn_case.CONFIG.replace("key: [id]\n", "key: [id]\n        partition_by: [branch]\n")


def made(session: SparkSession, name: str, partitioned: bool) -> tuple[Lake, Table]:
    """An empty table in a lake of its own."""
    lake = spark.emptied(session, CACHE / "runs" / name)
    columns = [
        Column("id", Type("long"), required=True), Column("name", Type("string")),
        Column("balance", Type("decimal", precision=18, scale=2)), Column("branch", Type("int")),
        Column("updated_at", Type("timestamptz")), Column("note", Type("string")),
    ]  # fmt: skip
    fields = [parse("branch")] if partitioned else []
    properties = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": firn_case.STREAM}
    properties |= {"firn.source": "public.accounts"} | (partition_policy.asked(fields) if fields else {})
    table = Tables(lake.spark).create(
        TableName.parse(TABLE), lake.warehouse, columns, MIRROR_METADATA, fields, properties
    )
    return lake, table


def filled(lake: Lake, files: int, partitioned: bool) -> None:
    """Entries of so many data files, in commits of a thousand: each has files of all partitions, as streams' have."""
    table = open_catalog(lake.catalog_uri, lake.warehouse, {}).load_table(TABLE)
    ids = [field.field_id for field in table.schema().fields]
    for first in range(0, files, _AT_ONCE):
        with table.transaction() as both, both.update_snapshot().fast_append() as update:
            for n in range(first, min(first + _AT_ONCE, files)):
                update.append_data_file(_file(f"{table.location()}/data", n, ids, partitioned))


def _file(folder: str, n: int, ids: list[int], partitioned: bool) -> DataFile:
    """What a manifest says of a file of a hundred keys, with bounds of all columns as Iceberg cuts them."""
    name = hashlib.sha256(str(n).encode()).digest()
    low, high = ((n * _KEYS + place).to_bytes(8, "little") for place in (0, _KEYS - 1))
    counts = dict.fromkeys(ids, _KEYS)
    bounds = dict.fromkeys(ids, name[:16])
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{folder}/{name.hex()[:40]}.parquet", file_format=FileFormat.PARQUET,
        partition=Record(n % PARTITIONS) if partitioned else Record(), record_count=_KEYS,
        file_size_in_bytes=130_000_000 + n, column_sizes=dict.fromkeys(ids, 10 ** 7 + n), value_counts=counts,
        null_value_counts=dict.fromkeys(ids, 0), nan_value_counts={}, split_offsets=[4, 32_000_000, 64_000_000],
        lower_bounds=bounds | {ids[0]: low}, upper_bounds=bounds | {ids[0]: high}, key_metadata=None,
        equality_ids=None, sort_order_id=None, spec_id=0,
    )  # fmt: skip


def aged(table: Table, snapshots: int) -> None:
    """Snapshots of nothing, as many as are missing."""
    table.java.refresh()
    for _ in range(snapshots - int(table.java.operations().current().snapshots().size())):
        table.java.newFastAppend().set("firn.format", "1").commit()


def staged(lake: Lake, commits: int, rule: str) -> str:
    """A staging store with so many epochs of changes, half of them new keys, half updates of old ones. -> its URL"""
    where = f"file://{lake.folder}/staging"
    store = open_store(where)
    known = published_configs.publish(store, _CARE + rule)
    now = _START
    for n in range(commits):
        now += timedelta(seconds=2)
        first = 10**9 + n * _CHANGES // 2
        ids = [*range(first, first + _CHANGES // 2), *range(first - _CHANGES // 2, first)]
        body = b"\n".join(_event(id, 24_000_000_000 + 10_000 * n + place) for place, id in enumerate(ids))
        assert not accept.accept(store, known, firn_case.STREAM, body, now=now).rejected
        found = epochs.candidates(store, firn_case.STREAM, now + timedelta(seconds=1), above=0)
        assert epochs.seal(store, firn_case.STREAM, found, now=now, config=known.sha, nonce=str(n))
    return where


def _event(id: int, lsn: int) -> bytes:
    source = {"connector": "postgresql", "schema": "public", "table": "accounts", "ts_ms": 1_760_000_000_000}
    source |= {"lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)])}
    after = {"id": id, "name": f"name-{id}", "balance": "1.00", "branch": id % 5, "note": str(lsn)}
    after |= {"updated_at": "2026-11-21T10:00:00Z"}
    return json.dumps({"op": "u", "before": None, "after": after, "source": source}).encode()


def seconds_of(what: Callable[[], Any], times: int = 3) -> float:
    """The median of some runs, in seconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        what()
        found.append(time.perf_counter() - began)
    return round(statistics.median(found), 4)


def committed(lake: Lake, staging: str, epochs: range) -> list[float]:
    """Commits of these epochs in the job's own process. -> seconds of each."""
    took = []
    for n in epochs:
        began = time.perf_counter()
        firn_case.commit_epochs(lake, staging, n, n)
        took.append(round(time.perf_counter() - began, 3))
    return took


def planned(lake: Lake, table: Table, partitioned: bool) -> dict[str, float]:
    """Seconds of planning: all files, the files of one key, and those of one partition."""
    expressions = java_class(lake.spark, "org.apache.iceberg.expressions.Expressions")
    key = expressions.equal("id", 12_345)
    filters = {"plan_all": None, "plan_key": key}
    if partitioned:
        filters["plan_partition"] = expressions.equal("branch", 7)
    iterables = java_class(lake.spark, "org.apache.iceberg.relocated.com.google.common.collect.Iterables")
    table.java.refresh()

    def plan(condition: Any) -> None:
        scan = table.java.newScan()
        iterables.size((scan if condition is None else scan.filter(condition)).planFiles())

    plan(None)
    return {name: seconds_of(partial(plan, each)) for name, each in filters.items()} | by_lake(lake)


def by_lake(lake: Lake) -> dict[str, float]:
    """Seconds in which firn_lake plans a look-up of a key."""
    table = open_catalog(lake.catalog_uri, lake.warehouse, {}).load_table(TABLE)

    def plan() -> None:
        scan = table.scan("id = 12345")
        planner = Planner(table.metadata, table.io, scan.row_filter)
        snapshot = scan.snapshot()
        assert snapshot is not None
        for _ in planner.plan_files(snapshot.manifests(table.io)):
            pass

    KNOWN._kept.clear()
    KNOWN.bytes = 0
    cold = seconds_of(plan, 1)
    return {"lake_cold": cold, "lake_warm": seconds_of(plan)}


def looked(table: Table) -> dict[str, Any]:
    """What the metadata is made of."""
    table.java.refresh()
    io, snapshot = table.java.io(), table.java.currentSnapshot()
    found = {name: list(getattr(snapshot, name)(io)) for name in ("dataManifests", "deleteManifests")}
    sizes = [int(one.length()) for one in found["dataManifests"]]
    location = str(table.java.operations().current().metadataFileLocation()).removeprefix("file:")
    return {
        "snapshots": int(table.java.operations().current().snapshots().size()),
        "data_manifests": len(sizes), "delete_manifests": len(found["deleteManifests"]), "manifest_bytes": sum(sizes),
        "metadata_bytes": Path(location).stat().st_size,
    }  # fmt: skip


def case(session: SparkSession, files: int, snapshots: int, commits: int, partitioned: bool) -> dict[str, Any]:
    """One size: what it costs before care and after it."""
    lake, table = made(session, "metadata", partitioned)
    filled(lake, files, partitioned)
    table.java.refresh()
    aged(table, snapshots)
    staging = staged(lake, commits + 3, _RULE if partitioned else firn_case.CONFIG)
    committed(lake, staging, range(1, 2))
    told: dict[str, Any] = {"files": files, "partitioned": partitioned, "before": looked(table)}
    told["driver"] = statistics.median(committed(lake, staging, range(2, 2 + commits)))
    told |= {"aged": looked(table)} | planned(lake, table, partitioned)
    tables = Tables(lake.spark)
    told["measure"] = seconds_of(lambda: health.measure(lake.spark, table, Care(), datetime.now(UTC)), 1)
    told["care"] = seconds_of(lambda: manifests.rewrite(lake.spark, tables, tables.look_again(table)), 1)
    told |= {"cared": looked(table)}
    told |= {f"cared_{name}": value for name, value in planned(lake, table, partitioned).items()}
    told["cared_driver"] = committed(lake, staging, range(commits + 2, commits + 3))[0]
    return told


def drawn(lines: Sequence[str]) -> None:
    """The plots of docs/metadata.md, of what `case` told."""
    told = [json.loads(line) for line in lines if line.startswith('{"files"')]
    most = max(one["before"]["snapshots"] for one in told)
    mine = [one for one in told if one["partitioned"]]
    names = {
        "a commit of Firn's": "driver", "Iceberg's plan, all files": "plan_all", "one partition": "plan_partition",
        "firn_lake, one key, first": "lake_cold", "and again": "lake_warm",
    }  # fmt: skip
    by_files = {
        label: [(float(one["files"]), one[name]) for one in mine if name in one] for label, name in names.items()
    }
    by_snapshots = {
        "a commit of Firn's": sorted(
            (float(one["before"]["snapshots"]), one["driver"])
            for one in told
            if one["files"] == 1_000 and not one["partitioned"]
        )
    }
    plots = [Plot("metadata-files", "Seconds by data files", "data files", "seconds", by_files, "xy")]
    if most > 200:
        plots.append(Plot("metadata-snapshots", "Seconds by snapshots", "snapshots", "seconds", by_snapshots))
    for plot in plots:
        (_PICTURES / f"{plot.name}.svg").write_text(report.svg(plot))


def main() -> None:
    """Runs the sizes, a line each; or draws."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    arguments.add_argument("--snapshots", type=int, nargs="*", default=[10, 100, 1_000, 3_000])
    arguments.add_argument("--commits", type=int, default=8)
    arguments.add_argument("--draw", action="store_true")
    given = arguments.parse_args()
    if given.draw:
        drawn(sys.stdin.readlines())
        return
    session = spark.start()
    for files in given.files:
        print(json.dumps(case(session, files, 0, given.commits, partitioned=True)), flush=True)
    for snapshots in given.snapshots:
        print(json.dumps(case(session, 1_000, snapshots, given.commits, False)), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
