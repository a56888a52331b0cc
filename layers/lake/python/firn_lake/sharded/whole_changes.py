"""What changed in all shards of a table between two moments. A row that left one and came into another is an update."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyiceberg.schema import Schema

from firn.tables.shard_names import SHARDS_AT
from firn_lake.changes.cursor import Cursor
from firn_lake.changes.file_diff import Part, difference
from firn_lake.changes.follow import Followed
from firn_lake.changes.row_changes import Changes
from firn_lake.reading.files import Source, read_file
from firn_lake.reading.lineage import changes_nothing
from firn_lake.reading.narrowed_table import NarrowedTable
from firn_lake.reading.rows import BATCH_SIZE
from firn_lake.reading.versions import Version, version_of
from firn_lake.schemas.arrow_types import arrow_schema, cast
from firn_lake.sharded.shard_columns import as_shard_has
from firn_lake.sharded.whole_version import Shards, WholeVersion

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_Rows: TypeAlias = Iterable[pa.RecordBatch]


class WholeChanges(Changes):
    """The changes of all shards. `from_` and `to` are the rest's snapshots."""

    def __init__(
        self,
        before: "Snapshot | None",
        after: WholeVersion,
        columns: Sequence[str] | None = None,
        metadata: bool = False,
        steps: bool = False,
        batch_size: int = BATCH_SIZE,
        narrowed: NarrowedTable | None = None,
    ) -> None:
        """As for Changes. `before`: the rest's."""
        super().__init__(before, after.version, columns, metadata, steps, batch_size, narrowed)
        self._shards = after.shards

    @property
    def cursor(self) -> Cursor:
        """As Changes says: one of all shards is none of the rest's."""
        return Cursor(_cursor_id(self._shards), self.to)

    def _only_rewrites(self, snapshot: "Snapshot") -> bool:
        return rewrites_only(snapshot)

    def _sides(self, before: "Snapshot | None", after: "Snapshot | None") -> tuple[Sequence[_Rows], Sequence[_Rows]]:
        left: list[_Rows] = []
        came: list[_Rows] = []
        for source, schema, then, now in _moved(self._shards, before, after, self._read_as):
            found = difference(source, then, now)
            if found.left:
                left.append(self._of_shard(source, schema, found.left, then))
            if found.came:
                came.append(self._of_shard(source, schema, found.came, now))
        return left, came

    def _of_shard(
        self, source: Source, schema: Schema, parts: Iterable[Part], snapshot: "Snapshot | None"
    ) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self._rows.fields]
        kinds = arrow_schema(self._read_as)
        at = Source(source.io, source.metadata, source.table, snapshot.snapshot_id if snapshot else None)
        for part in parts:
            for batch in read_file(at, part.file, schema, part.gone, part.only):
                found = cast(batch.columns, kinds)
                yield found if self._narrowed is None else self._narrowed.keep(found).select(names)


def rewrites_only(snapshot: "Snapshot") -> bool:
    """Whether a snapshot of the rest changes no row of any shard."""
    return not _leads(snapshot) and changes_nothing(snapshot)


def all_shards(
    shards: Shards, rest: "Table", columns: Sequence[str] | None = None, metadata: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Followed:  # fmt: skip
    """All shards, for who follows them, from cut to cut; all changes in the schema of the newest. `rest`: the table
    that leads, as it is now."""
    schema = WholeVersion(shards, version_of(rest, rest.current_snapshot())).version.schema
    by_id = {one.snapshot_id: one for one in rest.metadata.snapshots}

    def between(before: "Snapshot | None", after: "Snapshot") -> Changes:
        whole = WholeVersion(shards, version_of(rest, after))
        whole = whole.reading_as(replace(whole.version, schema=schema))
        return WholeChanges(before, whole, columns, metadata, False, batch_size)

    def standing(snapshot: "Snapshot") -> bool:
        """Not while a commit rewrites a column of all shards, and has not done with it."""
        at: Snapshot | None = snapshot
        while at is not None and not _leads(at):
            at = None if at.parent_snapshot_id is None else by_id.get(at.parent_snapshot_id)
        return at is None or at.schema_id == snapshot.schema_id

    return Followed(shards.name, _cursor_id(shards), rest, between, standing, rewrites_only)


def _leads(snapshot: "Snapshot") -> bool:
    return snapshot.summary is not None and SHARDS_AT in snapshot.summary.additional_properties


def _cursor_id(shards: Shards) -> str:
    return f"shards of {shards.rest.metadata.table_uuid}"


def _moved(
    shards: Shards, before: "Snapshot | None", after: "Snapshot | None", schema: Schema
) -> "Iterator[tuple[Source, Schema, Snapshot | None, Snapshot | None]]":
    """Each shard that has another snapshot at the one moment than at the other, with the columns as it has them: those
    that the rest did not have then, by its numbers, are null, as those of one table are."""
    rest = version_of(shards.rest, after or before)
    yield rest.source, schema, before, after
    cuts = shards.cut_at(before), shards.cut_at(after)
    then, now = (cut.by_table for cut in cuts)
    known = [version_of(shards.rest, cut.leading).schema.field_ids for cut in cuts]
    for table in sorted({*then, *now}):
        if table in then and table in now and then[table].snapshot == now[table].snapshot:
            continue
        old, new = (shards.snapshot(table, at[table]) if table in at else None for at in (then, now))
        its: Version = version_of(shards.table(table), new or old)
        there = {field.name for field in schema.fields if field.field_id in known[table in now]}
        had = Schema(*(field for field in its.schema.fields if field.name in there))
        columns = as_shard_has(schema, had, its.name, its.source.metadata.last_column_id + 1)
        yield its.source, columns, old, new
