"""Which data files are cold: rules on what their table's metadata and the recorded reads say. Pure.

A file is cold when nothing has touched it for `cold_after`. Three things touch it, and the latest counts:

- it was written: when the storage took it (the snapshot that added it may have expired, and a copy back to the hot
  class is a use of it, too);
- rows in it were deleted or changed: a delete file that may name it was written;
- where the table is partitioned by time, the time that the partition stands for has not ended: yesterday's day is not
  old because its file was written by a backfill of last year's, and next month's file is not because it came early.

Where the table is partitioned by time, the partition is cold or hot as a whole: late changes of a day come in company,
and compaction joins its files. Otherwise each file is looked at alone: in a table of buckets, or without partitions,
some file is always new.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from firn.config.maintenance import LEAST_COLD_SECONDS, Tiering
from firn.config.storage_classes import S3, SMALLEST_BYTES, ClassTable
from firn.maintenance.storage_prices import MONTH_DAYS, Economics, economics

TimeTransform = Literal["year", "month", "day", "hour"]

TAG: Final = "firn-tier"
"""The tag of a cold object. Its value is the class it goes to, so that one lifecycle rule a class is enough."""

MEMORY_DAYS: Final = 30.0
"""Reads count less by a factor of e each such time: the last weeks say most about the next."""
ASSUMED_READS: Final = 2.0
"""What nobody has watched is taken for read so often a month: more than pays in any class that asks for reads."""
NEVER_DAYS: Final = 3650.0

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LiveFile:
    """A data file of the current snapshot. `partition`: Iceberg's path (`day=2026-01-31`), "" for none; `written`: when
    the storage took it; `until`: the end of the partition's time, None if it has none; `kind`: its class now;
    `sequence`: its data sequence number."""

    path: str
    size: int
    rows: int
    partition: str
    written: datetime
    until: datetime | None = None
    kind: str = "STANDARD"
    sequence: int = 0


@dataclass(frozen=True)
class LiveDeletes:
    """A delete file of the current snapshot. `first`, `last`: the least and the greatest path of a data file that it
    names, None where its metadata doesn't say; `sequence`: it takes no rows out of later data files."""

    partition: str
    written: datetime
    first: str | None = None
    last: str | None = None
    sequence: int = 0

    def may_name(self, file: LiveFile) -> bool:
        """Whether rows of the file may be deleted by this."""
        if self.partition != file.partition or self.sequence < file.sequence:
            return False
        return (self.first is None or self.first <= file.path) and (self.last is None or file.path <= self.last)


@dataclass(frozen=True)
class Reads:
    """How often something is read: `weight`, the number of reads, each counting exp(-age / MEMORY_DAYS) at `at`."""

    weight: float
    at: datetime

    def add(self, when: datetime, count: float = 1.0) -> "Reads":
        """With `count` reads more, at `when`; in any order."""
        later, earlier = (when, self.at) if when > self.at else (self.at, when)
        fade = math.exp(-_days(later - earlier) / MEMORY_DAYS)
        weight = self.weight * fade + count if when > self.at else self.weight + count * fade
        return Reads(weight, later)

    def weight_at(self, now: datetime) -> float:
        """The weight as it is at `now`."""
        return self.weight * math.exp(-max(0.0, _days(now - self.at)) / MEMORY_DAYS)


@dataclass(frozen=True)
class Forecast:
    """When files are read next: mean days until then (None: not in ten years), and how often a month."""

    next_days: float | None
    reads_a_month: float


