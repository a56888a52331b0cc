"""A table's Health (log/table_health.py) from what its metadata says, and the hour's budget that it counts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from firn.config.maintenance import Compaction
from firn.log import layout
from firn.log.table_health import Health, PartitionHealth, age_seconds
from firn.maintenance.compaction_planner import DataFile, DeleteFile, Group, is_small

_HOUR: Final = 3_600
_WORST: Final = 20  # partitions that a Health names
# What was done to the table, or looked for: no look at its metadata tells that.
_DONE: Final = (
    "orphans", "orphan_bytes", "orphans_at", "compacted_at", "compacted_bytes", "expired_at", "tiered_at",
    "statistics_at",
)  # fmt: skip


@dataclass(frozen=True)
class Versions:
    """What the table's metadata says of itself: manifests of the current snapshot, snapshots in all, when the oldest on
    main was made, bytes of the metadata file, snapshots of others (TableState.kept_by_others), manifests that are worth
    rewriting (manifest_planner.plan)."""

    manifests: int = 0
    snapshots: int = 0
    oldest: datetime | None = None
    metadata_bytes: int = 0
    by_others: int = 0
    rewrite_manifests: int = 0


def health_of(
    table: str,
    now: datetime,
    files: Sequence[DataFile],
    deletes: Sequence[DeleteFile],
    groups: Sequence[Group],
    policy: Compaction,
    versions: Versions,
    names: Mapping[tuple[int, str], str],
    known: Health | None,
) -> Health:
    """The Health of a table that has these live files, of which `groups` (compaction_planner.plan) are worth rewriting.

    names  of partitions (spec, DataFile.partition), as they are shown
    known  the Health before: what was found and done then is kept
    """
    joined = [file for group in groups if group.into < len(group.files) for file in group.files]
    cold = [file for file in files if file.cold]
    found = Health(
        table=table,
        measured_at=layout.instant(now),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        rows=sum(file.rows for file in files),
        small=sum(is_small(file, policy.target_bytes) for file in joined),
        delete_files=len(deletes),
        delete_bytes=sum(one.bytes for one in deletes),
        deleted=sum(one.rows for one in deletes),
        manifests=versions.manifests,
        snapshots=versions.snapshots,
        oldest=layout.instant(versions.oldest) if versions.oldest else None,
        metadata_bytes=versions.metadata_bytes,
        by_others=versions.by_others,
        cold_files=len(cold),
        cold_bytes=sum(file.bytes for file in cold),
        rewrite_files=sum(len(group.files) for group in groups),
        rewrite_bytes=sum(group.bytes for group in groups),
        rewrite_manifests=versions.rewrite_manifests,
        partitions=tuple(_worst(files, deletes, groups, policy, names)),
    )
    return found if known is None else replace(found, **{name: getattr(known, name) for name in _DONE})


def _worst(
    files: Iterable[DataFile],
    deletes: Iterable[DeleteFile],
    groups: Iterable[Group],
    policy: Compaction,
    names: Mapping[tuple[int, str], str],
) -> list[PartitionHealth]:
    owed: defaultdict[tuple[int, str], list[Group]] = defaultdict(list)
    for group in groups:
        owed[group.files[0].spec, group.files[0].partition].append(group)
    worst = sorted(owed, key=lambda place: (-sum(group.bytes for group in owed[place]), place))[:_WORST]
    inside: dict[tuple[int, str], list[DataFile]] = {place: [] for place in worst}
    about = dict.fromkeys(worst, 0)
    for file in files:
        if (file.spec, file.partition) in inside:
            inside[file.spec, file.partition].append(file)
    for one in deletes:
        if (one.spec, one.partition) in about:
            about[one.spec, one.partition] += 1
    return [
        PartitionHealth(
            name=names.get(place, place[1]),
            files=len(inside[place]),
            bytes=sum(file.bytes for file in inside[place]),
            small=sum(is_small(file, policy.target_bytes) for group in owed[place] for file in group.files),
            delete_files=about[place],
            deleted=sum(file.deleted for file in inside[place]),
            rewrite_bytes=sum(group.bytes for group in owed[place]),
            cold_bytes=sum(file.bytes for file in inside[place] if file.cold),
        )
        for place in worst
    ]


def spent(known: Health | None, now: datetime) -> int:
    """Bytes that compaction has rewritten in the hour that is running; 0 if none is."""
    return known.compacted_bytes if known is not None and age_seconds(known.compacted_at, now) < _HOUR else 0


def in_vain(known: Health, now: datetime) -> bool:
    """Whether compaction has found nothing that it could do in the hour that is running."""
    return known.compacted_bytes == 0 and age_seconds(known.compacted_at, now) < _HOUR


def left(known: Health | None, policy: Compaction, now: datetime) -> int:
    """Bytes that the hour's budget still allows."""
    return max(0, policy.budget_bytes - spent(known, now))


def compacted(health: Health, now: datetime, taken: int) -> Health:
    """The Health after compaction took so many bytes, or had a look and took none.

    An hour that anything was taken in is never started over by a look in vain: its budget would be another one.
    """
    if spent(health, now):
        return replace(health, compacted_bytes=health.compacted_bytes + taken)
    return replace(health, compacted_at=layout.instant(now), compacted_bytes=taken)
