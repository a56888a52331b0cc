"""Cold tiering of one table: what is cold is moved to another storage class.

In S3 an object gets a tag, by which the bucket's lifecycle rules then move it: the class changes without the object
being written, read or seen as new. Azure and Google move it at once (class_port.py). Only data files are moved:
metadata is read by every query, delete files are small and soon rewritten. What is moved can be read at once, in
the same way as before, for the storage's price; `warm` takes it back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from firn.config.maintenance import Tiering
from firn.config.names import TableName
from firn.errors import TerminalError
from firn.log import layout, read_records, tiering_state
from firn.log.store import Store
from firn.log.tiering_state import TierState
from firn.maintenance.tiering import Decision, LiveFile, Reads, decide
from firn_lake.tiering.class_port import Classes, Returned, each
from firn_lake.tiering.live import Live, live
from firn_lake.tiering.objects import told
from firn_lake.tiering.storages import open_classes

if TYPE_CHECKING:
    from pyiceberg.table import Table

ALL: Final = "all"
"""What a table without partitions calls its only one."""
# Lifecycle rules work once a day: more often there is nothing new to see of what is on its way.
_AGAIN: Final = timedelta(hours=20)
_MOST_READS: Final = 10_000
MOST_AT_ONCE: Final = 50_000
"""Files that one run tags: two requests each, some minutes of a Lambda's fifteen. The next run goes on."""


class NoSuchPartition(TerminalError):
    """The table has no live files in that partition."""


@dataclass(frozen=True)
class Tiered:
    """What was done to a table, or would be (`dry_run`). `tagged`: where no rule moves objects, those that were moved;
    `on_their_way`: tagged and not moved yet; `refused`: objects that could not be tagged or moved (gone meanwhile, or
    with ten tags already); `missing`: live files that the storage does not have; `archived`: those that can't be read
    before they are restored; `same`: nothing had changed, nothing was done."""

    table: str
    kind: str
    tagged: int = 0
    tagged_bytes: int = 0
    released: int = 0
    refused: int = 0
    on_their_way: int = 0
    cold_files: int = 0
    cold_bytes: int = 0
    files: int = 0
    missing: int = 0
    archived: int = 0
    dry_run: bool = False
    same: bool = False

    def line(self) -> dict[str, Any]:
        """For a log."""
        told: dict[str, Any] = {"table": self.table, "tier": self.kind}
        if self.same:
            return told | {"same": True, "cold_files": self.cold_files, "cold_bytes": self.cold_bytes}
        apart = ("table", "kind", "same")
        return told | {name: value for name, value in asdict(self).items() if name not in apart}


@dataclass(frozen=True)
class Warmed:
    """What was brought back into the hot class. `asked`: of the files, those that have to be restored first, which
    takes hours."""

    table: str
    partition: str
    files: int
    bytes: int
    asked: int = 0

    def line(self) -> dict[str, Any]:
        """For a log."""
        told = {"table": self.table, "partition": self.partition, "warmed": self.files, "warmed_bytes": self.bytes}
        return told | ({"asked": self.asked} if self.asked else {})


