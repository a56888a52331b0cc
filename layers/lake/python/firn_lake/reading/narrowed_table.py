"""A table as a reader of some of it has it: fewer columns, and only rows that fit its conditions.

Rows are left out here, before anything else looks at them: what DuckDB says of a value that it can't cast, or how many
there are, is said of the rows that are left.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from firn.changes.row_condition import Condition
from firn.config.names import is_own_column
from firn.config.readable_rows import check_rows
from firn.config.reader_scopes import TableGrant
from firn.config.sql_text import SqlRefused
from firn.errors import FirnError, TransientError
from firn.tables.snapshot_history import NoSuchMoment
from firn_lake.reading.needed_files import needed_for
from firn_lake.reading.row_filter import UnfitRows, kept, require_fit
from firn_lake.reading.rows import Batches
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.tables import key_of

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

Read: TypeAlias = Callable[[Schema, BooleanExpression], Batches]


class NarrowedTable:
    """A table at one moment, of which a part may be read."""

    def __init__(self, full: Version, grant: TableGrant) -> None:
        """Names in the grant are those of today's columns, and mean the same columns at an earlier moment.

        Raises UnfitRows if a condition can't be asked of the table, NoSuchMoment if none of the columns was there.
        """
        self.full, self._grant = full, grant
        self._today = {field.name: field.field_id for field in full.source.metadata.schema().fields}
        self._then = {field.field_id: field for field in full.schema.fields}
        self._tests: list[Condition] = []
        self._looked_at: dict[str, NestedField] = {}
        self._sees_rows = True
        for text in grant.rows:
            self._add(text)
        if self._sees_rows:
            types = dict(zip(self._looked_at, arrow_schema(Schema(*self._looked_at.values())).types, strict=True))
            for test in self._tests:
                require_fit(test, types)

    @property
    def hides_rows(self) -> bool:
        """Whether some rows may be left out."""
        return bool(self._grant.rows)

    @property
    def _shows_all(self) -> bool:
        # What a view keeps for its next refresh, and tells its rows by, is made of what it need not show.
        return self._grant.is_whole and self.full.source.metadata.properties.get("firn.mode") != "view"

    @cached_property
    def version(self) -> Version:
        """The table with those columns alone that may be read. Raises NoSuchMoment."""
        note = f"{self.full.name} is of an earlier moment than was asked for" if self.full.note else ""
        if self._shows_all:
            return replace(self.full, note=note)
        fields = [one for one in self.full.schema.fields if one.field_id in self.field_ids]
        if not fields:
            raise NoSuchMoment(f"{self.full.name} had none of the columns that may be read")
        return replace(self.full, schema=Schema(*fields, schema_id=self.full.schema.schema_id), note=note)

    @cached_property
    def field_ids(self) -> frozenset[int]:
        """The ids of the columns that may be read, of those that there are at that moment."""
        if self._shows_all:
            return frozenset(self._then)
        columns = self._grant.columns
        named = None if columns is None else {id for name, id in self._today.items() if name in columns}
        return frozenset(
            id for id, one in self._then.items() if not is_own_column(one.name) and (named is None or id in named)
        )

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart, as they were called then; none where not all of them may be read."""
        ids = [self._today.get(name) for name in key_of(self.full.source.metadata)]
        fields = [self._then[id] for id in ids if id is not None and id in self.field_ids]
        return tuple(one.name for one in fields) if len(fields) == len(ids) else ()

    @property
    def filtered_by(self) -> tuple[NestedField, ...]:
        """The columns that `keep` looks at."""
        return tuple({field.field_id: field for field in self._looked_at.values()}.values())

    @property
    def needed(self) -> BooleanExpression:
        """True of all rows that may be read, by the columns of `full`: what holds none of them need not be opened."""
        if not self._sees_rows:
            return AlwaysTrue()
        clear = all(self.full.schema.find_field(one.name).field_id == one.field_id for one in self._looked_at.values())
        return needed_for(self._tests, self._looked_at) if clear else AlwaysTrue()

    def shows_rows_at(self, snapshot: "Snapshot | None") -> bool:
        """Whether the columns that `keep` looks at were there at a snapshot: before, nobody can tell whose rows were.
        None: the empty table, of which nothing is left out."""
        if snapshot is None or not self._grant.rows:
            return True
        metadata = self.full.source.metadata
        if snapshot.snapshot_id == self.full.id:
            return self._sees_rows
        schemas = {one.schema_id: one for one in metadata.schemas}
        written = (
            metadata.schema() if snapshot.schema_id is None else schemas.get(snapshot.schema_id, metadata.schema())
        )
        return self._sees_rows and {one.field_id for one in self.filtered_by} <= {*written.field_ids}

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that may be read. It has the columns of `filtered_by`."""
        if not self._grant.rows:
            return batch
        if not self._sees_rows:
            return batch.slice(0, 0)
        columns = {name: batch.column(field.name) for name, field in self._looked_at.items()}
        return batch.filter(kept(self._tests, columns, batch.num_rows))

    def reading(self, read: Read, passing: tuple[type[FirnError], ...] = ()) -> Read:
        """The same way to read, for columns of `version`, without the rows that may not be read. `passing`: errors that
        stay what they are; any other but TransientError is an UnreadableFile."""
        return lambda schema, files: Batches(arrow_schema(schema), lambda: self._kept(read, schema, files, passing))

    def _kept(
        self, read: Read, schema: Schema, files: BooleanExpression, passing: tuple[type[FirnError], ...]
    ) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in schema.fields]
        more = [field for field in self.filtered_by if field.name not in names]
        with_rows = Schema(*schema.fields, *more)
        try:
            for batch in read(with_rows, files):
                if (left := self.keep(batch)).num_rows:
                    yield left.select(names)
        except (TransientError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, passing):
                raise
            # Its text may hold what lies in rows that may not be read, and where files are.
            raise UnreadableFile(f"{self.full.name} can't be read: tell those who run this lake") from error

    def _add(self, text: str) -> None:
        try:
            condition = check_rows(text)
        except SqlRefused as error:  # of a newer version than this
            raise UnfitRows("a condition can't be read") from error
        self._tests.append(condition.test)
        for name in condition.fields:
            if name not in self._today:
                raise UnfitRows("the table has no column of that name")
            field = self._then.get(self._today[name])
            if field is None:
                self._sees_rows = False  # at that moment nobody can tell whose its rows were
            else:
                self._looked_at[name] = field
