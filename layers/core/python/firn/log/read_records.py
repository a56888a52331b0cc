"""Who reads which partitions: small records that readers leave, and that tiering sums up (`predictive`).

A record is one object for a table, an hour and a set of partitions, created if absent: equal reads of one hour are one
record, so that a dashboard that asks each minute leaves 24 a day. They expire after weeks (bucket_lifecycle.py);
what counts of them is in `tier/` by then, as one number a partition.
"""

import hashlib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put_if_absent

EVERYTHING: Final = "*"
"""Instead of partitions: all of the table."""
MOST_PARTITIONS: Final = 1_000
"""A read of more than these is one of everything."""
MOST_RECORDS: Final = 5_000
"""So many are summed up at once; the next look goes on from there."""
# A reader's clock may be late, and its put: an hour is summed up when it is long over.
_SETTLED: Final = timedelta(hours=2)


class _Record(msgspec.Struct, frozen=True):
    format: int
    table: str
    hour: str
    partitions: tuple[str, ...]


class Read(NamedTuple):
    """Partitions that were read together in the hour that began at `at`."""

    at: datetime
    partitions: tuple[str, ...]


_decode: Final = msgspec.json.Decoder(_Record).decode


def record(store: Store, table: str, slug: str, partitions: Collection[str], when: datetime) -> None:
    """Leave a record that these partitions of the table were read. `slug`: TableName.slug.

    Raises StorageUnavailable, UnknownOutcome; whoever reads does well to go on all the same.
    """
    named = tuple(sorted(set(partitions))) if len(partitions) <= MOST_PARTITIONS else (EVERYTHING,)
    named = (EVERYTHING,) if EVERYTHING in named else named
    hour = when.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    name = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    data = msgspec.json.encode(_Record(FORMAT, table, layout.instant(hour), named))
    put_if_absent(store, layout.reads_path(slug, hour, name), data)


def settled(store: Store, slug: str, after: str, now: datetime) -> tuple[list[Read], str]:
    """The records above the path `after` ("": all) whose hour is over, at most MOST_RECORDS. -> them, and the path to
    go on after. Raises StorageUnavailable."""
    end = layout.reads_hour(slug, now - _SETTLED)
    found = [path for path in paths(store, layout.reads_prefix(slug), after or None) if path < end][:MOST_RECORDS]
    reads = []
    for path in found:
        data = get(store, path)
        try:
            one = None if data is None else _decode(data)
        except (msgspec.DecodeError, ValueError):
            continue
        if one is not None and one.format <= FORMAT:
            reads.append(Read(datetime.fromisoformat(one.hour), one.partitions))
    return reads, found[-1] if found else after
