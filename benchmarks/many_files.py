"""Commits that touch ten data files of a table of very many, in both of Iceberg's formats and both homes of the engine.

    python -m benchmarks.many_files [--files 10000 100000] [--commits 8] [--spec "bucket(16, id)"] [--home slices]
        [--beside]

The table is sorted by its key, and the ten are spread over it (`--beside`: they are its first). All other data files,
and their deletion vectors of format 3, are metadata alone: no commit reads them, as none of its keys is between their
bounds. One JSON line for each table: CPU seconds of a commit (all processes), each, sorted.
"""

import argparse
import copy
import json
import os
import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks import firn_case, spark
from benchmarks.format_3 import staged
from benchmarks.pairs import timed
from benchmarks.spark import CACHE, TABLE, Lake
from firn.changes.decode.types import Column, Type
from firn.changes.metadata_columns import MIRROR_METADATA, POSITION, TIME
from firn.changes.positions import WIDTH
from firn.config.names import TableName
from firn.config.partitions import parse
from firn.tables import partition_policy
from firn_spark.tables.evolve import FORMAT_VERSION, Table, Tables
from firn_spark.tables.java import elements, java_class

_TOUCHED: Final = 10  # data files
_ROWS: Final = 20_000  # of each data file
_EVENTS: Final = 1_000  # of each commit
_WARM: Final = 2  # commits that are not counted


def made(session: SparkSession, version: str, files: int, spec: str, step: int) -> Lake:
    """A lake with the table, of so many data files, of which each `step`-th is one."""
    lake = spark.emptied(session, CACHE / "runs" / f"many-files-{version}-{files}")
    columns = [Column("id", Type("long"), required=True), Column("name", Type("string")), Column("n", Type("int"))]
    properties = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": firn_case.STREAM}
    properties |= {"firn.source": "public.accounts", FORMAT_VERSION: version}
    fields = [parse(spec)] if spec else []
    properties |= partition_policy.asked(fields) if fields else {}
    tables = Tables(lake.spark)
    table = tables.create(TableName.parse(TABLE), lake.warehouse, columns, MIRROR_METADATA, fields, properties)
    position = bytes(WIDTH - 5) + (23_000_000_000).to_bytes(5) + b"\2" + bytes(8)
    rows = lake.spark.range(0, _TOUCHED * _ROWS, 1, _TOUCHED).select(
        (f.col("id") + f.floor(f.col("id") / _ROWS) * (step - 1) * _ROWS).alias("id"),
        f.concat(f.lit("name-"), f.col("id") % 1000).alias("name"),
        (f.col("id") % 100).cast("int").alias("n"),
        f.lit(position).alias(POSITION),
        f.lit(firn_case.LOADED).alias(TIME),
    )
    rows.writeTo(f"firn.{TABLE}").append()
    others = [n for n in range(files) if n % step or n >= step * _TOUCHED]
    _fill(lake.spark, tables.look_again(table), others, vectors=version == "3")
    return lake


def _fill(session: SparkSession, table: Table, others: Sequence[int], *, vectors: bool) -> None:
    """Data files of these numbers that are metadata alone; with a deletion vector each."""
    parser, specs = java_class(session, "org.apache.iceberg.ContentFileParser"), table.java.specs()
    mapper = java_class(session, "org.apache.iceberg.util.JsonUtil").mapper()
    there = [task.file() for task in elements(table.java.newScan().includeColumnStats().planFiles())]
    like = json.loads(parser.toJson(there[0], table.java.spec()))
    number = next(int(one["id"]) for one in table.state.fields if one["name"] == "id")
    place = like["lower-bounds"]["keys"].index(number)
    added, deletes = table.java.newAppend(), table.java.newRowDelta()
    for n in others:
        file = _file(like, place, n)
        added.appendFile(parser.fromJson(mapper.readTree(json.dumps(file)), specs))
        if vectors:
            deletes.addDeletes(parser.fromJson(mapper.readTree(json.dumps(_vector(file, n))), specs))
    added.commit()
    if vectors:
        deletes.validateFromSnapshot(int(table.java.currentSnapshot().snapshotId())).commit()


def _file(like: dict[str, Any], place: int, n: int) -> dict[str, Any]:
    """A data file of keys that no commit touches."""
    file = copy.deepcopy(like)
    file["file-path"] = file["file-path"].replace(".parquet", f"-{n}.parquet")
    for name, key in (("lower-bounds", n * _ROWS), ("upper-bounds", (n + 1) * _ROWS - 1)):
        file[name]["values"][place] = key.to_bytes(8, "little").hex().upper()
    if values := file.get("partition"):
        for each in list(values) if isinstance(values, dict) else range(len(values)):
            values[each] = n % 16
    return file


def _vector(file: dict[str, Any], n: int) -> dict[str, Any]:
    bound = {"keys": [2147483546], "values": [file["file-path"].encode().hex().upper()]}
    folder = file["file-path"].rpartition("/")[0]
    return {
        "content": "position-deletes", "file-path": f"{folder}/{n // 1000}-deletes.puffin",
        "file-format": "puffin", "spec-id": file["spec-id"], "partition": file.get("partition", {}),
        "file-size-in-bytes": 50_000, "record-count": 10, "lower-bounds": bound, "upper-bounds": bound,
        "referenced-data-file": file["file-path"], "content-offset": 4 + 48 * (n % 1000), "content-size-in-bytes": 48,
    }  # fmt: skip


def _gone(commits: int, step: int) -> Iterator[list[int]]:
    """The keys that each commit deletes, of all of the ten files."""
    picked = random.Random(1).sample(range(_TOUCHED * _ROWS), commits * _EVENTS)
    for n in range(commits):
        some = picked[n * _EVENTS : (n + 1) * _EVENTS]
        yield [one + one // _ROWS * (step - 1) * _ROWS for one in some]


def main() -> None:
    """Commits to each table in turns, and says what each took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000])
    arguments.add_argument("--formats", nargs="+", default=["2", "3"])
    arguments.add_argument("--commits", type=int, default=8)
    arguments.add_argument("--spec", default="")
    arguments.add_argument("--home", default="driver")
    arguments.add_argument("--beside", action="store_true")
    given = arguments.parse_args()
    os.environ["FIRN_DRIVER_EVENTS"] = "0" if given.home == "slices" else "20000"
    session, commits = spark.start(), _WARM + given.commits
    cases = [(version, files) for files in given.files for version in given.formats]
    steps = {files: 1 if given.beside else files // _TOUCHED for files in given.files}
    lakes = {case: made(session, *case, given.spec, steps[case[1]]) for case in cases}
    places = {case: staged(lake, list(_gone(commits, steps[case[1]]))) for case, lake in lakes.items()}
    spent: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for n in range(1, commits + 1):
        for case in cases if n % 2 else cases[::-1]:
            seconds, _ = timed(partial(firn_case.commit_epochs, lakes[case], places[case], n, n))
            if n > _WARM:
                spent[case].append(round(seconds, 2))
    for (version, files), each in spent.items():
        told = {"format": version, "files": files, "spec": given.spec, "home": given.home, "beside": given.beside}
        print(json.dumps(told | {"commit_cpu_seconds": sorted(each)}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
