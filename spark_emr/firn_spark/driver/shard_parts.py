"""In which parts the changes of a table of several shards are committed: all at once if columns decide them, else as
many at once as one process decides one by one (docs/adr/0123-larger-parts.md)."""

import sys
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from firn.commit import range_parts
from firn_spark.driver.shard_tables import maps_of, shard_tables
from firn_spark.not_eligible import InParts, TooMany
from firn_spark.table_commit import TableCommit

T = TypeVar("T")


def at_once(one: TableCommit, do: Callable[[int], T]) -> T:
    """What `do` gives, which raises TooMany if it would decide more changes than that one by one. Raises InParts if the
    changes can be cut then."""
    if not _are_many(_events(one)):
        return do(sys.maxsize)
    try:
        return do(range_parts.MOST_ONE_BY_ONE)
    except TooMany:
        _cut(one, None)
        return do(sys.maxsize)


def cut_where_known(one: TableCommit) -> None:
    """Raises InParts if truncates are among many changes, or their map is another one than that of the cut: columns
    don't decide these."""
    if not _are_many(_events(one)):
        return
    truncates, maps = one.target.counts("t"), maps_of(one)
    if maps.before.number != maps.after.number:
        _cut(one, None)
    elif truncates:
        _cut(one, truncates)


def _cut(one: TableCommit, slow: Collection[int] | None) -> None:
    """Raises InParts, unless they are one epoch or a job has come as far. `slow`: the epochs with changes that columns
    don't decide; None: it may be all."""
    events = _events(one)
    # From the same cut on that job may have come further, and its shards are not taken back.
    ahead = max(shard.progress for shard in shard_tables(one, maps_of(one)))
    upto = range_parts.first_part(events, events if slow is None else slow, ahead)
    if upto < max(events):
        raise InParts(upto)


def _are_many(events: Mapping[int, int]) -> bool:
    return len(events) > 1 and sum(events.values()) > range_parts.MOST_ONE_BY_ONE


def _events(one: TableCommit) -> dict[int, int]:
    """How many changes of the table count, by epoch: no fewer than their share of its bytes are."""
    mine, each = one.target.counts(), range_parts.BYTES_ONE_BY_ONE
    epochs = {n: epoch for n, epoch in one.context.epochs.items() if n > one.above and n in mine}
    return {n: mine[n] * range_parts.events_of(epoch, each) // max(1, epoch.events) for n, epoch in epochs.items()}
