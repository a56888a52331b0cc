"""A case in a warm session: the same commit again and again, each on the table as it was. One JSON line a run.

    python -m benchmarks.warm firn|merge-on-read|copy-on-write --base FOLDER --rows N --events FOLDER [--runs 3]
"""

import argparse
import cProfile
import json
import time
from pathlib import Path

from benchmarks import firn_case, merge_case, spark


def main() -> None:
    """Warms up with one run, which is told of and not counted."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=("firn", "merge-on-read", "copy-on-write"))
    arguments.add_argument("--base", type=Path, required=True, help="folder of the base table's Parquet files")
    arguments.add_argument("--rows", type=int, required=True)
    arguments.add_argument("--events", type=Path, required=True, help="folder of NDJSON files")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--profile", type=Path, help="write the last run's cProfile there")
    arguments.add_argument("--spark-events", type=Path, help="write Spark's event log there")
    given = arguments.parse_args()
    conf = {}
    if given.spark_events:
        given.spark_events.mkdir(parents=True, exist_ok=True)
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{given.spark_events.absolute()}"}
        conf |= {"spark.eventLog.compress": "false"}
    session = spark.start(conf=conf)
    files = sorted(given.events.glob("*.ndjson"))
    if given.who == "firn":
        staged = firn_case.stage_files(given.events)
        base = firn_case.base(session, given.rows, given.base)
    else:
        base = merge_case.base(session, given.rows, given.base)
    for run in range(-1, given.runs):
        lake = spark.restored(session, base, spark.CACHE / "runs" / f"{given.who}-{run}")
        staging = ""
        if given.who == "firn":
            staging = firn_case.link_staging(staged, lake)
        else:
            merge_case.set_mode(lake, given.who)
        profile = cProfile.Profile() if given.profile and run == given.runs - 1 else None
        print(json.dumps({"begin": run}), flush=True)
        began = time.perf_counter()
        if profile:
            profile.enable()
        told = {}
        if given.who == "firn":
            lines = firn_case.commit_epochs(lake, staging, 1, 1)
            told = {"table_seconds": firn_case.table_seconds(lines), "lines": lines}
        else:
            merge_case.merge(lake, files)
        seconds = time.perf_counter() - began
        if profile:
            profile.disable()
            profile.dump_stats(given.profile)
        print(json.dumps({"run": run, "seconds": seconds, "table": lake.table} | told), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
