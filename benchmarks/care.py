"""Many small commits, with care and without: what a commit and a scan cost as the table ages. One JSON line.

    python -m benchmarks.care care|none --base FOLDER --rows N --events FOLDER --epochs 500

`care` is what a deployment does: the commit job merges small files and lets snapshots go between its commits, and every
hundredth commit stands for a round of the schedules, which starts the care job where something is due. `none` does
nothing of it. `parts`: seconds of each commit; `looks`: each fiftieth commit the seconds of a full scan and what the
table is made of; `fresh`: seconds to scan the same rows in a table that was written at once; `cared`: seconds of all
rounds of the schedules.
"""

import argparse
import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import firn_case, spark
from benchmarks.spark import TABLE, Lake
from firn.commit import job as job
from firn.config.names import TableName
from firn.log import published_configs
from firn.log.store import open_store
from firn.maintenance import launcher, schedule
from firn.tables.table_state import TableState

LOOK_EVERY, ROUND_EVERY = 50, 100
SCANS = 5
# So that expiry has something to do within five hundred commits.
CARE = "care: {expire: {at_least: 50, at_most: 100}}\n"
_PARTS = ("total-data-files", "total-delete-files", "total-position-deletes", "total-files-size")


def main() -> None:
    """One run."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=("care", "none"))
    arguments.add_argument("--base", type=Path, required=True)
    arguments.add_argument("--rows", type=int, required=True)
    arguments.add_argument("--events", type=Path, required=True)
    arguments.add_argument("--epochs", type=int, required=True)
    given = arguments.parse_args()
    given.base, given.events = given.base.absolute(), given.events.absolute()
    session = spark.start()
    staged = firn_case.stage_files(given.events, given.epochs, CARE if given.who == "care" else "")
    # Expiry and old metadata take files of the base table away: each run has one of its own.
    name = f"care-{given.who}"
    shutil.rmtree(spark.CACHE / "tables" / name, ignore_errors=True)
    base = firn_case.base(session, given.rows, given.base, name)
    lake = spark.restored(session, base, spark.CACHE / "runs" / name)
    staging = firn_case.link_staging(staged, lake)
    if given.who == "none":
        job.is_due = _never  # type: ignore[attr-defined]
    print(json.dumps({"begin": 0}), flush=True)
    began, cared = time.perf_counter(), 0.0
    parts: list[float] = []
    looks: list[dict[str, Any]] = [look(lake, 0)]
    for n in range(1, given.epochs + 1):
        started = time.perf_counter()
        firn_case.commit_epochs(lake, staging, n, n)
        parts.append(time.perf_counter() - started)
        if given.who == "care" and n % ROUND_EVERY == 0:
            started = time.perf_counter()
            a_round(lake, staging)
            cared += time.perf_counter() - started
        if n % LOOK_EVERY == 0:
            looks.append(look(lake, n))
    told = {"seconds": time.perf_counter() - began, "parts": parts, "looks": looks, "cared": cared}
    lake.spark.sql(f"CREATE TABLE firn.bank.fresh USING iceberg AS SELECT * FROM firn.{TABLE} ORDER BY id")
    told |= {"fresh": scan(lake, "bank.fresh"), "worn": scan(lake, TABLE)}
    print(json.dumps(told | {"table": lake.table}), flush=True)
    session.stop()


def _never(table: TableName, state: TableState | None) -> bool:
    """In the place of firn.maintenance.compaction_trigger.is_due."""
    return table is None and state is None


def a_round(lake: Lake, staging: str) -> None:
    """What the functions compact and expire do when their schedules come round."""
    from firn_spark import maintenance_job as care

    store = open_store(staging)
    config = published_configs.load(store, published_configs.current_sha(store))
    found = launcher.what_is_due(store, config, schedule.KINDS, datetime.now(UTC))
    for table, kinds in found.items():
        request = care.Request("round", tuple(kinds), (TableName.parse(table),))
        lines: list[dict[str, Any]] = []
        code = care.run(request, staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=lines.append)
        assert code == 0, lines
        print(lines, flush=True)


def look(lake: Lake, commits: int) -> dict[str, Any]:
    """The table after so many commits."""
    [row] = lake.spark.sql(
        f"SELECT summary, (SELECT count(*) FROM firn.{TABLE}.snapshots) AS n "
        f"FROM firn.{TABLE}.snapshots ORDER BY committed_at DESC LIMIT 1"
    ).collect()
    [latest] = lake.spark.sql(
        f"SELECT file FROM firn.{TABLE}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    ).collect()
    summary = row["summary"]
    sizes = {name: int(summary.get(name, 0)) for name in _PARTS}
    bytes_ = Path(latest["file"].removeprefix("file:")).stat().st_size
    return {"commits": commits, "scan": scan(lake, TABLE), "snapshots": row["n"], "metadata": bytes_} | sizes


def scan(lake: Lake, table: str) -> float:
    """Seconds to read all of a table's rows and columns: the median of some."""
    found = []
    for _ in range(SCANS):
        started = time.perf_counter()
        lake.spark.table(f"firn.{table}").write.format("noop").mode("overwrite").save()
        found.append(time.perf_counter() - started)
    return median(found)


if __name__ == "__main__":
    main()
