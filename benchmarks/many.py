"""Many tables in one job, in a process of its own. One JSON line.

    python -m benchmarks.many prepare|firn|merge-on-read --events FOLDER --tables N [--run N]

`prepare` commits the first file, which makes the tables; the others commit the second. `seconds` are those of the whole
job, Spark's start included; `snapshots` is the number of snapshots that it added.
"""

import argparse
import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import firn_case, merge_case, spark
from benchmarks.spark import CACHE, Lake
from firn_local.spark_submit import SparkSubmit, java_options

CONFIG = firn_case.CONFIG.replace("public.accounts:", "public.accounts_*:").replace("bank.accounts", "'bank.{table}'")


def stage(events: Path) -> Path:
    """Each file as one epoch."""

    def bodies() -> Iterator[Iterator[bytes]]:
        for file in sorted(events.glob("*.ndjson")):
            yield iter(file.open("rb"))

    return firn_case.stage(events.name, bodies(), CONFIG)


def prepare(given: argparse.Namespace, staged: Path) -> None:
    """The base lake of `firn`, with its staging store, and that of MERGE."""
    session = spark.start()

    def firn(lake: Lake) -> None:
        firn_case.commit_epochs(lake, firn_case.link_staging(staged, lake), 1, 1)

    def plain(lake: Lake) -> None:
        merge_case.make_tables(lake, names(given.tables), given.events / "part-00000.ndjson")

    spark.base_lake(session, base_name("firn", given.events), firn)
    spark.base_lake(session, base_name("merge-on-read", given.events), plain)
    session.stop()


def base_name(who: str, events: Path) -> str:
    """Of the base lake for these events."""
    return f"{'firn' if who == 'firn' else 'plain'}-{events.name}"


def names(tables: int) -> list[str]:
    """Of all tables."""
    return [f"accounts_{t}" for t in range(tables)]


def snapshots(lake: Lake, tables: int) -> int:
    """How many there are in all tables together: their metadata tells."""
    with closing(sqlite3.connect(lake.folder / "catalog.db")) as db:
        found = dict(db.execute("select table_name, metadata_location from iceberg_tables"))
    metadata = (Path(found[name].removeprefix("file:")) for name in names(tables))
    return sum(len(json.loads(path.read_text())["snapshots"]) for path in metadata)


def main() -> None:
    """Prepares, or runs one job."""
    print(json.dumps({"begin": 0}), flush=True)
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=("prepare", "firn", "merge-on-read"))
    arguments.add_argument("--events", type=Path, required=True)
    arguments.add_argument("--tables", type=int, required=True)
    arguments.add_argument("--run", type=int, default=0)
    given = arguments.parse_args()
    given.events = given.events.absolute()
    staged = stage(given.events)
    if given.who == "prepare":
        prepare(given, staged)
        return
    began = time.perf_counter()
    session = spark.start(SparkSubmit().memory, {"spark.driver.extraJavaOptions": java_options()})
    base = CACHE / "tables" / base_name(given.who, given.events)
    spark.tidy(base)
    lake = spark.restored(session, base, CACHE / "runs" / f"many-{given.who}-{given.run}")
    before, told = snapshots(lake, given.tables), {}
    if given.who == "firn":
        shutil.copytree(base / "staging", lake.folder / "staging")
        told = firn_case.told(firn_case.commit_epochs(lake, f"file://{lake.folder}/staging", 2, 2))
    else:
        merge_case.merge_tables(lake, names(given.tables), given.events / "part-00001.ndjson")
    told |= {"seconds": time.perf_counter() - began, "snapshots": snapshots(lake, given.tables) - before}
    where = {"kind": "iceberg", "catalog": lake.catalog_uri, "names": [f"bank.{name}" for name in names(given.tables)]}
    print(json.dumps(told | {"table": where}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
