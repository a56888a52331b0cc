"""What changed in a table between two snapshots: inserts, updates with what was before, and deletes."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.types import IcebergType

from firn.config.names import CHANGES
from firn.errors import TerminalError
from firn_lake.changes.cursor import Cursor
from firn_lake.changes.file_diff import Part, difference
from firn_lake.changes.row_diff import CHANGE, DELETE, INSERT, UPDATE, changes_schema, matched, one_sided
from firn_lake.reading.files import Source, read_file
from firn_lake.reading.lineage import changes_nothing, line
from firn_lake.reading.narrowed_table import NarrowedTable
from firn_lake.reading.rows import BATCH_SIZE, Batches
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.tables import key_of

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

SNAPSHOT: Final = "_snapshot"
COMMITTED: Final = "_committed_at"
_Rows: TypeAlias = Iterable[pa.RecordBatch]


class BadColumn(TerminalError):
    """A column of the table can't be in its changes, or its key is not what it should be."""


class NotOneLine(TerminalError):
    """There are no steps from one snapshot to the other: one is not an ancestor of the other, or some have expired."""


class Changes(Batches):
    """The changes of a table from one snapshot to another, in batches; read any number of times.

    Columns of a batch:
        _change   insert, update or delete
        …         the table's columns: the row as it is; of a delete, as it was
        _before   a struct of the same columns: the row as it was; null for an insert
    With steps also, after `_change`:
        _snapshot, _committed_at   whose step it is

    Net by default: a row that came and went is not there, and neither is one that was only rewritten. Rows are
    matched by the table's key. Without a key equal rows are counted, and there are no updates. Only the columns that
    are read are compared, all of them as the later snapshot has them: a column that came since was null before. In no
    promised order.

    from_, to  the snapshots' ids; from_ None: the empty table
    key        the columns that rows are matched by
    """

    def __init__(
        self,
        before: "Snapshot | None",
        after: Version,
        columns: Sequence[str] | None = None,
        metadata: bool = False,
        steps: bool = False,
        batch_size: int = BATCH_SIZE,
        narrowed: NarrowedTable | None = None,
    ) -> None:
        """From `before` (None: the empty table) to `after`, with these columns and always the key.

        metadata  Firn's own `_firn_…` columns too
        steps     each snapshot's own changes, oldest first, in place of the net ones
        narrowed  what of `after` may be read, if not all: each side's other rows are left out before they are matched

        Raises NoSuchColumn, BadColumn, NotOneLine.
        """
        if batch_size < 1:
            raise ValueError("batch_size is 1 or more")
        self.from_ = before.snapshot_id if before else None
        self.to = after.id
        self.key = key_then(after) if narrowed is None else narrowed.key
        self._before = before
        self._after = after if narrowed is None else narrowed.version
        self._size = batch_size
        self._narrowed = narrowed
        shown = self._columns(columns, metadata)
        looked_at = () if narrowed is None else narrowed.filtered_by
        known = {field.field_id for field in shown.fields}
        more = [field for field in looked_at if field.field_id not in known]
        self._read_as = _holding_both(Schema(*shown.fields, *more), before, after)
        self._rows = Schema(*self._read_as.fields[: len(known)])
        self._line = line(after.source.metadata, before, after.snapshot)
        if steps and self._line is None:
            raise NotOneLine(
                f"there are no steps of {after.name} from snapshot {self.from_} to {self.to}: one is not an ancestor "
                "of the other, or snapshots between them have expired. The net changes can be had: leave steps out"
            )
        self._steps = steps
        schema = changes_schema(arrow_schema(self._rows))
        if steps:
            schema = schema.insert(1, pa.field(SNAPSHOT, pa.int64()))
            schema = schema.insert(2, pa.field(COMMITTED, pa.timestamp("us", "UTC")))
        super().__init__(schema, self._batches)

    @property
    def cursor(self) -> Cursor:
        """Where to go on after these changes: `table.follow(cursor)`, `table.changes(cursor.snapshot)`."""
        return Cursor(str(self._after.source.metadata.table_uuid), self.to)

    def counts(self) -> dict[str, int]:
        """How many of each kind; reads them."""
        found = dict.fromkeys((INSERT, UPDATE, DELETE), 0)
        for batch in self:
            for one in batch.column(CHANGE).value_counts().to_pylist():
                found[one["values"]] += one["counts"]
        return found

    def __repr__(self) -> str:
        return f"<changes of {self._after.name} from snapshot {self.from_} to {self.to}>"

    def _columns(self, columns: Sequence[str] | None, metadata: bool) -> Schema:
        if columns is not None and not isinstance(columns, str):
            columns = [*self.key, *(name for name in columns if name not in self.key)]
        schema = self._after.select(columns, metadata)
        if hidden := [name for name in self.key if name not in {field.name for field in schema.fields}]:
            schema = self._after.select([*hidden, *(field.name for field in schema.fields)], metadata)  # a view's
        taken = sorted(CHANGES & {field.name for field in schema.fields})
        if taken:
            raise BadColumn(
                f"{self._after.name} has a column {taken[0]!r}, which changes have too: name the columns that you want"
            )
        return schema

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._stepwise() if self._steps else self._net():
            for first in range(0, batch.num_rows, self._size):
                yield batch.slice(first, self._size)

    def _net(self) -> Iterator[pa.RecordBatch]:
        only_rewritten = self._line is not None and all(self._only_rewrites(one) for one in self._line)
        if only_rewritten and self._shown(self._before) is self._before:
            return
        yield from self._between(self._before, self._after.snapshot)

    def _stepwise(self) -> Iterator[pa.RecordBatch]:
        before = self._before
        for snapshot in self._line or ():
            if not self._only_rewrites(snapshot) or self._shown(before) is not before:
                for batch in self._between(before, snapshot):
                    yield self._labelled(batch, snapshot)
            before = snapshot

    def _labelled(self, batch: pa.RecordBatch, snapshot: "Snapshot") -> pa.RecordBatch:
        time = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        kinds, *others = batch.columns
        ids = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), batch.num_rows)
        times = pa.repeat(pa.scalar(time, pa.timestamp("us", "UTC")), batch.num_rows)
        return pa.RecordBatch.from_arrays([kinds, ids, times, *others], schema=self.schema)

    def _shown(self, snapshot: "Snapshot | None") -> "Snapshot | None":
        """None, the empty table, where none of a snapshot's rows may be read."""
        return snapshot if self._narrowed is None or self._narrowed.shows_rows_at(snapshot) else None

    def _between(self, before: "Snapshot | None", after: "Snapshot | None") -> Iterator[pa.RecordBatch]:
        before, after = self._shown(before), self._shown(after)
        if before is after is None:
            return
        left, came = self._sides(before, after)
        rows = arrow_schema(self._rows)
        if not left:
            yield from one_sided(INSERT, chain.from_iterable(came), rows)
        elif not came:
            yield from one_sided(DELETE, chain.from_iterable(left), rows)
        else:
            names = [field.name for field in self._rows.fields]
            places = [names.index(name) for name in self.key]
            yield from matched(chain.from_iterable(left), chain.from_iterable(came), rows, places)

    def _only_rewrites(self, snapshot: "Snapshot") -> bool:
        """Whether a snapshot changes no row."""
        return changes_nothing(snapshot)

    def _sides(self, before: "Snapshot | None", after: "Snapshot | None") -> tuple[Sequence[_Rows], Sequence[_Rows]]:
        """The rows that left, and those that came; nothing where none can have."""
        found = difference(self._after.source, before, after)
        left, came = self._rows_of(found.left, before), self._rows_of(found.came, after)
        return [left] if found.left else [], [came] if found.came else []

    def _rows_of(self, parts: Iterable[Part], snapshot: "Snapshot | None") -> Iterator[pa.RecordBatch]:
        then = self._after.source
        source = Source(then.io, then.metadata, then.table, snapshot.snapshot_id if snapshot else None)
        names = [field.name for field in self._rows.fields]
        for part in parts:
            for batch in read_file(source, part.file, self._read_as, part.gone, part.only):
                yield batch if self._narrowed is None else self._narrowed.keep(batch).select(names)


