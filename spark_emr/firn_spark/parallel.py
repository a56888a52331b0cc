"""Several tables, or several parts of one, at once in one process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from threading import Semaphore
from typing import TypeVar

from pyspark.sql import SparkSession

from firn.tables.outcome import Outcome
from firn.tables.routing import FEW, Target

_MOST = 8  # tables
_One = TypeVar("_One")
_Made = TypeVar("_Made")


def at_once(
    commit: Callable[[Target, int], Outcome], targets: Sequence[tuple[Target, int]], spark: SparkSession
) -> Iterator[Outcome]:
    """`commit` of each target and its `above`, in any order: the job waits for catalog and storage as often as it
    computes, and of small tables much longer. Of large ones no more than there are cores, for memory's sake."""
    cores = Semaphore(max(2, min(spark.sparkContext.defaultParallelism, _MOST)))

    def committed(target: Target, above: int) -> Outcome:
        small = not target.feeds and target.events(above) <= FEW  # what pipelines make of few changes may be much
        with nullcontext() if small else cores:
            return commit(target, above)

    with ThreadPoolExecutor(_MOST) as pool:
        begun = [pool.submit(committed, target, above) for target, above in targets]
        try:
            for done in as_completed(begun):
                yield done.result()
        finally:
            for one in begun:
                one.cancel()


def each_of(make: Callable[[_One], _Made], of: Iterable[_One], most: int) -> list[_Made]:
    """What `make` gives for each, in order, `most` at once. One alone has no thread of its own: each that asks the JVM
    has a connection there, and a thread to answer it."""
    every = list(of)
    if len(every) < 2:
        return [make(one) for one in every]
    with ThreadPoolExecutor(most) as pool:
        return list(pool.map(make, every))