def tier(
    table: "Table", policy: Tiering, s3: Any, store: Store, now: datetime, *, dry_run: bool = False, force: bool = False
) -> Tiered:
    """Tag what is cold, and take the tag from what is not any more; or move it at once. Any number of times gives the
    same. `s3`: a boto3 client; None: one is made where the table needs it.

    Where nothing can have changed since the last time, one object is read and nothing else (`force`: looks all the
    same). Raises NoClasses, ConfigError, TransientError, TerminalError, StorageUnavailable, UnknownOutcome.
    """
    name, classes = name_of(table), open_classes(table.location(), s3)
    kind = classes.table.chosen(policy.storage_class)
    known = tiering_state.read(store, str(name), name.slug)
    if not force and not dry_run and _same(table, policy, kind, known, now):
        counts = _counts(known.cold)
        return Tiered(str(name), kind, 0, 0, 0, 0, len(known.tagged), *counts, same=True)
    found, decisions, state = look(table, policy, classes, store, known, now)
    move = [file for one in decisions for file in one.move]
    cut = len(move) > MOST_AT_ONCE
    move = move[:MOST_AT_ONCE]
    release = [file for one in decisions for file in one.release]
    # Tags of a class that the policy no longer names: no rule may be left that moves them.
    on_their_way, moving = waiting(found, known, classes), {file.path for file in move}
    release += [
        file
        for file in found.files
        if file.path in on_their_way and known.tagged[file.path] != kind and file.path not in moving
    ]
    tagged = {path: known.tagged[path] for path in on_their_way}
    done = move
    if not dry_run:
        with told(f"move the files of {name}"):
            for file, free in zip(release, each(lambda one: _move(classes, one, None), release), strict=True):
                if free:
                    tagged.pop(file.path, None)
            has = each(lambda one: _move(classes, one, kind), move)
        done = [file for file, moved in zip(move, has, strict=True) if moved]
    files, there = found.files, {file.path for file in done}
    if classes.table.by_rule:
        tagged |= dict.fromkeys(there, kind)
    else:
        files = tuple(replace(file, kind=kind) if file.path in there else file for file in files)
    cold = _cold(files, tagged, classes)
    if not dry_run:
        # What is left over the next run finds, however soon it comes.
        more = {"snapshot": None} if cut else {}
        tiering_state.write(
            store, _with(state, tagged=tagged, cold=cold, cold_paths=_paths(files, tagged, classes), **more), name.slug
        )
    return Tiered(
        str(name), kind, len(done), sum(file.size for file in done), len(release), len(move) - len(done), len(tagged),
        *_counts(cold), len(files), found.missing, sum(classes.table.is_archive(file.kind) for file in files),
        dry_run=dry_run,
    )  # fmt: skip


def warm(table: "Table", partition: str, s3: Any, store: Store) -> Warmed:
    """Bring what is cold of a partition back into the hot class, and take its tags. Safe to run again, and while others
    read. What lies in an archive is asked for, and there hours later.

    `partition`: as `explain` names it; "all": the whole table. Files count as written now: the policy takes them again
    when they have been left alone for as long as it says. Raises NoSuchPartition, and as `tier`.
    """
    name, classes = name_of(table), open_classes(table.location(), s3)
    with told(f"look at the files of {name}"):
        found = live(table, classes)
    mine = [file for file in found.files if partition in (ALL, file.partition or ALL)]
    if not mine:
        raise NoSuchPartition(f"{name} has no live files in {partition!r}; {_valid(found.files)}")
    known = tiering_state.read(store, str(name), name.slug)
    # Without a memory of what is tagged all are asked.
    unknown = not known.looked_at
    hot = classes.table.hot
    wanted = [file for file in mine if unknown or file.kind != hot or file.path in known.tagged]
    with told(f"bring files of {name} back"):
        done = each(lambda file: _warm(classes, file), wanted)
    gone = {file.path for file in wanted}
    tagged = {path: kind for path, kind in known.tagged.items() if path not in gone}
    left = [file for file in found.files if file.path not in gone]
    # Looked at by nobody since: the next run sees the files as they are now.
    cold, paths = _cold(left, tagged, classes), _paths(left, tagged, classes)
    tiering_state.write(store, _with(known, tagged=tagged, cold=cold, cold_paths=paths, snapshot=None), name.slug)
    back = [one for one in done if one is not None]
    return Warmed(str(name), partition, len(back), sum(one.size for one in back), sum(one.asked for one in back))


def look(
    table: "Table", policy: Tiering, classes: Classes, store: Store, known: TierState, now: datetime
) -> tuple[Live, list[Decision], TierState]:
    """-> the live files, what is decided of them, and what is known of the table then."""
    name = name_of(table)
    kind = classes.table.chosen(policy.storage_class)
    with told(f"look at the files of {name}"):
        found = live(table, classes)
    summed, after, first = _sum_reads(known, store, name, now)
    # Who asks for a prediction counts from now on, whether anything is read or not.
    begun = [known.recorded_since, first, layout.instant(now) if policy.predictive else None]
    since = min((one for one in begun if one is not None), default=None)
    decisions = decide(
        found.files,
        found.deletes,
        policy,
        now,
        reads=summed,
        recorded_since=datetime.fromisoformat(since) if since else None,
        tagged=frozenset(path for path in waiting(found, known, classes) if known.tagged[path] == kind),
        classes=classes.table,
    )
    due = min((one.due for one in decisions if one.due is not None), default=None)
    snapshot = table.current_snapshot()
    state = TierState(
        table=str(name),
        snapshot=snapshot.snapshot_id if snapshot else None,
        policy=_told(policy, kind),
        looked_at=layout.instant(now),
        due=layout.instant(due) if due else None,
        reads={key: (one.weight, layout.instant(one.at)) for key, one in summed.items()},
        reads_after=after,
        recorded_since=since,
    )
    return found, decisions, state


