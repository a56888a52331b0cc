"""How the tables of a stream are, as `health/{stream}.json` says it: what the scheduled functions decide by.

Jobs write it when they have cared for a table, or have had a look. Like `state/` it is advice and overwritten: a lost
one costs a look, a late one a job that finds nothing to do. One object for all tables of a stream, so that a function
that finds no debt has made a handful of requests.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put

_log: Final = logging.getLogger(__name__)


class PartitionHealth(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a table with one partition value (`name`, Iceberg's path such as `day=2026-01-31`; "" where there are
    none) that compaction would rewrite: `rewrite_bytes` of files, of which there are `small` small ones and
    `deleted` deleted rows."""

    name: str
    files: int
    bytes: int
    small: int = 0
    delete_files: int = 0
    deleted: int = 0
    rewrite_bytes: int = 0
    cold_bytes: int = 0


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table as its metadata tells it (times: RFC 3339, UTC, milliseconds).

    rows            in data files, deleted ones included
    small           data files so small that compaction would join them
    deleted         rows that delete files take out
    oldest          when the oldest snapshot on main was made; None without one
    metadata_bytes  of the current metadata file
    cold_bytes      of live files in a cold storage class
    orphans, orphan_bytes, orphans_at  what the last look for orphans found, and when that was
    compacted_at    when the hour began in which compaction last did something, or looked in vain
    expired_at      when expiry was last tried in vain; None: it had an effect since
    compacted_bytes  of files rewritten in the hour that began at `compacted_at`
    statistics_at   when statistics were last computed, or it was tried
    by_others       kept snapshots that are not Firn's and changed rows of the table since a stream feeds it
    rewrite_manifests  manifests that are worth rewriting
    partitions      the worst ones, most bytes to rewrite first; `rewrite_bytes` is of all
    """

    table: str
    measured_at: str
    files: int = 0
    bytes: int = 0
    rows: int = 0
    small: int = 0
    delete_files: int = 0
    delete_bytes: int = 0
    deleted: int = 0
    manifests: int = 0
    snapshots: int = 0
    oldest: str | None = None
    metadata_bytes: int = 0
    cold_files: int = 0
    cold_bytes: int = 0
    rewrite_files: int = 0
    rewrite_bytes: int = 0
    rewrite_manifests: int = 0
    partitions: tuple[PartitionHealth, ...] = ()
    orphans: int | None = None
    orphan_bytes: int = 0
    orphans_at: str | None = None
    compacted_at: str | None = None
    compacted_bytes: int = 0
    expired_at: str | None = None
    tiered_at: str | None = None
    statistics_at: str | None = None
    by_others: int = 0


class _Report(msgspec.Struct, frozen=True):
    format: int
    stream: str
    tables: dict[str, Health]


_decode: Final = msgspec.json.Decoder(_Report).decode


def read(store: Store, stream: str) -> dict[str, Health]:
    """The tables of a stream as measured last; those never measured are missing. Raises StorageUnavailable."""
    data = get(store, layout.health_path(stream))
    try:
        found = None if data is None else _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        _log.warning("the health of %s can't be read: %s", stream, error)
        return {}
    return found.tables if found is not None and found.format <= FORMAT else {}


def write(store: Store, stream: str, measured: Iterable[Health], *, gone: Iterable[str] = ()) -> None:
    """Puts these in the place of what was known of the same tables, and forgets those that are `gone`.

    Raises StorageUnavailable, UnknownOutcome. Of two writers at once one may win whole: see above.
    """
    tables = read(store, stream) | {one.table: one for one in measured}
    for name in gone:
        tables.pop(name, None)
    put(store, layout.health_path(stream), msgspec.json.encode(_Report(FORMAT, stream, tables)))


def read_all(store: Store, streams: Iterable[str]) -> dict[str, Health]:
    """All tables of some streams; of one that several feed, the newest look. Raises StorageUnavailable."""
    found: dict[str, Health] = {}
    for stream in streams:
        for name, one in read(store, stream).items():
            if name not in found or one.measured_at > found[name].measured_at:
                found[name] = one
    return found


def age_seconds(instant: str | None, now: datetime) -> float:
    """Seconds since an instant of a Health; infinite for None."""
    return float("inf") if instant is None else (now - datetime.fromisoformat(instant)).total_seconds()
