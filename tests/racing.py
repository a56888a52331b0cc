"""Threads that do something at one moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What work(n) gives in `count` threads that start at one moment; the first error of one is raised."""
    start = threading.Barrier(count)

    def run(n: int) -> Any:
        start.wait()
        return work(n)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