def _holding_both(schema: Schema, before: "Snapshot | None", after: Version) -> Schema:
    """The schema with types that the rows of both snapshots fit: backwards, a widened column stays wide."""
    by_id = {one.schema_id: one for one in after.source.metadata.schemas}
    earlier = by_id.get(before.schema_id) if before is not None and before.schema_id is not None else None
    if earlier is None:
        return schema
    types = {field.field_id: field.field_type for field in earlier.fields}
    return Schema(
        *(
            field.model_copy(update={"field_type": _wider(field.field_type, types.get(field.field_id))})
            for field in schema.fields
        )
    )


def _wider(kind: IcebergType, other: IcebergType | None) -> IcebergType:
    if other is None or other == kind:
        return kind
    try:
        return promote(kind, other)
    except ResolveError:
        return kind


def key_then(version: Version) -> tuple[str, ...]:
    """The key under the names that its columns had then. Raises BadColumn if the version lacks one of them."""
    today = {field.name: field.field_id for field in version.source.metadata.schema().fields}
    then = {field.field_id: field.name for field in version.schema.fields}
    found = []
    for name in key_of(version.source.metadata):
        named = then.get(today[name]) if name in today else name if name in version.columns else None
        if named is None:
            raise BadColumn(
                f"{version.name} has the key ({', '.join(key_of(version.source.metadata))}) but no column {name!r}: "
                f"its rows can't be matched. It has {', '.join(version.columns)}"
            )
        found.append(named)
    return tuple(found)
