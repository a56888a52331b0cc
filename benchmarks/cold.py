"""A case in a process of its own: Spark's start, one trivial Iceberg write, then the commit. One JSON line.

    python -m benchmarks.cold prepare|firn --base FOLDER --rows N --events FOLDER [--run N]

`seconds` are those of the commit; CPU and memory are measured from the start of the process. The JVM has the memory and
the options that the embedded stack gives a job.
"""

import argparse
import json
import time
from pathlib import Path


def main() -> None:
    """`prepare` makes the base table and stages the events, so that the other runs find both."""
    # Here, as in the job's entry point: processes that the job starts import its main module first.
    from benchmarks import firn_case, spark
    from firn.changes.merge.ordering import Order
    from firn_local.spark_submit import SparkSubmit, java_options
    from firn_spark.driver import reader_pool

    print(json.dumps({"begin": 0}), flush=True)
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("who", choices=("prepare", "firn"))
    arguments.add_argument("--base", type=Path, required=True)
    arguments.add_argument("--rows", type=int, required=True)
    arguments.add_argument("--events", type=Path, required=True)
    arguments.add_argument("--run", type=int, default=0)
    given = arguments.parse_args()
    staged = firn_case.stage_files(given.events.absolute(), 1)
    if given.who == "prepare":
        firn_case.base(spark.start(), given.rows, given.base.absolute())
        return
    began = time.perf_counter()
    # A job that knows of a large range has its readers begin before it starts Spark (SparkLake.expect). Here they only
    # start: what they read is read in the time that is measured.
    nothing = reader_pool.readers().begin("memory://nothing", (), Order())
    session = spark.start(SparkSubmit().memory, {"spark.driver.extraJavaOptions": java_options()})
    started = time.perf_counter()
    runs = spark.CACHE / "runs"
    trivial = spark.emptied(session, runs / "trivial")
    trivial.spark.sql("create namespace firn.bank")
    trivial.spark.sql("create table firn.bank.one (n int) using iceberg")
    trivial.spark.sql("insert into firn.bank.one values (1)")
    written = time.perf_counter()
    base = firn_case.base(session, given.rows, given.base.absolute())
    lake = spark.restored(session, base, runs / f"cold-{given.run}")
    staging = firn_case.link_staging(staged, lake)
    nothing.held().close()
    ready = time.perf_counter()
    told = firn_case.told(firn_case.commit_epochs(lake, staging, 1, 1))
    told |= {"seconds": time.perf_counter() - ready, "start": started - began, "first_write": written - started}
    print(json.dumps(told | {"table": lake.table}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
