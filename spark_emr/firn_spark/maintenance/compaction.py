"""Files of a table that are worth it, rewritten: about the target's size, in order, without their deleted rows.

firn.maintenance.compaction_planner says which. A group of files is one commit, so that a killed job has done something.
It is Iceberg's `replace`: no row and no progress changes. A commit that comes between is no loss as long as it deletes
from none of the group's files; if it does, the group is tried once more in halves, and then left for the next time:
a rewrite always yields to whoever writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from firn.config.maintenance import Care, Compaction
from firn.maintenance import compaction_planner, manifest_planner
from firn.maintenance.compaction_planner import DataFile, Group
from firn_spark.files import copy_on_write
from firn_spark.files.row_lineage import with_lineage
from firn_spark.files.write import data_files, layout_of
from firn_spark.maintenance import log_retention, manifests
from firn_spark.maintenance.concurrent_commits import caught_up
from firn_spark.maintenance.health import planned
from firn_spark.maintenance.listing import Cold, Listing, checked, listing
from firn_spark.maintenance.sorting import arranged, order_of
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.fence import LostRace
from firn_spark.tables.rewriting import rows_of
from firn_spark.tables.writing import write_rows

_TRIES: Final = 4  # of one commit: another writer's may come between the look and ours each time
_ROOM: Final = 3  # times the target: what a file may have before Iceberg begins the next one by itself
_PROPERTIES: Final = {"firn.format": "1"}


@dataclass(frozen=True)
class Compacted:
    """What was done, or with `dry_run` what would be.

    groups         of files that were rewritten, a commit each; `lost`: those that another writer's commit undid
    files, into    data files before and after; `bytes`, `bytes_after`: theirs
    delete_files   files of deletes that are gone, and `delete_into` how many new ones are there for them
    manifests      that were rewritten, and `manifest_into` how many there are for them; `manifest_bytes`: theirs
    left           bytes of the groups that are still worth it
    """

    groups: int = 0
    lost: int = 0
    files: int = 0
    into: int = 0
    bytes: int = 0
    bytes_after: int = 0
    delete_files: int = 0
    delete_into: int = 0
    manifests: int = 0
    manifest_into: int = 0
    manifest_bytes: int = 0
    left: int = 0

    @property
    def effect(self) -> bool:
        """Whether anything is other than it was."""
        return bool(self.groups or self.delete_files or self.manifests)

    def line(self) -> dict[str, int]:
        """The numbers for a log line."""
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """Bytes of data files that may be rewritten. `fresh`: nothing of it is spent, so that one group may be larger than
    it; `most`, `least`: bytes of a group and of a file, as in compaction_planner.plan; `manifests`: bytes of the
    manifests that one commit rewrites, as in manifest_planner.plan."""

    bytes: int
    fresh: bool = True
    most: int = compaction_planner.GROUP_BYTES
    least: int = 0
    manifests: int = manifest_planner.MOST_BYTES


def compact(
    spark: SparkSession,
    table: Table,
    stream: str,
    care: Care,
    budget: Budget,
    *,
    cold: Cold | None = None,
    dry_run: bool = False,
    found: Listing | None = None,
    sweeps: bool = True,
) -> Compacted:
    """Rewrites what pays most, and removes files of deletes that nothing needs any more.

    cold   tells which data files are in a cold storage class; None: none is
    found  what health.measure gave, if it is at hand
    sweeps  files of deletes that nothing needs are removed: whose bounds can be relied on, as those of Firn's can

    Raises Unfit (the table is left alone, with the reason), fence.CommitUnknown (what was written stays: it may be in
    the table), fence.LostRace only if the table vanished, and what Spark and the catalog raise. What was committed
    before that stays done.
    """
    if found is None or found.snapshot != _snapshot(table):
        found = listing(spark, table, cold)
    checked(found, table)
    order_of(table, care.compaction)
    groups = planned(table, found, care, most=budget.most, least=budget.least)
    chosen = compaction_planner.within(groups, budget.bytes, fresh=budget.fresh)
    left = sum(group.bytes for group in groups) - sum(group.bytes for group in chosen)
    if dry_run:
        told = manifests.planned(spark, table, budget.manifests) if care.compaction.on else []
        return Compacted(
            len(chosen), 0, sum(len(group.files) for group in chosen), sum(group.into for group in chosen),
            sum(group.bytes for group in chosen), sum(file.live_bytes for group in chosen for file in group.files),
            len(found.dangling), 0, sum(len(one.manifests) for one in told), 0, sum(one.bytes for one in told), left,
        )  # fmt: skip
    done = Compacted(left=left)
    work = _Work(spark, Tables(spark), table, stream, care.compaction)
    for group in chosen:
        for part in work.rewritten(group):
            done = _sum(done, part)
    swept = log_retention.sweep(spark, work.table, stream, work.gone, found) if sweeps else log_retention.Swept()
    done = replace(done, delete_files=swept.files, delete_into=swept.into)
    if not care.compaction.on:
        return done
    fewer = manifests.rewrite(spark, work.tables, work.tables.look_again(work.table), budget.manifests)
    return replace(done, manifests=fewer.manifests, manifest_into=fewer.into, manifest_bytes=fewer.bytes)


def _snapshot(table: Table) -> int | None:
    head = table.head()
    return None if head is None else int(head.snapshotId())


def _sum(one: Compacted, other: Compacted) -> Compacted:
    return Compacted(**{name: value + getattr(other, name) for name, value in asdict(one).items()})


class _Work:
    """The rewriting of one table. `table` is looked at again before each group."""

    def __init__(self, spark: SparkSession, tables: Tables, table: Table, stream: str, policy: Compaction) -> None:
        self._spark = spark
        self._stream = stream
        self._policy = policy
        self.tables = tables
        self.table = table
        self.gone: set[str] = set()  # data files in whose place others are

    def rewritten(self, group: Group) -> Iterable[Compacted]:
        """The group, in one commit if no writer deletes from its files meanwhile, else in halves."""
        try:
            yield self._once(group)
            return
        except LostRace:
            yield Compacted(lost=1)
        for half in halves(group, self._policy.target_bytes):
            try:
                yield self._once(half)
            except LostRace:
                yield Compacted(left=half.bytes)

    def _once(self, group: Group) -> Compacted:
        self.table = self.tables.look_again(self.table)
        table, read_at = self.table, _snapshot(self.table)
        paths = {file.path for file in group.files}
        if table.unreadable:
            return self._by_arrow(group, paths, read_at)
        tasks = list(deletes.tasks_of(table, paths))
        try:
            with rows_of(self._spark, table, tasks) as rows:
                ready = arranged(rows, table, self._policy, group.into)
                added = write_rows(self._spark, table, ready, self._options(group))
        except AnalysisException:
            # Spark looks at the table again, and has found other columns than ours.
            self._same_columns(self.tables.look_again(table), table)
            raise
        return self._done(group, read_at, paths, [*(task.file() for task in tasks), *deletes.vectors_of(tasks)], added)

    def _by_arrow(self, group: Group, paths: set[str], read_at: int | None) -> Compacted:
        """The same of a table that Spark does not open: written in this process as copy-on-write does, by key."""
        table, layout = self.table, with_lineage(layout_of(self.table), self.table)
        old = copy_on_write.old_files(self._spark, table, {path: pa.array([], pa.int64()) for path in paths})
        nothing = pa.schema(layout.fields).empty_table()
        added = data_files(self._spark, table, copy_on_write.rewritten(layout, old.files, nothing))
        return self._done(group, read_at, paths, [*old.java, *old.removed.replaced], added)

    def _done(
        self, group: Group, read_at: int | None, paths: set[str], old: Sequence[Any], added: Sequence[Any]
    ) -> Compacted:
        table = self.table
        try:
            self._land(read_at, paths, old, added)
        except LostRace:
            for file in added:
                table.java.io().deleteFile(file.location())
            raise
        self.gone |= paths
        size = sum(int(file.fileSizeInBytes()) for file in added)
        return Compacted(groups=1, files=len(paths), into=len(added), bytes=group.bytes, bytes_after=size)

    def _same_columns(self, now: Table, before: Table) -> None:
        """Raises LostRace if the columns have changed: values of one type would stand in another's column."""
        if now.state.fields != before.state.fields:
            raise LostRace(f"the columns of {now.name} changed while its files were written")

    def _options(self, group: Group) -> dict[str, str]:
        """As many files as tasks, in the group's own partition and spec: the rows are divided and sorted already."""
        return {
            "target-file-size-bytes": str(_ROOM * self._policy.target_bytes),
            "use-table-distribution-and-ordering": "false",
            "distribution-mode": "none",
            "fanout-enabled": "true",
            "output-spec-id": str(group.files[0].spec),
        }

    def _land(self, read_at: int | None, paths: set[str], old: Sequence[Any], added: Sequence[Any]) -> None:
        """Puts the new files in the place of the old ones and of their vectors. Raises LostRace if rows of these were
        deleted since `read_at`, or they are gone: nothing was applied, and the new files are still there."""
        before = self.table
        for left in reversed(range(_TRIES)):
            self.table = self.tables.look_again(self.table)
            self._same_columns(self.table, before)
            update = self.table.java.newRewrite()
            update.validateFromSnapshot(caught_up(self._spark, self.table, read_at, paths))
            for file in old:
                update.deleteFile(file)
            for file in added:
                update.addFile(file)
            try:
                fence.commit(self._spark, self.table, update, (), _PROPERTIES, self._stream)
                return
            except LostRace:
                if not left:
                    raise


def halves(group: Group, target: int) -> Sequence[Group]:
    """The group's files as two groups; as it is, if it is one file."""
    files = sorted(group.files, key=lambda file: file.path)
    middle = len(files) // 2
    parts: list[Sequence[DataFile]] = [files[:middle], files[middle:]]
    return [
        Group(tuple(part), compaction_planner.files_of(sum(f.live_bytes for f in part), target))
        for part in parts
        if part
    ]
