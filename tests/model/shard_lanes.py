"""Lanes as jobs of their own, which Firn has not (docs/adr/0107-fast-shards.md#lanes): under which map each epoch is,
which lane has which shards, how far a shard is, and when all of it makes a cut. One lane is a job as it is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from firn.changes.placement.shard_map import ShardMap

Standing = Literal["behind", "there", "ahead"]


@dataclass(frozen=True)
class Span:
    """Epochs in a row that are under one version of the map."""

    version: int
    epochs: tuple[int, ...]


def spans(at: int, named: Mapping[int, int]) -> tuple[Span, ...]:
    """The epochs of a range by the version of the map that they are under, in order. A range is committed a span at a
    time: the next one begins at the cut of the one before.

    at     the version of the cut before the range
    named  the version that each epoch names. One that was sealed by whoever had not yet heard of a newer map names an
           older one than its predecessor: no map comes back, so it is under the newer one
    """
    newest, found = at, []
    for n in sorted(named):
        newest = max(newest, named[n])
        found.append((newest, n))
    return tuple(Span(version, tuple(n for _, n in some)) for version, some in groupby(found, lambda one: one[0]))


def lanes(shards: ShardMap, count: int) -> tuple[frozenset[str], ...]:
    """The shards of each lane, as many in one as in the others: the same for all jobs of a version. There are no more
    lanes than shards."""
    names = sorted(shards.shards)
    count = max(1, min(count, len(names)))
    return tuple(frozenset(names[lane::count]) for lane in range(count))


def standing(progress: int, last: int) -> Standing:
    """How far a shard is that is to be brought to epoch `last`. One that is ahead is a later range's: a cut here would
    show it too new, and that range's job makes its own."""
    if progress == last:
        return "there"
    return "ahead" if progress > last else "behind"


@dataclass(frozen=True)
class Mark:
    """What a lane leaves once all its shards are there: created if absent, never changed.

    n          the epoch that they are at
    version    the map's
    snapshots  shard -> snapshot, None for one whose table is not made yet
    """

    n: int
    version: int
    snapshots: Mapping[str, int | None]


def whole(shards: ShardMap, n: int, marks: Iterable[Mark]) -> Mapping[str, int] | None:
    """Table -> snapshot of the cut at epoch `n`, once the lanes' marks name all shards of the map; None before. However
    many lanes there were: a mark says which shards it is of."""
    found: dict[str, int | None] = {}
    for mark in marks:
        if (mark.n, mark.version) == (n, shards.version):
            found |= mark.snapshots
    if found.keys() != shards.shards:
        return None
    return {shards.homes[name].table: snapshot for name, snapshot in found.items() if snapshot is not None}
