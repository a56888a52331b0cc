"""Several tables at once in one process."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from pyspark.sql import SparkSession

from firn.tables.outcome import Outcome
from firn.tables.routing import Target

_MOST = 8  # tables


def at_once(
    commit: Callable[[Target, int], Outcome], targets: Sequence[tuple[Target, int]], spark: SparkSession
) -> Iterator[Outcome]:
    """`commit` of each target and its `above`, in any order: the job waits as often for the catalog as it computes."""
    cores = spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(max(2, min(cores, _MOST))) as pool:
        begun = [pool.submit(commit, target, above) for target, above in targets]
        try:
            for done in as_completed(begun):
                yield done.result()
        finally:
            for one in begun:
                one.cancel()
