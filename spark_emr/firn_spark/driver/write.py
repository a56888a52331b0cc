"""New data files, written here: Parquet with the table's field ids, and Iceberg's own metrics of what was written."""

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from firn.changes.decode.types import Column, Type
from firn.tables import bloom_filters
from firn_spark.driver import values
from firn_spark.driver.objects import Objects
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class

_CODEC = "write.parquet.compression-codec"
_ROWS = 400_000  # of a file, at most
_AT_ONCE = 4  # files
_WRONG = 0.01  # of the values that are not in a file, those of which its Bloom filter says that they may be


def write_cells(
    spark: SparkSession,
    table: Table,
    columns: Sequence[Column],
    arrays: Mapping[str, Any],
    values_of: Mapping[str, Sequence[Any]],
) -> list[Any]:
    """Data files (org.apache.iceberg.DataFile) of an unpartitioned table, none for no rows: first the rows of `arrays`,
    then those of `values_of`. What the table has beside them is null.

    columns    the types of what they hold
    arrays     Arrow arrays by name, of equal length, in the types that decoding gives (columns.arrow_type)
    values_of  lists by name, of equal length
    """
    first, then = (len(next(iter(some.values()), ())) for some in (arrays, values_of))
    if not first + then:
        return []
    kinds = {column.name: column.type for column in columns}

    def cells(field: pa.Field) -> pa.ChunkedArray:
        name = field.name
        parts = []
        if first:
            parts.append(
                _cells(arrays[name], kinds.get(name), field) if name in arrays else pa.nulls(first, field.type)
            )
        if then:
            there = name in values_of
            parts.append(values.written(values_of[name], kinds[name], field) if there else pa.nulls(then, field.type))
        chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        return pa.chunked_array(chunks, field.type)

    fields = [values.file_field(field) for field in table.state.fields]
    return write_arrays(spark, table, first + then, {field.name: cells(field) for field in fields})


def _cells(array: Any, kind: Type | None, field: pa.Field) -> Any:
    if kind is not None and values.holds_uuids(kind):
        return values.written(array.to_pylist(), kind, field)
    return array.cast(field.type)


def write_arrays(
    spark: SparkSession, table: Table, count: int, arrays: Mapping[str, Any], partition: Any = None
) -> list[Any]:
    """The same of the files' own Arrow arrays (values.file_field), one for each of the table's fields. `partition`:
    what the files' rows have in common, an org.apache.iceberg.StructLike; None for an unpartitioned table."""
    fields = [values.file_field(field) for field in table.state.fields]
    rows = pa.table([arrays[field.name] for field in fields], schema=pa.schema(fields))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = [rows.slice(first, _ROWS) for first in range(0, count, _ROWS)]
        return list(pool.map(lambda part: _file(spark, table, part, partition), parts))


def _file(spark: SparkSession, table: Table, rows: pa.Table, partition: Any) -> Any:
    file = pa.BufferOutputStream()
    pq.write_table(
        rows,
        file,
        compression=table.state.properties.get(_CODEC, "zstd").replace("uncompressed", "none"),
        store_schema=False,
        store_decimal_as_integer=True,
        **_blooms(table, rows),
    )
    return _data_file(spark, table, file.getvalue(), len(rows), partition)


def _blooms(table: Table, rows: pa.Table) -> dict[str, Any]:
    """For pq.write_table: a Bloom filter of each column that the table has them for, sized for a file of these rows."""
    options = {"ndv": max(1, len(rows)), "fpp": _WRONG}
    wanted = [name for name in bloom_filters.enabled(table.state.properties) if name in rows.column_names]
    plain = [name for name in wanted if not pa.types.is_nested(kind := rows.schema.field(name).type) and
             not pa.types.is_boolean(kind)]  # fmt: skip
    return {"bloom_filter_options": dict.fromkeys(plain, options)} if plain else {}


def _data_file(spark: SparkSession, table: Table, data: pa.Buffer, count: int, partition: Any) -> Any:
    java = table.java
    name, locations = f"{uuid.uuid4().hex}.parquet", java.locationProvider()
    inside = partition is not None
    path = locations.newDataLocation(java.spec(), partition, name) if inside else locations.newDataLocation(name)
    Objects(path).write(path, data)
    config = java_class(spark, "org.apache.iceberg.MetricsConfig").forTable(java)
    parquet = java_class(spark, "org.apache.iceberg.parquet.ParquetUtil")
    metrics = parquet.fileMetrics(java.io().newInputFile(path), config)
    builder = java_class(spark, "org.apache.iceberg.DataFiles").builder(java.spec())
    builder = builder.withPath(path).withFormat("parquet")
    builder = builder.withFileSizeInBytes(data.size).withRecordCount(count).withMetrics(metrics)
    return (builder.withPartition(partition) if inside else builder).build()
