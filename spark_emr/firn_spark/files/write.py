"""New data files, written without the JVM, by whatever process has the rows: Parquet with the table's field ids. What
Iceberg says of them, its own metrics among it, is made by the job (`data_files`)."""

import builtins
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, Type, storable
from firn.changes.metadata_columns import IDENTITY
from firn.config.file_writing import BloomSize
from firn.tables import bloom_filters
from firn_spark.files import parquet_options, partition_values, values
from firn_spark.files.variant_footer import annotated
from firn_spark.parallel import each_of
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import elements, java_class
from firn_spark.tables.locations import data_folder, is_too_long, of_new_file
from firn_spark.tables.objects import Objects
from firn_spark.tables.parquet_metrics import FooterMetrics, footer_of

_ROWS = 400_000  # of a file, at most
_LEAST_ROWS = 1_000  # of a file or a row group, however small it is to be
_SAMPLE = 10_000  # rows that tell how large others become
_AT_ONCE = 4  # files
_SPREAD = 64  # folders, where a table spreads its files


@dataclass(frozen=True)
class PartitionField:
    """A field of a partition spec: its name, the transform as Iceberg writes it, and the type and the name of its
    column: of a part of a struct the names on the way to it, none of a column that was dropped."""

    name: str
    transform: str
    kind: str
    column: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """How the new data files of a table are written. Goes to other processes.

    fields     of the files (values.file_field), in the table's order
    options    of pq.write_table (parquet_options)
    target     bytes of a file, about, None for however many; group: of a row group, in memory
    blooms     the columns with a Bloom filter, and how large it is to be
    partition  the fields of its partition spec
    order      the columns by which rewritten rows lie: the key's, as far as look-ups search its columns in runs
    locations  where files go: what is before a name, and after it; several where the table spreads them
    home       where the table lies
    """

    fields: tuple[pa.Field, ...]
    options: Mapping[str, Any]
    target: int | None
    group: int | None
    blooms: Mapping[str, BloomSize]
    partition: tuple[PartitionField, ...]
    order: tuple[Column, ...]
    locations: Sequence[tuple[str, str]]
    home: str


@dataclass(frozen=True)
class NewFile:
    """A data file that is in no snapshot yet. `partition`: its values (partition_values), None if there is none;
    `footer`: Parquet's."""

    path: str
    bytes: int
    rows: int
    partition: tuple[str | None, ...] | None
    footer: builtins.bytes


def layout_of(table: Table) -> Layout:
    """The table's, as it is now. Raises TerminalError for one that should not be written."""
    state, partition = table.state, tuple(partition_fields(table))
    partition_values.check((one.transform, one.kind) for one in partition)
    said = state.properties
    fields = tuple(values.file_field(field) for field in state.fields)
    names = {field.name for field in fields}
    blooms = {name: bloom_filters.size_of(name, said) for name in bloom_filters.enabled(said) if name in names}
    known = {column.name: replace(column, type=storable(column.type)) for column in table.columns()[0]}
    order = tuple(known[name] for name in table.key() or () if name in known)
    target, group = parquet_options.target_of(said), parquet_options.row_group_of(said)
    options = parquet_options.options_of(said)
    return Layout(fields, options, target, group, blooms, partition, order, _locations(table), state.location)


def _locations(table: Table) -> list[tuple[str, str]]:
    if (folder := data_folder(table.state)) is not None:
        return [(f"{folder}/", "")]
    provider = table.java.locationProvider()

    def drawn() -> tuple[str, str]:
        name = uuid.uuid4().hex
        before, _, after = str(provider.newDataLocation(name)).partition(name)
        return before, after

    first, second = drawn(), drawn()
    # By a hash of the name, against limits of requests a prefix (write.object-storage.enabled).
    return [first] if first == second else [first, second, *(drawn() for _ in range(_SPREAD - 2))]


def partition_fields(table: Table) -> list[PartitionField]:
    """The fields of the table's spec."""
    known = {number: (kind, path) for number, kind, path in _paths(table.state.fields, ())}
    if not table.state.partitioned_by:
        return []  # and it was never partitioned: of most tables nothing is to be asked
    told = (
        (str(one.name()), str(one.transform().toString()), int(one.sourceId()))
        for one in elements(table.java.spec().fields())
    )
    return [PartitionField(name, transform, *known.get(source, ("void", ()))) for name, transform, source in told]


