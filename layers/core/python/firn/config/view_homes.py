"""Which stream's jobs refresh a view. Pure."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def joined(homes: Mapping[T, int], reads: Mapping[T, Iterable[T]]) -> dict[T, int]:
    """The homes of views, such that those that read each other, in any number of steps, have one: a job refreshes them
    all at the same cuts, each after those that it reads. It is the first that any of them has.

    homes  of each view the number of the first stream that feeds it
    reads  of each view what it reads, tables and views
    """
    group = {view: view for view in homes}

    def first(view: T) -> T:
        while group[view] != view:
            group[view] = view = group[group[view]]
        return view

    for view, sources in reads.items():
        for other in sources:
            if view in group and other in group:
                group[first(view)] = first(other)
    least: dict[T, int] = {}
    for view, home in homes.items():
        least[first(view)] = min(home, least.get(first(view), home))
    return {view: least[first(view)] for view in homes}
