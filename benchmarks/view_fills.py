"""What it costs to make all of a view: in one process, and in parts by Spark's tasks. JSON lines.

    python -m benchmarks.view_fills [--rows 10000000] [--case groups|join|dense …] [--runs 1]

The tables and queries of `benchmarks.views`; `dense` has groups of ten values. Each view is made in both ways in turn:
CPU seconds of all processes until they rest, seconds, and the most resident memory of the job's process (`job`), of the
JVM and of all workers together, in MB.
"""

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks import spark
from benchmarks.views import GROUPS, JOIN, Shop, load, measured, tell, view_of
from firn_sql.views import fill_way

CASES: Final = {
    "groups": GROUPS,
    "join": JOIN,
    "dense": "SELECT k % 10 AS k, count(*) AS size, sum(amount) AS total FROM shop.orders GROUP BY 1",
}
WAYS: Final = {"one process": 10**12, "parts": 0}


class Memory:
    """The most resident memory of this process and of what it started, in MB, while it is looked at."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self._done = threading.Event()

    def look(self) -> None:
        """Until it is done."""
        while not self._done.wait(0.1):
            found: dict[str, int] = {}
            for kind, size in self._sizes():
                found[kind] = found.get(kind, 0) + size
            for kind, size in found.items():
                self.most[kind] = max(self.most.get(kind, 0), size)

    def _sizes(self) -> Iterator[tuple[str, int]]:
        parents: dict[int, tuple[int, str, int]] = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                told = (place / "stat").read_text()
            except OSError:  # it has ended
                continue
            rest = told.rpartition(")")[2].split()
            name = told.partition("(")[2].rpartition(")")[0]
            parents[int(place.name)] = int(rest[1]), name, int(rest[21]) * os.sysconf("SC_PAGE_SIZE") >> 20
        mine = {os.getpid()}
        while more := {pid for pid, (parent, _, _) in parents.items() if parent in mine} - mine:
            mine |= more
        for pid in mine:
            _, name, size = parents[pid]
            yield "job" if pid == os.getpid() else "jvm" if name == "java" else "workers", size

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """While it is."""
        looking = threading.Thread(target=self.look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            self._done.set()
            looking.join()


def main() -> None:
    """Runs the cases."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--case", action="append", choices=CASES)
    arguments.add_argument("--runs", type=int, default=1)
    given = arguments.parse_args()
    session = spark.start()
    base = spark.base_lake(session, f"views-{given.rows}", lambda lake: load(lake, given.rows))
    rows: dict[str, int] = {}
    for way, least in WAYS.items():  # workers that end take their CPU seconds with them: one process comes first
        fill_way.LEAST = least  # type: ignore[misc]
        for case, run in product(given.case or CASES, range(given.runs)):
            shop = Shop(spark.restored(session, base, spark.CACHE / "runs" / "view-fills"), given.rows, {})
            memory, view, at = Memory(), view_of(case, CASES[case]), shop.cut()
            with memory.looked_at():
                told = measured("fill", partial(shop.refresh, view, at))
            tell(case, way=way, run=run, mb=memory.most, **told)
            assert rows.setdefault(case, told["rows"]) == told["rows"], rows
    session.stop()


if __name__ == "__main__":
    main()
