"""Data files of a table, written a bounded number of rows at a time; no commit knows them yet.

Rows are told apart by partition here: PyIceberg does that with a library that not everybody has.
"""

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
from pyiceberg.partitioning import PartitionField, PartitionKey, PartitionSpec, _to_partition_representation
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties, WriteTask
from pyiceberg.typedef import Record
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from firn.errors import TerminalError
from firn_lake.schemas import null_lists  # noqa: F401 (as it is imported)
from firn_lake.variant_type import variants_in
from firn_lake.writing import kept_rows, lineage_snapshot

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

_AT_ONCE: Final = 128 * 1024 * 1024
"""Bytes of rows in memory that become one file (in a partitioned table, one file of each partition in them)."""

_UNKNOWN: Final = (TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES, "write.parquet.bloom-filter-")


class CannotWriteType(TerminalError):
    """Rows of the table can't be written here; the text names the column."""


@dataclass(frozen=True)
class _Partition:
    """What PyIceberg asks of a PartitionKey, which itself takes no two fields of one column."""

    partition: Record
    spec: PartitionSpec
    schema: Schema

    def to_path(self) -> str:
        return self.spec.partition_to_path(self.partition, self.schema)


def write_files(
    metadata: "TableMetadata", io: "FileIO", batches: Iterable[pa.RecordBatch], *, kept: bool = False
) -> "list[DataFile]":
    """The rows as data files under the table's current schema and partitioning: at most `_AT_ONCE` in memory.

    batches  as firn_lake.schemas.arrow_types.arrow_schema(metadata.schema()) has them
    kept     they are rows of the table that are written again, as kept_rows.KeptRows reads them

    What was written is removed if something goes wrong. Raises CannotWriteType, and what the storage raises.
    """
    if variants := variants_in(metadata.schema()):
        columns = ", ".join(sorted(str(metadata.schema().find_column_name(one)) for one in variants))
        raise CannotWriteType(
            f"{columns} of the table is a variant, which is not written from here: Spark and the streams of Firn write "
            "such tables"
        )
    written: list[DataFile] = []
    name, numbers = uuid.uuid4(), itertools.count(0)
    if kept and metadata.format_version >= lineage_snapshot.FORMAT:
        metadata = _with_ids(metadata)
    schema = metadata.schema()
    try:
        for rows in _together(batches):
            known = _settings(metadata.properties, rows) | _without_bounds(schema)
            settings = metadata.model_copy(update={"properties": known})
            named = pyarrow_to_schema(
                rows.schema, name_mapping=schema.name_mapping, format_version=metadata.format_version
            )
            for partition, part in _parted(rows, metadata.spec(), schema):
                key = cast(PartitionKey | None, partition)
                for some in _pieces(part, metadata.properties):
                    task = WriteTask(name, next(numbers), named, some.combine_chunks().to_batches(), partition_key=key)
                    written.extend(write_file(io, settings, iter([task])))
    except BaseException:
        remove_files(io, written)
        raise
    return written


def _with_ids(metadata: "TableMetadata") -> "TableMetadata":
    """The table, with the columns that tell which row is which: to write files, which have them, and no metadata."""
    schemas = [
        kept_rows.schema_with_ids(one) if one.schema_id == metadata.current_schema_id else one
        for one in metadata.schemas
    ]
    return metadata.model_copy(update={"schemas": schemas})


def remove_files(io: "FileIO", files: "Sequence[DataFile]") -> None:
    """Removes files that no commit took. One that can't be removed is only in the way."""
    for file in files:
        with suppress(Exception):
            io.delete(file.file_path)


def _settings(properties: Mapping[str, str], rows: pa.Table) -> dict[str, str]:
    """The table's properties as PyIceberg's writer knows them: it warns of others, and counts row groups in rows."""
    known = {name: value for name, value in properties.items() if not name.startswith(_UNKNOWN)}
    size = properties.get(TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES, "")
    if size.isdecimal() and rows.num_rows:
        limit = str(max(1_000, int(size) // max(1, rows.nbytes // rows.num_rows)))
        known.setdefault(TableProperties.PARQUET_ROW_GROUP_LIMIT, limit)
    return known


def _without_bounds(schema: Schema) -> dict[str, str]:
    """Columns of nanoseconds have counts alone: PyIceberg cuts their bounds to microseconds, so that readers would pass
    by what lies above, and without pandas it fails."""
    return {
        f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{schema.find_column_name(number)}": "counts"
        for number, field in schema._lazy_id_to_field.items()
        if isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType)
    }


def _pieces(rows: pa.Table, properties: Mapping[str, str]) -> Iterator[pa.Table]:
    """The rows of each file, by the table's target size: as they are in memory, which is more than in the file."""
    target = properties.get(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, "")
    most = rows.num_rows
    if target.isdecimal() and rows.nbytes > int(target):
        most = max(1_000, int(target) * rows.num_rows // rows.nbytes)
    return (rows.slice(first, most) for first in range(0, rows.num_rows, max(1, most)))


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= _AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _parted(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[tuple[_Partition | None, pa.Table]]:
    """The rows of each partition."""
    if spec.is_unpartitioned():
        yield None, rows
        return
    fields = [_values(rows, field, schema) for field in spec.fields]
    mixed = pa.array([0] * rows.num_rows, pa.int64())
    for values, codes in fields:
        mixed = pc.add(pc.multiply(mixed, len(values)), codes)
    order = pc.sort_indices(mixed)
    rows = rows.take(order)
    runs = pc.run_end_encode(mixed.take(order).cast(pa.int64()))
    first = 0
    for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        record = []
        for values, _ in reversed(fields):
            code, place = divmod(code, len(values))
            record.append(values[place])
        yield _Partition(Record(*reversed(record)), spec, schema), rows.slice(first, end - first)
        first = end


def _values(rows: pa.Table, field: PartitionField, schema: Schema) -> tuple[list[Any], pa.Array]:
    """(the partition values that there are; the place among them of each row's)"""
    kind = schema.find_type(field.source_id)
    encoded = _column(rows, schema.find_column_name(field.source_id) or "").dictionary_encode()
    transform = field.transform.transform(cast(Any, kind))
    there = encoded.dictionary
    if pa.types.is_timestamp(there.type) and there.type.unit == "ns":  # Python's own have no nanoseconds
        there = there.cast(pa.int64())
    each = [transform(_to_partition_representation(cast(Any, kind), value)) for value in there.to_pylist()]
    values = list(dict.fromkeys([*each, None]))
    places = {value: place for place, value in enumerate(values)}
    codes = pa.array([places[value] for value in each], pa.int64()).take(encoded.indices)
    return values, codes.fill_null(places[None])


def _column(rows: pa.Table, name: str) -> pa.Array:
    """A column, or one inside structs: `a.b`."""
    if name in rows.schema.names:
        found = rows.column(name).combine_chunks()
    else:
        first, *rest = name.split(".")
        found = rows.column(first).combine_chunks()
        for one in rest:
            found = pc.struct_field(found, one)
    return found.storage if isinstance(found, pa.ExtensionArray) else found