def _paths(fields: Iterable[Mapping[str, Any]], above: tuple[str, ...]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The id, the type and the path of each column, and of each part of a struct."""
    for field in fields:
        kind, path = field["type"], (*above, str(field["name"]))
        yield int(field["id"]), str(kind), path
        if isinstance(kind, Mapping) and kind["type"] == "struct":
            yield from _paths(kind["fields"], path)


def rows_of(
    layout: Layout, columns: Sequence[Column], arrays: Mapping[str, Any], values_of: Mapping[str, Any]
) -> pa.Table:
    """Rows as the files have them: first those of `arrays`, then those of `values_of`. What the table has beside them
    is null, or its default (values.untold).

    columns    the types of what they hold
    arrays     Arrow arrays by name, of equal length, in the types that decoding gives (columns.arrow_type)
    values_of  Python values by name, of equal length; Arrow arrays of columns that are not in `columns`
    """
    first, then = (len(next(iter(some.values()), ())) for some in (arrays, values_of))
    kinds = {column.name: column.type for column in columns}

    def cells(field: pa.Field) -> Any:
        name = field.name
        parts = []
        if first:
            parts.append(
                _cells(arrays[name], kinds.get(name), field) if name in arrays else values.untold(first, field)
            )
        if then:
            parts.append(_written_cells(values_of.get(name), kinds.get(name), field, then))
        chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        return pa.chunked_array(chunks, field.type)

    return pa.table([cells(field) for field in layout.fields], schema=pa.schema(layout.fields))


def _written_cells(told: Any, kind: Type | None, field: pa.Field, rows: int) -> Any:
    if told is None:
        return values.untold(rows, field)
    return values.written(told, kind, field) if kind is not None else told


def _cells(array: Any, kind: Type | None, field: pa.Field) -> Any:
    if kind is not None and values.differs_in_files(kind):
        return values.written(values.decoded(array, kind), kind, field)
    return array.cast(field.type)


def ordered(layout: Layout, rows: pa.Table) -> pa.Table:
    """The rows in the table's order of keys, so that look-ups search them in runs."""
    if not layout.order or not len(rows):
        return rows
    keys = pa.table({one.name: values.found(rows[one.name], one.type) for one in layout.order})
    return rows.take(pc.sort_indices(keys, [(one.name, "ascending") for one in layout.order]))


def write_rows(layout: Layout, rows: pa.Table) -> list[NewFile]:
    """Data files of these rows (`rows_of`), none for no rows, some for each partition. Raises StorageUnavailable,
    UnknownOutcome."""
    each = (
        (partition, part.slice(first, rows_of_one))
        for partition, part in partitioned(layout, rows)
        for rows_of_one in [_rows_of_file(layout, part)]
        for first in range(0, len(part), rows_of_one)
    )
    return each_of(lambda part: _written(layout, *part), each, _AT_ONCE)


def partitioned(layout: Layout, rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...] | None, pa.Table]]:
    """The rows by partition, with its values; None and all rows if there is none."""
    if not layout.partition:
        yield None, rows
        return
    fields = [(one.transform, one.kind, one.column) for one in layout.partition]
    for values_of, part in partition_values.parts(rows, fields):
        yield tuple(values_of), part


def _written(layout: Layout, partition: tuple[str | None, ...] | None, rows: pa.Table) -> NewFile:
    folders = "".join(
        f"{quote_plus(field.name)}={quote_plus(partition_values.in_folder(text, field.transform, field.kind))}/"
        for field, text in zip(layout.partition, partition or (), strict=True)
    )
    name = uuid.uuid4()
    before, after = layout.locations[name.int % len(layout.locations)]
    path = f"{before}{folders}{name.hex}.parquet{after}"
    if is_too_long(path):
        path = f"{before}{name.hex}.parquet{after}"
    body = _body(layout, rows)
    Objects(layout.home).write(path, body)
    return NewFile(path, body.size, len(rows), partition, footer_of(body))


def _body(layout: Layout, rows: pa.Table) -> pa.Buffer:
    # Parquet whatever write.format.default says: a table's files may differ in it.
    file = pa.BufferOutputStream()
    pq.write_table(
        rows,
        file,
        row_group_size=None if layout.group is None else _part(len(rows), rows.nbytes, layout.group),
        store_schema=False,
        store_decimal_as_integer=True,
        **layout.options,
        **_dictionaries(rows.schema),
        **_blooms(layout, rows),
    )
    return annotated(file.getvalue(), rows.schema)


def _dictionaries(fields: pa.Schema) -> dict[str, Any]:
    """For pq.write_table: no dictionary of who a view's rows are, of which no two are equal. It would be read with any
    of its pages. Arrow wants to be told all other columns, and of nested ones their parts: then there is one."""
    if IDENTITY not in fields.names or any(pa.types.is_nested(one.type) for one in fields):
        return {}
    return {"use_dictionary": [name for name in fields.names if name != IDENTITY]}


def _rows_of_file(layout: Layout, rows: pa.Table) -> int:
    """How many of the rows go into a file: as many as its target size holds, going by some of them."""
    if layout.target is None or rows.nbytes <= layout.target:
        return _ROWS
    some = rows.slice(0, _SAMPLE)
    return min(_ROWS, _part(len(some), _body(layout, some).size, layout.target))


def _part(rows: int, size: int, most: int) -> int:
    """How many rows are about `most` bytes, where so many are `size`."""
    return max(_LEAST_ROWS, int(most * rows / max(1, size)))


