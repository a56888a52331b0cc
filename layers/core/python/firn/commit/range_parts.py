"""In which parts a range of epochs is committed: one, unless the limit of tables or pipelines change in it. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Final

from firn.commit import table_limit
from firn.config.pipelines import Pipeline
from firn.log.epochs import Epoch

MOST_EVENTS: Final = 1_000_000
"""Of a part of a stream that has a table of several shards: one process decides its rows, by columns."""
BYTES_OF_AN_EVENT: Final = 100
"""Staged: larger ones count for more, or that process could not take a part (firn_spark.driver.range.MOST_BYTES)."""
MOST_ONE_BY_ONE: Final = 100_000
"""Of what that process may have to decide one by one: 6 KB and 60 microseconds a change."""
BYTES_ONE_BY_ONE: Final = 1_000
"""As BYTES_OF_AN_EVENT, of these."""


@dataclass(frozen=True)
class Part:
    """Epochs of a range in all of which the same source tables are refused, and that run under the same pipelines into
    append tables: `pipelines` are all of the newest of these configurations."""

    epochs: tuple[int, ...]
    refused: frozenset[str]
    pipelines: tuple[Pipeline, ...] = ()


def parts(
    refused: Mapping[int, frozenset[str]],
    sources: Mapping[int, Collection[str]],
    pipelines: Mapping[int, tuple[Pipeline, ...]],
) -> tuple[Part, ...]:
    """The parts, in order. By epoch: `refused` as table_limit tells, `sources`, and the `pipelines` of its own
    configuration."""
    found = []
    for part in table_limit.parts(refused, sources):
        for _, some in groupby(part.epochs, key=lambda n: appending(pipelines.get(n, ()))):
            mine = tuple(some)
            found.append(Part(mine, part.refused, pipelines.get(mine[-1], ())))
    return tuple(found)


def by_map(found: Iterable[Part], versions: Mapping[int, Mapping[str, int]]) -> tuple[Part, ...]:
    """The parts in parts all of whose epochs are under the same versions of the maps of shards. `versions`: those that
    each epoch is under."""
    return tuple(
        replace(part, epochs=tuple(some))
        for part in found
        for _, some in groupby(part.epochs, key=lambda n: versions.get(n, {}))
    )


def bounded(
    found: Iterable[Part], events: Mapping[int, int], most: int | None = None, ahead: int = 0
) -> tuple[Part, ...]:
    """The parts in parts of at most `most` events, of one epoch at least: from the same epoch on, a longer range is cut
    where a shorter one was, or its last part is longer. `events`: of each epoch, as events_of has them;
    `ahead`: the epoch that some shard is at already, up to which the first part goes at least."""
    cut = []
    for part in found:
        mine: list[int] = []
        for n in part.epochs:
            if mine and n > ahead and sum(events[one] for one in mine) + events[n] > (most or MOST_EVENTS):
                cut.append(replace(part, epochs=tuple(mine)))
                mine = []
            mine.append(n)
        cut.append(replace(part, epochs=tuple(mine)))
    return tuple(cut)


def first_part(events: Mapping[int, int], slow: Collection[int], ahead: int) -> int:
    """Up to which epoch the changes of a table of several shards are committed first: those before the first of the
    `slow` ones, in which some have to be decided one by one, or as many as may be. `events`: of each of its epochs, as
    events_of has them for these; `ahead`: as bounded has it."""
    if sum(events.values()) <= MOST_ONE_BY_ONE:
        return max(events)
    fast = list(takewhile(lambda n: n not in slow, sorted(events)))
    if fast and (fast[-1] >= ahead or len(fast) == len(events)):
        return fast[-1]
    return bounded([Part(tuple(sorted(events)), frozenset())], events, MOST_ONE_BY_ONE, ahead)[0].epochs[-1]


def events_of(epoch: Epoch, each: int | None = None) -> int:
    """How many events of an epoch count for `bounded`: no fewer than its bytes are, by so many for `each`."""
    return max(epoch.events, sum(batch.bytes for batch in epoch.batches) // (each or BYTES_OF_AN_EVENT))


def appending(pipelines: Sequence[Pipeline]) -> list[tuple[str, str]]:
    """Those into append tables, whose rows stay what they were: names and SQL. A mirror is made again."""
    return sorted((one.name, one.sql) for one in pipelines if one.rule is not None and not one.is_mirror)
