"""The commit job on Spark: the thin shell around firn.commit.job."""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from firn.commit import job
from firn.commit import warm_job as linger
from firn.commit.job import Log
from firn.commit.progress_tracker import ProgressTracker
from firn.commit.warm_job import Clock
from firn.errors import FirnError
from firn.log import pause
from firn.log.published_configs import CurrentConfig
from firn.log.store import open_store
from firn.runs.job_runs import run_name
from firn.tables.failures import failure
from firn_spark.lake import SparkLake


def print_line(line: dict[str, Any]) -> None:
    """One JSON object as one line on standard output."""
    print(json.dumps(line, ensure_ascii=False), flush=True)
    sys.stdout.flush()


def run(
    stream: str,
    staging: str,
    warehouse: str,
    catalog_uri: str,
    first: int,
    last: int,
    *,
    attempt: int = 1,
    lingering: bool = False,
    spark: SparkSession | None = None,
    log: Log = print_line,
) -> int:
    """Commits epochs `first` to `last` (both included) of `stream`, as firn.commit.job.run says, or as
    firn.commit.warm_job.run does. -> the exit code."""
    try:
        store = open_store(staging)
    except FirnError as error:
        log({"stream": stream, "first": first, "last": last, "status": "failed", "error": failure(error).text})
        return 1
    clock = Clock(lambda: datetime.now(UTC))
    progress = ProgressTracker(store, run_name(stream, first, last, attempt), clock.now)
    lake = SparkLake(store, staging, warehouse, catalog_uri, spark, progress=progress)
    if not lingering:
        return job.run(store, lake, stream, first, last, attempt=attempt, log=log, now=clock.now)
    config, paused = CurrentConfig(store), pause.Watch(store)
    return linger.run(store, lake, config, paused, stream, first, last, attempt=attempt, log=log, clock=clock)
