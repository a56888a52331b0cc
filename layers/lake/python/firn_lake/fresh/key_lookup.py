"""Rows of a table by their keys: found by PyIceberg, told apart exactly."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.schema import Schema

from firn.changes.decode.iceberg_fields import HELD_TYPE
from firn.changes.decode.types import BINARY, Column
from firn.changes.merge.fold import Key, Row, key_of
from firn.changes.merge.ordering import read_held, total
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, SOURCE_METADATA
from firn_lake.fresh.plain_values import plain, typed
from firn_lake.reading.rows import BATCH_SIZE, Batches, Rows
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema

# Types whose bounds are compared as their values are.
_RANGED: Final = frozenset(
    {"int", "long", "date", "string", "uuid", "decimal", "timestamp", "timestamptz"}
    | {"timestamp_ns", "timestamptz_ns"}
)
Read = Callable[[Schema, BooleanExpression | None], Batches]
_FEW: Final = 200  # PyIceberg compares so many values with the bounds of a file, and more with none


class KeyColumns:
    """The columns of a key in Arrow, and which rows of a batch have one of some keys."""

    def __init__(self, key: Sequence[Column], keys: Collection[Key], schema: pa.Schema) -> None:
        """`schema`: that of the batches."""
        self._key = key
        self._keys = set(keys)
        self.columns = [
            typed({one[i] for one in self._keys}, column.type, schema.field(column.name).type)
            for i, column in enumerate(key)
        ]

    def mask(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows have one of the keys; None: none has."""
        found, exact_too = None, len(self._key) > 1
        for column, values in zip(self._key, self.columns, strict=True):
            if column.type.element is not None:  # Arrow looks for no lists
                exact_too = True
                continue
            here = _is_in(batch.column(column.name), values)
            found = here if found is None else pc.and_(found, here)
        if found is None:
            found = pa.repeat(bool(self._keys), batch.num_rows)
        if not pc.any(found).as_py():
            return None
        if not exact_too:
            return found
        places = pc.indices_nonzero(found)
        exact = [one in self._keys for one in keys_in(batch.take(places), self._key)]
        if not any(exact):
            return None
        return pc.is_in(pa.array(range(batch.num_rows), pa.uint64()), value_set=places.filter(pa.array(exact)))

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def condition(self) -> BooleanExpression:
        """What the files that hold the keys fulfil: bounds or values of each column of the key."""
        found: BooleanExpression = AlwaysTrue()
        for column, values in zip(self._key, self.columns, strict=True):
            if column.type.name not in _RANGED or values.null_count or not len(values):
                continue
            if column.type.name in ("timestamp_ns", "timestamptz_ns"):  # Python's own have no nanoseconds
                values = values.cast(pa.int64())
            try:
                literals = sorted(set(values.to_pylist()))
            except (ValueError, OverflowError):  # beyond Python's years
                continue
            name = column.name
            some: BooleanExpression
            if len(literals) <= _FEW:
                some = In(name, literals)  # type: ignore[call-arg, arg-type]
            else:
                some = And(
                    GreaterThanOrEqual(name, literals[0]),  # type: ignore[call-arg, arg-type]
                    LessThanOrEqual(name, literals[-1]),  # type: ignore[call-arg, arg-type]
                )
            found = And(found, some)
        return found


class RowsByKey:
    """Some columns of the rows of some keys."""

    def __init__(
        self,
        version: Version,
        key: Sequence[Column],
        columns: Sequence[str],
        *,
        rows: bool = False,
        read: Read | None = None,
    ) -> None:
        """`rows`: with what `rows` needs. Columns that the table lacks are null. `read`: how rows with the columns of a
        schema are read that may fit an expression (None: any); None: as those of `version`."""
        self._version, self._key, self._columns = version, key, columns
        self._rows_of = read or (lambda schema, files: Rows(version, schema, None, BATCH_SIZE, files=files))
        more = [POSITION, HELD, SOURCE] if rows else []
        there = set(version.columns)
        self._read = [name for name in dict.fromkeys([*(c.name for c in key), *columns, *more]) if name in there]
        self._whole = all(column.name in there for column in key)

    def batches(self, keys: "Collection[Key] | KeyColumns | None") -> Iterator[pa.RecordBatch]:
        """The rows of these keys (None: all). Several tables are looked up by one KeyColumns."""
        if not self._whole or (keys is not None and not keys):
            return
        schema = self._version.select(self._read, metadata=True)
        if keys is None or isinstance(keys, KeyColumns):
            wanted = keys
        else:
            wanted = KeyColumns(self._key, keys, arrow_schema(schema))
        # What `mask` tells exactly need only leave out files here, and Arrow compares no uuids.
        for batch in self._rows_of(schema, wanted.condition if wanted else None):
            if wanted is None:
                yield batch
            elif (mask := wanted.mask(batch)) is not None:
                yield batch.filter(mask)

    def read(
        self, keys: Collection[Key] | None, only: Callable[[pa.RecordBatch], pa.Array] | None = None
    ) -> Iterator[tuple[Key, tuple[Any, ...]]]:
        """(key, values of the columns) of each. `only`: which rows of a batch, None: all."""
        for batch in self.batches(keys):
            if only is not None:
                batch = batch.filter(only(batch))
            nothing = [None] * batch.num_rows
            there = set(batch.schema.names)
            values = [batch.column(name).to_pylist() if name in there else nothing for name in self._columns]
            yield from zip(keys_in(batch, self._key), zip(*values, strict=True), strict=True)

    def rows(
        self, columns: Sequence[Column], keys: Collection[Key] | KeyColumns | None, unnamed: str | None
    ) -> Iterator[tuple[Key, Row]]:
        """The same as rows of changes.merge. `unnamed`: the source table of rows that name none."""
        for batch in self.batches(keys):
            yield from rows_in(batch, self._version, columns, self._key, unnamed)


def rows_in(
    batch: pa.RecordBatch, version: Version, columns: Sequence[Column], key: Sequence[Column], unnamed: str | None
) -> Iterator[tuple[Key, Row]]:
    """The rows of a batch of `version` as changes.merge knows them. `columns`: whose values they have;
    `unnamed`: the source table of rows that name none."""
    names = {field.field_id: field.name for field in version.schema.fields}
    found = values_in(batch, columns)
    orders = _column(batch, POSITION, Column(POSITION, BINARY))
    held = _column(batch, HELD, Column(HELD, HELD_TYPE))
    sources = _column(batch, SOURCE, SOURCE_METADATA)
    for i, one in enumerate(keys_in(batch, key)):
        values = {name: column[i] for name, column in found.items()}
        yield one, Row(values, total(orders[i]), read_held(held[i], names), sources[i] or unnamed)


def keys_in(batch: pa.RecordBatch, key: Sequence[Column]) -> list[Key]:
    """The key of each row."""
    found = zip(*(plain(batch.column(column.name), column.type) for column in key), strict=True)
    odd = any(column.type.name in ("float", "double") or column.type.element is not None for column in key)
    return list(map(key_of, found) if odd else found)


def values_in(batch: pa.RecordBatch, columns: Iterable[Column]) -> Mapping[str, list[Any]]:
    """The values of the columns by name; null where the batch has no such column."""
    return {column.name: _column(batch, column.name, column) for column in columns}


def _column(batch: pa.RecordBatch, name: str, column: Column) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    return plain(batch.column(name), column.type)


def _is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column, values = column.storage, values.storage
    return pc.is_in(column, value_set=values)
