"""The rows of a table with all that was acknowledged by now: what is committed, and what waits, folded by the same
rules.

A table is read as it is, but for the rows of those keys that a waiting change replaces or removes; the new rows of
these keys come last. Schema, key and dead letters are decided as the commit job decides them, so that a fresh read
gives the rows that the next commit will.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from firn.changes.metadata_columns import POSITION, SOURCE
from firn.config.names import TableName
from firn_lake.fresh.key_lookup import KeyColumns
from firn_lake.fresh.merge_pending import Result, appended, mirrored
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.fresh.pending_table import Waiting, as_it_will_be, state_of, waiting
from firn_lake.fresh.plain_values import typed
from firn_lake.reading.rows import BATCH_SIZE, Batches, Rows
from firn_lake.reading.versions import Version, version_at
from firn_lake.schemas.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


class FreshTable:
    """A table with what waits for it."""

    def __init__(self, catalog: "Catalog", look: Look, identifier: tuple[str, ...], table: "Table | None") -> None:
        """`look` was begun before `table` was loaded; None: no commit has made it yet."""
        self.catalog, self._look, self._identifier, self.table = catalog, look, identifier, table
        self.state = state_of(table) if table is not None else None

    @cached_property
    def waits(self) -> Sequence[Waiting]:
        """What waits for it, by stream. Raises NotFresh, StorageUnavailable."""
        if len(self._identifier) != 2:
            return ()  # of a nested namespace: Firn makes none
        return waiting(self._look, TableName(*self._identifier), self.state)

    @property
    def is_as_stored(self) -> bool:
        """Whether nothing waits for it. Raises NotFresh, StorageUnavailable."""
        return not self.waits

    @cached_property
    def version(self) -> Version:
        """The table as it is, with the columns that the waiting changes bring or widen. Raises NotFresh,
        StorageUnavailable."""
        now = version_at(self.table, None) if self.table is not None else None
        if now is not None and not self.waits:
            return now
        name = TableName(*self._identifier)
        if not self.waits:
            raise NotFresh(f"nothing waits for {name}, and no commit has made it")
        return as_it_will_be(name, now, self.waits)

    def read(
        self,
        schema: Schema,
        where: "str | BooleanExpression | None" = None,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> "Rows | FreshRows":
        """Rows with the columns of `schema` (Version.select). The rest as for Rows.

        Raises BadFilter, NotFresh, UnreadableFile, StorageUnavailable.
        """
        if not self.waits:
            return Rows(self.version, schema, where, batch_size, limit)
        first = self.waits[0]
        if first.mode.keyed:
            made = mirrored(self.catalog, self.table, self.state, first, self.version, where)
        else:
            made = appended(self.state, self.waits, self.version)
        return FreshRows(self.version, schema, where, made, batch_size, limit)


class RowsToCome(Batches):
    """Rows of a table as they will be. `snapshot`: the one that they stand on, None if there is none."""

    def __init__(
        self,
        version: Version,
        schema: Schema,
        where: "str | BooleanExpression | None",
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
    ) -> None:
        if batch_size < 1 or (limit is not None and limit < 0):
            raise ValueError("batch_size is 1 or more, limit 0 or more")
        super().__init__(arrow_schema(schema), self._batches)
        self.snapshot = version.id
        self._version, self._selected, self._where = version, schema, where
        self._bound = version.bound(where)
        self._size, self._limit = batch_size, limit

    def __repr__(self) -> str:
        return f"<fresh rows of {self._version.name} on snapshot {self.snapshot}: {', '.join(self.schema.names)}>"

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for batch in self._all():
            for first in range(0, batch.num_rows, self._size):
                if left == 0:
                    return
                part = batch.slice(first, self._size if left is None else min(left, self._size))
                left = None if left is None else left - part.num_rows
                yield part

    def _all(self) -> Iterator[pa.RecordBatch]:
        """All of them, in batches of any size."""
        raise NotImplementedError


class FreshRows(RowsToCome):
    """The rows of a table, and of what waits for it."""

    def __init__(
        self,
        version: Version,
        schema: Schema,
        where: "str | BooleanExpression | None",
        made: Result,
        batch_size: int = BATCH_SIZE,
        limit: int | None = None,
        stored: Callable[[Schema], Iterable[pa.RecordBatch]] | None = None,
    ) -> None:
        """`stored`: the rows that fit `where` as they are stored, with these columns; None: those of `version`."""
        super().__init__(version, schema, where, batch_size, limit)
        self._made = made
        self._stored = stored or (lambda some: Rows(version, some, where, batch_size))

    def _all(self) -> Iterator[pa.RecordBatch]:
        if self._made.committed:
            yield from self._committed()
        yield from self._new()

    def _committed(self) -> Iterator[pa.RecordBatch]:
        made = self._made
        if not made.replaced and not made.truncates:
            yield from self._stored(self._selected)
            return
        names = [*self.schema.names, *(column.name for column in made.key)]
        there = set(self._version.columns)
        own = [name for name in (POSITION, SOURCE) if made.truncates and name in there]
        schema = self._version.select([*names, *own], metadata=True)
        replaced = KeyColumns(made.key, made.replaced, arrow_schema(schema)) if made.replaced else None
        for found in self._stored(schema):
            gone = replaced.mask(found) if replaced else None
            batch = found if gone is None else found.filter(pc.invert(gone))
            if made.truncates:
                batch = batch.filter(pc.invert(_emptied(batch, made)))
            if batch.num_rows:
                yield batch.select(self.schema.names)

    def _new(self) -> Iterator[pa.RecordBatch]:
        made, count = self._made, len(next(iter(self._made.rows.values()), ()))
        if not count:
            return
        every = isinstance(self._bound, AlwaysTrue)
        looked_at = set(self.schema.names) if every else set(self._version.columns)
        schema = Schema(*(field for field in self._version.schema.fields if field.name in looked_at))
        types = arrow_schema(schema)
        arrays = [
            typed(made.rows[field.name], made.columns[field.name].type, field.type)
            if field.name in made.rows
            else _usual(told, field.type, count)
            for told, field in zip(schema.fields, types, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=types)
        if not every:
            batch = batch.filter(expression_to_pyarrow(self._bound, schema))
        if batch.num_rows:
            yield batch.select(self.schema.names).cast(self.schema)


def _usual(field: NestedField, kind: pa.DataType, rows: int) -> pa.Array:
    """What new rows have of a column that no stream writes."""
    if field.write_default is None:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(field.write_default, kind), rows)


def _emptied(batch: pa.RecordBatch, made: Result) -> pa.Array:
    """Which rows the truncates remove: those of their source tables that are older. A row without a position is older
    than any change; one of which it isn't known of which source table it is, is of each."""
    gone = pa.repeat(pa.scalar(False), batch.num_rows)
    sources = pa.nulls(batch.num_rows, pa.string())
    if SOURCE in batch.schema.names:
        sources = batch.column(SOURCE)
    if made.unnamed is not None:
        sources = pc.fill_null(sources, made.unnamed)
    for source, position in made.truncates.items():
        after = pc.fill_null(pc.greater(batch.column(POSITION), pa.scalar(position, pa.binary())), False)
        its = pc.fill_null(pc.equal(sources, source), True) if source is not None else pc.is_valid(after)
        gone = pc.or_(gone, pc.and_(its, pc.invert(after)))
    return gone