def _blooms(layout: Layout, rows: pa.Table) -> dict[str, Any]:
    """For pq.write_table: a Bloom filter of each column that the table has them for, sized for a file of these rows."""
    found = {
        name: {"ndv": bloom_filters.values_for(len(rows), size), "fpp": size.wrong}
        for name, size in layout.blooms.items()
        if not pa.types.is_nested(kind := rows.schema.field(name).type) and not pa.types.is_boolean(kind)
    }
    return {"bloom_filter_options": found} if found else {}


def write_cells(
    spark: SparkSession,
    table: Table,
    columns: Sequence[Column],
    arrays: Mapping[str, Any],
    values_of: Mapping[str, Sequence[Any]],
) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) of the rows that `rows_of` makes. Raises as write_rows."""
    layout = layout_of(table)
    return data_files(spark, table, write_rows(layout, rows_of(layout, columns, arrays, values_of)))


def write_arrays(spark: SparkSession, table: Table, rows: pa.Table, partition: Any = None) -> list[Any]:
    """The same of rows as the files have them. `partition`: what they have in common, an
    org.apache.iceberg.StructLike; None for an unpartitioned table."""
    layout = layout_of(table)

    def write(part: pa.Table) -> Any:
        name, body = f"{uuid.uuid4().hex}.parquet", _body(layout, part)
        path = of_new_file(table.java, table.state, name, table.java.spec(), partition)
        Objects(layout.home).write(path, body)
        return described.data_file(NewFile(path, body.size, len(part), None, footer_of(body)), partition)

    described = _Described(spark, table)
    most = _rows_of_file(layout, rows)
    return each_of(write, (rows.slice(first, most) for first in range(0, len(rows), most)), _AT_ONCE)


def data_files(spark: SparkSession, table: Table, files: Sequence[NewFile]) -> list[Any]:
    """New files as Iceberg has them (org.apache.iceberg.DataFile)."""
    if not files:
        return []
    partitions = _partitions(spark, table, {file.partition for file in files if file.partition is not None})
    described = _Described(spark, table)
    made = lambda file: described.data_file(file, file.partition and partitions[file.partition])  # noqa: E731
    return each_of(made, files, _AT_ONCE)


class _Described:
    """What Iceberg says of new files of one table. What all files share is asked once: a call into the JVM takes longer
    than what it does there."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        config = java_class(spark, "org.apache.iceberg.MetricsConfig").forTable(table.java)
        self._metrics = FooterMetrics(spark, config)
        self._files = java_class(spark, "org.apache.iceberg.DataFiles")
        self._spec = table.java.spec()

    def data_file(self, file: NewFile, partition: Any) -> Any:
        """Its org.apache.iceberg.DataFile."""
        metrics = self._metrics.of(file.footer)
        builder = self._files.builder(self._spec).withPath(file.path).withFormat("parquet")
        builder = builder.withFileSizeInBytes(file.bytes).withMetrics(metrics)  # which count its rows
        return (builder.withPartition(partition) if partition is not None else builder).build()


def _partitions(
    spark: SparkSession, table: Table, texts: Collection[tuple[str | None, ...]]
) -> dict[tuple[str | None, ...], Any]:
    """The org.apache.iceberg.StructLike of each partition (partition_values): as those of files that are never written,
    of a table that is partitioned by values whose texts Iceberg reads, and that Java holds alike."""
    if not texts:
        return {}
    kinds = [str(field.type().toString()) for field in elements(table.java.spec().partitionType().fields())]
    alike = [
        {"id": place, "name": f"p{place}", "type": partition_values.text_type(kind), "required": False}
        for place, kind in enumerate(kinds, start=1)
    ]
    schema = java_class(spark, "org.apache.iceberg.SchemaParser").fromJson(
        json.dumps({"type": "struct", "schema-id": 0, "fields": alike})
    )
    builder = java_class(spark, "org.apache.iceberg.PartitionSpec").builderFor(schema)
    for field in alike:
        builder = builder.identity(field["name"])
    spec = builder.build()
    return {one: _partition(spark, spec, kinds, one) for one in texts}


def _partition(spark: SparkSession, spec: Any, kinds: Sequence[str], texts: Sequence[str | None]) -> Any:
    """`kinds`: Iceberg's types of the values."""
    values_of = java_class(spark, "java.util.ArrayList")()
    held = [partition_values.is_bytes(kind) and text is not None for kind, text in zip(kinds, texts, strict=True)]
    for text, is_bytes in zip(texts, held, strict=True):
        values_of.add(None if is_bytes else text)
    builder = java_class(spark, "org.apache.iceberg.DataFiles").builder(spec)
    builder = builder.withPartitionValues(values_of).withPath("none").withFormat("parquet")
    partition = builder.withFileSizeInBytes(1).withRecordCount(1).build().partition()
    buffer = java_class(spark, "java.nio.ByteBuffer")
    for place, (text, is_bytes) in enumerate(zip(texts, held, strict=True)):
        if is_bytes:
            partition.set(place, buffer.wrap(bytes.fromhex(text or "")))
        elif text == partition_values.NULL:  # it became null
            partition.set(place, text)
    return partition