def _same(table: "Table", policy: Tiering, kind: str, known: TierState, now: datetime) -> bool:
    """Whether a look would find nothing new: the same files, the same policy, nothing grown old, nothing on its way."""
    snapshot = table.current_snapshot()
    if known.snapshot is None or snapshot is None or snapshot.snapshot_id != known.snapshot:
        return False
    if known.policy != _told(policy, kind) or (known.due is not None and datetime.fromisoformat(known.due) <= now):
        return False
    lately = now - datetime.fromisoformat(known.looked_at) < _AGAIN
    return lately or not (known.tagged or policy.predictive)


def _sum_reads(
    known: TierState, store: Store, name: TableName, now: datetime
) -> tuple[dict[str, Reads], str, str | None]:
    """The reads that are known, with the records that came since; the most read ones where they are too many. -> them,
    the last record, and when the first of the new ones was."""
    summed = {key: Reads(weight, datetime.fromisoformat(at)) for key, (weight, at) in known.reads.items()}
    found, after = read_records.settled(store, name.slug, known.reads_after, now)
    for one in found:
        for partition in one.partitions:
            summed[partition] = summed.get(partition, Reads(0.0, one.at)).add(one.at)
    if len(summed) > _MOST_READS:
        most = sorted(summed, key=lambda key: summed[key].weight_at(now), reverse=True)[:_MOST_READS]
        summed = {key: summed[key] for key in most}
    return summed, after, layout.instant(min(one.at for one in found)) if found else None


def waiting(found: Live, known: TierState, classes: Classes) -> frozenset[str]:
    """Live files that have the tag of the class that they are still to go to."""
    may_move = classes.table.may_move
    return frozenset(
        file.path for file in found.files if file.path in known.tagged and may_move(file.kind, known.tagged[file.path])
    )


def _cold(files: Sequence[LiveFile], tagged: Mapping[str, str], classes: Classes) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        if _is_there(file, tagged, classes):
            count, size = found.get(file.partition, (0, 0))
            found[file.partition] = (count + 1, size + file.size)
    return found


def _paths(files: Sequence[LiveFile], tagged: Mapping[str, str], classes: Classes) -> tuple[str, ...]:
    return tuple(sorted(file.path for file in files if _is_there(file, tagged, classes)))[: tiering_state.MOST_PATHS]


def _is_there(file: LiveFile, tagged: Mapping[str, str], classes: Classes) -> bool:
    """Whether it is in a cold class or on its way there."""
    return file.kind != classes.table.hot or file.path in tagged


def _counts(cold: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(count for count, _ in cold.values()), sum(size for _, size in cold.values())


def _move(classes: Classes, file: LiveFile, kind: str | None) -> bool:
    where = classes.place(file.path)
    return where is not None and classes.move(where, kind)


def _warm(classes: Classes, file: LiveFile) -> Returned | None:
    where = classes.place(file.path)
    return None if where is None else classes.warm(where)


def _valid(files: Sequence[LiveFile]) -> str:
    names = sorted({file.partition or ALL for file in files})
    if not names:
        return "it has no files at all"
    shown = ", ".join(names[:20])
    return f"it has {shown}{f' and {len(names) - 20} more' if len(names) > 20 else ''}, or write {ALL}"


def _told(policy: Tiering, kind: str) -> str:
    return f"{kind} {policy.cold_seconds} {policy.predictive}"


def _with(state: TierState, **more: Any) -> TierState:
    import msgspec

    changed: TierState = msgspec.structs.replace(state, **more)
    return changed


def name_of(table: "Table") -> TableName:
    """The table's name as Firn writes it."""
    return TableName(".".join(table.name()[:-1]), table.name()[-1])