@dataclass(frozen=True)
class Decision:
    """What is decided of files that are cold or hot together.

    `cold`: they all are, moved or not; `move`: those to move now, in S3 by a tag; `release`: those to take the tag
    from, because they are on their way and no longer cold; `due`: when age alone makes them cold, None if it never does
    or already has.
    """

    partition: str
    files: tuple[LiveFile, ...]
    touched: datetime
    cold: bool
    move: tuple[LiveFile, ...]
    release: tuple[LiveFile, ...]
    forecast: Forecast
    economics: Economics
    reason: str
    due: datetime | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def upper_end(transform: TimeTransform, ordinal: int) -> datetime:
    """The end of the time that a partition value stands for. `ordinal`: years, months, days or hours since 1970
    (Iceberg's specification, "Partition Transforms")."""
    match transform:
        case "year":
            return _clamped(1970 + ordinal + 1, 1)
        case "month":
            return _clamped(1970 + (ordinal + 1) // 12, (ordinal + 1) % 12 + 1)
        case "day":
            return _EPOCH + timedelta(days=min(max(ordinal + 1, -719_000), 2_900_000))
        case "hour":
            return _EPOCH + timedelta(hours=min(max(ordinal + 1, -17_000_000), 69_000_000))


def touched(files: Iterable[LiveFile], deletes: Iterable[LiveDeletes]) -> datetime:
    """The latest that happened to any of the files (one or more). `deletes`: those that may name one."""
    times = [file.written for file in files]
    return max([*times, *(file.until for file in files if file.until), *(one.written for one in deletes)])


def is_cold(touched: datetime, policy: Tiering, now: datetime) -> bool:
    """Whether what was last touched then is cold by age. compaction_planner.py says what becomes of such files."""
    return policy.cold_seconds is not None and now - touched >= timedelta(seconds=policy.cold_seconds)


def forecast(reads: Reads | None, since: datetime, now: datetime) -> Forecast:
    """How the past reads go on. `since`: since when reads are recorded and the files lie untouched.

    The rate is the faded number of reads in MEMORY_DAYS. ASSUMED_READS more are assumed at `since`, and fade like the
    others: that something is not read is known only of what was watched for a while.
    """
    watched = max(0.0, _days(now - since))
    weight = (reads.weight_at(now) if reads else 0.0) + ASSUMED_READS * math.exp(-watched / MEMORY_DAYS)
    days = MEMORY_DAYS / weight if weight > 0 else math.inf
    return Forecast(days if days <= NEVER_DAYS else None, weight * MONTH_DAYS / MEMORY_DAYS)


def decide(
    files: Sequence[LiveFile],
    deletes: Sequence[LiveDeletes],
    policy: Tiering,
    now: datetime,
    *,
    reads: Mapping[str, Reads] | None = None,
    recorded_since: datetime | None = None,
    tagged: Collection[str] = (),
    classes: ClassTable = S3,
) -> list[Decision]:
    """What to do with a table's files, in the order of their partitions. `classes`: those of its storage.

    `reads`: by partition, "*" for those of the whole table; `recorded_since`: since when there are any, None: never.
    `tagged`: paths that are on their way.
    """
    found = []
    of_deletes: dict[str, list[LiveDeletes]] = {}
    for one in sorted(deletes, key=lambda one: one.written, reverse=True):
        of_deletes.setdefault(one.partition, []).append(one)
    for partition, group in _by_partition(files).items():
        near = _Latest(of_deletes.get(partition, ()))
        known = _together((reads or {}).get(partition), (reads or {}).get("*"))
        by_time = any(file.until is not None for file in group)
        for unit in [group] if by_time else [[file] for file in group]:
            last = max(touched(unit, ()), *(near.of_all() if by_time else near.of(unit[0])))
            if policy.predictive or recorded_since is not None:
                ahead = forecast(known, max(last, recorded_since or now), now)
            else:
                ahead = Forecast(None, 0.0)
            found.append(_decision(partition, unit, last, policy, now, ahead, tagged, classes))
    return found


class _Latest:
    """When rows were last deleted, among delete files of one partition (newest first)."""

    def __init__(self, deletes: Sequence[LiveDeletes]) -> None:
        self._newest = deletes[:1]
        self._of_one: dict[str, list[LiveDeletes]] = {}
        self._of_many = []
        for one in deletes:
            if one.first is not None and one.first == one.last:
                self._of_one.setdefault(one.first, []).append(one)
            else:
                self._of_many.append(one)

    def of_all(self) -> list[datetime]:
        """The latest of all, if there is one."""
        return [_EPOCH, *(one.written for one in self._newest)]

    def of(self, file: LiveFile) -> list[datetime]:
        """The latest that may name the file, if there is one."""
        ranks = (self._of_one.get(file.path, ()), self._of_many)
        firsts = (next((one for one in rank if one.may_name(file)), None) for rank in ranks)
        return [_EPOCH, *(one.written for one in firsts if one is not None)]


def _decision(
    partition: str,
    files: Sequence[LiveFile],
    last: datetime,
    policy: Tiering,
    now: datetime,
    ahead: Forecast,
    tagged: Collection[str],
    classes: ClassTable,
) -> Decision:
    kind = classes.chosen(policy.storage_class)
    may_move = classes.may_move
    large = [file for file in files if file.size > SMALLEST_BYTES]
    on_its_way = tuple(file for file in files if may_move(file.kind, kind) and file.path in tagged)
    left = tuple(file for file in large if may_move(file.kind, kind) and file.path not in tagged)
    # What the move would save, or saves already: of a unit that has moved the figures stay the same.
    moved = economics(
        len(large),
        sum(file.size for file in large),
        kind,
        table=classes,
        next_access_days=ahead.next_days,
        reads_a_month=ahead.reads_a_month,
    )
    old = is_cold(last, policy, now)
    due = None
    if policy.cold_seconds is not None and not old:
        due = last + timedelta(seconds=policy.cold_seconds)
    if not policy.on:
        cold, reason = False, "tiering is off for this table"
    elif not large:
        cold, reason = old, f"no file is larger than {SMALLEST_BYTES // 1024} KB"
    elif policy.predictive and now - last < timedelta(seconds=LEAST_COLD_SECONDS):
        cold, reason = False, f"touched {_ago(now - last)}"
    elif policy.predictive and not moved.worth:
        cold, reason = False, f"read about {ahead.reads_a_month:.2g} times a month, which would cost more than it saves"
    elif policy.predictive:
        cold, reason = True, f"pays at {ahead.reads_a_month:.2g} reads a month"
    elif old:
        cold, reason = True, f"not touched for {_length(now - last)}"
    else:
        cold, reason = False, f"touched {_ago(now - last)}"
    return Decision(
        partition, tuple(files), last, cold, left if cold else (), () if cold else on_its_way, ahead, moved, reason, due
    )


def _together(first: Reads | None, second: Reads | None) -> Reads | None:
    if first is None or second is None:
        return first or second
    return first.add(second.at, second.weight)


def _by_partition(files: Sequence[LiveFile]) -> dict[str, list[LiveFile]]:
    found: dict[str, list[LiveFile]] = {}
    for file in sorted(files, key=lambda one: (one.partition, one.path)):
        found.setdefault(file.partition, []).append(file)
    return found


def _clamped(year: int, month: int) -> datetime:
    """The first of the month; years that datetime can't hold are the last or the first that it can."""
    year = min(max(year, datetime.min.year), datetime.max.year)
    return datetime(year, month, 1, tzinfo=UTC)


def _days(span: timedelta) -> float:
    return span.total_seconds() / 86_400


def _length(span: timedelta) -> str:
    days = int(_days(span))
    return f"{days} days" if days != 1 else "1 day"


def _ago(span: timedelta) -> str:
    """A time that lies ahead is that of a partition that has not ended."""
    return f"{_length(span)} ago" if span > timedelta() else "by a time that has not ended"
