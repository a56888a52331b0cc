"""The commit job with executors in processes of their own: `local-cluster`, which shares no memory with the job.

    python -m tests.integration.spark.cluster_job SLICE KILL STREAM STAGING WAREHOUSE CATALOG FIRST LAST

SLICE: changes of a slice, about, and rows of a part of a view. KILL: the folder of the warehouse in which one executor
has written a file when it is killed; `none`. Prints the job's log lines; exits with its exit code.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from firn_spark import commit, session
from firn_spark.slices import slice_engine
from firn_sql.views import fill_way
from tests.integration.spark.spark_lake import jvm_settings


def _kill_an_executor(files: Path) -> None:
    before = set(files.rglob("*.parquet"))
    while not set(files.rglob("*.parquet")) - before:
        time.sleep(0.01)
    executors = [one for one in Path("/proc").glob("[0-9]*") if _is_executor(one)]
    os.kill(int(executors[0].name), signal.SIGKILL)
    print(f"killed one of {len(executors)} executors", flush=True)


def _is_executor(process: Path) -> bool:
    try:
        said = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in said and _is_mine(process)


def _is_mine(process: Path) -> bool:
    """Whether this process, or one that it started, started it."""
    number = int(process.name)
    while number > 1 and number != os.getpid():
        status = Path(f"/proc/{number}/stat").read_text()
        number = int(status.rpartition(")")[2].split()[1])
    return number == os.getpid()


def main() -> int:
    """Runs the job."""
    size, kill, stream, staging, warehouse, catalog, first, last = sys.argv[1:]
    slice_engine.EVENTS = int(size)  # type: ignore[misc]
    fill_way.LEAST, fill_way.ROWS = 0, int(size)  # type: ignore[misc]
    if kill != "none":
        files = Path(warehouse.removeprefix("file://")) / kill
        threading.Thread(target=_kill_an_executor, args=(files,), daemon=True).start()
    conf = {"spark.master": "local-cluster[3,1,1024]", "spark.executor.memory": "512m"}
    conf |= jvm_settings("driver") | jvm_settings("executor")
    running = session.build(catalog, warehouse, conf)
    try:
        return commit.run(stream, staging, warehouse, catalog, int(first), int(last), spark=running)
    finally:
        running.stop()


if __name__ == "__main__":
    sys.exit(main())
