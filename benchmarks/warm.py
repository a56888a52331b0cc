"""A case in a warm session: the same commit again and again, each on the table as it was. One JSON line a run.

    python -m benchmarks.warm WHO --base FOLDER --rows N --events FOLDER [--runs 3] [--epochs 1]

With `--epochs` a run commits the events in so many parts, one snapshot each, and tells the seconds of each.
"""

import argparse
import cProfile
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from benchmarks import firn_case, merge_case, spark
from benchmarks.spark import Lake

Part = Callable[[int], dict[str, Any]]  # the part's number, from 1 -> what it says about itself


class Contestant(Protocol):
    """Who commits: prepared when it is made."""

    base: Path | None  # its base lake; None if it writes no table

    def __init__(self, session: SparkSession, given: argparse.Namespace) -> None: ...

    def ready(self, lake: Lake) -> Part:
        """What a run needs, untimed. -> what is timed."""


class Firn:
    """The commit job on sealed epochs."""

    def __init__(self, session: SparkSession, given: argparse.Namespace) -> None:
        self._staged = firn_case.stage_files(given.events, given.epochs, partition=given.partition)
        self.base: Path | None = firn_case.base(session, given.rows, given.base, partition=given.partition)

    def ready(self, lake: Lake) -> Part:
        """Gives the lake a staging store of its own."""
        staging = firn_case.link_staging(self._staged, lake)
        return lambda n: firn_case.told(firn_case.commit_epochs(lake, staging, n, n))


class Fold:
    """Only reads and folds what Firn reads."""

    def __init__(self, _: SparkSession, given: argparse.Namespace) -> None:
        self._staged = firn_case.stage_files(given.events, given.epochs)
        self.base: Path | None = None

    def ready(self, lake: Lake) -> Part:
        """The staged events as they are."""

        def part(_: int) -> dict[str, Any]:
            firn_case.fold_alone(lake, f"file://{self._staged}")
            return {}

        return part


class Merge:
    """MERGE by hand."""

    def __init__(self, session: SparkSession, given: argparse.Namespace) -> None:
        self._mode = given.who
        self._files = merge_case.split(given.events, given.epochs)
        self.base: Path | None = merge_case.base(session, given.rows, given.base)

    def ready(self, lake: Lake) -> Part:
        """Sets how MERGE writes."""
        merge_case.set_mode(lake, self._mode)

        def part(n: int) -> dict[str, Any]:
            merge_case.merge(lake, self._files[n - 1])
            return {}

        return part


WHO: dict[str, type[Contestant]] = {"firn": Firn, "fold": Fold, "merge-on-read": Merge, "copy-on-write": Merge}


def main() -> None:
    """Warms up with one run, which is not told of."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=WHO)
    arguments.add_argument("--base", type=Path, required=True, help="folder of the base table's Parquet files")
    arguments.add_argument("--rows", type=int, required=True)
    arguments.add_argument("--events", type=Path, required=True, help="folder of NDJSON files")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--partition", default="", help="what Firn's table is partitioned by, as in firn.yaml")
    arguments.add_argument("--profile", type=Path, help="write the driver's cProfile of the last run there")
    arguments.add_argument("--spark-log", type=Path, help="write Spark's event log into that folder")
    given = arguments.parse_args()
    given.base, given.events = given.base.absolute(), given.events.absolute()
    session = spark.start(conf=spark.event_log(given.spark_log) if given.spark_log else None)
    who = WHO[given.who](session, given)
    # Parts of a run warm each other up.
    for run in range(-1 if given.epochs == 1 else 0, given.runs):
        folder = spark.CACHE / "runs" / f"{given.who}-{run}"
        lake = spark.restored(session, who.base, folder) if who.base else spark.emptied(session, folder)
        part = who.ready(lake)
        profile = cProfile.Profile() if given.profile and run == given.runs - 1 else None
        if profile:
            profile.enable()
        print(json.dumps({"begin": run}), flush=True)
        began, parts = time.perf_counter(), []
        for n in range(1, given.epochs + 1):
            started = time.perf_counter()
            told = part(n)
            parts.append(time.perf_counter() - started)
        told |= {"seconds": time.perf_counter() - began, "warm": run >= 0}
        told |= {"parts": parts} if given.epochs > 1 else {}
        told |= {"table": lake.table} if who.base else {}
        if profile:
            profile.disable()
            profile.dump_stats(given.profile)
        print(json.dumps(told), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
