"""The job's tasks in processes of their own, as on a cluster: nothing that they need is in the job's memory."""

import json
import os
import random
import subprocess
import sys
import zipimport
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import fold
from firn.log import published_configs
from firn_spark.arrow import map_in_arrow
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.integration.spark.test_commit import config
from tests.integration.spark.test_mixed_ranges import COLUMNS, crossing, mostly_plain
from tests.integration.spark.test_specification import change
from tests.integration.spark.test_view_queries import Source, check
from tests.integration.spark.test_view_queries import config as views
from tests.soak import LONG, long_only

pytestmark = pytest.mark.spark


def by_executors(lake: Lake, n: int, *, kill: str = "none", size: int = 100) -> list[dict[str, Any]]:
    """Commits an epoch by a job whose executors are processes (cluster_job). -> its log lines."""
    told = [str(size), kill, lake.stream, lake.staging, lake.warehouse, lake.catalog_uri, str(n), str(n)]
    command = [sys.executable, "-m", "tests.integration.spark.cluster_job", *told]
    environment = os.environ | {"FIRN_DRIVER_EVENTS": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    assert ("killed one of" in done.stdout) is (kill != "none")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@long_only
def test_slices_are_committed_once_whatever_becomes_of_an_executor(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(7)
    delivered = crossing(dice, mostly_plain(dice, 800, 250, "t"), 100)
    lake = Lake(spark, tmp_path, config(f"key: [id], {COLUMNS}"))
    half = len(delivered) // 2
    for part, kill in ((delivered[:half], False), (delivered[half:], True)) if LONG else ((delivered, True),):
        lake.post(part, at_once=50)
        lines = by_executors(lake, lake.seal(), kill="." if kill else "none")
        said = next(line for line in lines if line.get("table") == "lake.t")
        assert said["way"]["lookup"] == "slices"
        assert said["way"]["slices"] > 2
    expected = {key[0]: dict(row.values) for key, row in fold({}, map(change, delivered)).rows.items()}
    found = {row["id"]: {name: row[name] for name in ("id", "of", "v", "w", "n")} for row in lake.rows("lake.t")}
    assert found == expected
    assert sum(int(one["firn.events"]) for one in lake.snapshots("lake.t")) == len(delivered), "once"


@long_only
def test_a_view_is_made_once_whatever_becomes_of_an_executor(spark: SparkSession, tmp_path: Path) -> None:
    some = ["SELECT a, max(x) AS m, count(*) AS n FROM t GROUP BY a", "SELECT t.id, c FROM t JOIN u USING (a)"]
    lake, source = Lake(spark, tmp_path, views([])), Source(random.Random(5))
    lake.land(source.changes(60))
    lake.config = published_configs.publish(lake.store, views(some))
    lake.post(source.changes(1))
    lines = by_executors(lake, lake.seal(), kill="views", size=3)
    assert [line["way"]["parts"] > 3 for line in lines if line.get("mode") == "view"] == [True, True], lines
    check(lake, source, some)
    lake.land(source.changes(5))
    check(lake, source, some)


def test_no_task_reads_the_archives_of_its_worker_again(spark: SparkSession) -> None:
    schema = pa.schema([("how", pa.string())])

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"how": [zipimport.zipimporter.invalidate_caches.__qualname__]}, schema)

    told = {row["how"] for row in map_in_arrow(spark.range(0, 4, 1, 4), look, schema).collect()}
    assert told == {"_stays" if sys.version_info < (3, 13) else "zipimporter.invalidate_caches"}
