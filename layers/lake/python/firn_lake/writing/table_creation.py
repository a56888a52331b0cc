"""Making a table outside Spark: columns from Arrow, a key, partitions as firn.yaml writes them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, _ConvertToIcebergWithoutIDs, visit_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DoubleType, FloatType, NestedField

from firn.config.names import RESERVED_NAMES, is_reserved
from firn.config.partitions import Partition
from firn.errors import TerminalError, TransientError
from firn_lake.tables import shown, split_name
from firn_lake.variant_type import VariantType
from firn_lake.writing.coercion import Given, batches_of
from firn_lake.writing.commit import stage_files
from firn_lake.writing.data_files import remove_files, write_files
from firn_lake.writing.partitioning import BadPartition, spec_for

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


class CannotCreate(TerminalError):
    """The table can't be made so; the text says what to write instead."""


def create(
    catalog: "Catalog",
    name: str,
    what: "pa.Schema | Schema | Given",
    key: Sequence[str] = (),
    partition_by: Sequence[str | Partition] = (),
    properties: Mapping[str, str] | None = None,
) -> "Table":
    """Makes the table `namespace.table`, and its namespace. With rows in it or not, in one commit.

    what          the columns, as Arrow's or PyIceberg's schema; or Arrow rows (a table, a reader, a DataFrame)
    key           the columns that tell rows apart: Iceberg's identifier fields, never null from then on
    partition_by  such as ["day(created_at)", "bucket(16, customer_id)"], or firn_lake.day("created_at")

    Raises CannotCreate, BadRows, TransientError (the catalog does not answer, and nothing was done), UnknownOutcome.
    """
    parts = split_name(name)
    if len(parts) < 2 or not all(parts):
        raise CannotCreate(f"{name!r} names no namespace: write namespace.table, such as shop.{parts[-1] or 'orders'}")
    if is_reserved(parts[-1]):
        raise CannotCreate(f"{name} can't be made: {RESERVED_NAMES}; choose another name")
    if isinstance(key, str):
        raise CannotCreate(f"key={key!r}: write a list, such as [{key!r}]")
    columns, rows = _parted(what)
    schema = _keyed(_schema(columns), tuple(key), name)
    if isinstance(partition_by, str):
        raise CannotCreate(f"partition_by={partition_by!r}: write a list, such as [{partition_by!r}]")
    try:
        spec = spec_for(schema, partition_by)
    except BadPartition as error:
        raise CannotCreate(f"partition_by: {error}") from error
    if catalog.table_exists(parts):
        raise CannotCreate(f"{name} exists already: append to it, or choose another name")
    catalog.create_namespace_if_not_exists(parts[:-1])
    try:
        transaction = catalog.create_table_transaction(parts, schema, None, spec, properties=dict(properties or {}))
    except (ValidationError, ValueError) as error:
        raise CannotCreate(f"{name} can't be made: {error}") from error
    made, io = transaction.table_metadata, transaction._table.io
    files: list[DataFile] = []
    if rows is not None:
        files = write_files(made, io, batches_of(rows, made.schema(), shown(transaction._table)))
    try:
        if files:
            stage_files(transaction, (), files, {})
        transaction.commit_transaction()
    except (TableAlreadyExistsError, CommitFailedException, TransientError) as error:  # nothing was done
        remove_files(io, files)
        if isinstance(error, TransientError):
            raise
        raise CannotCreate(f"{name} can't be made: {error}") from error
    return catalog.load_table(parts)


def _parted(what: Any) -> tuple[pa.Schema | Schema, Given | None]:
    """(the columns, the rows if there are any)"""
    if isinstance(what, pa.Schema | Schema):
        return what, None
    if type(what).__module__.partition(".")[0] == "pandas":
        what = pa.Table.from_pandas(what, preserve_index=False)
    if isinstance(what, pa.RecordBatch):
        return what.schema, what
    if hasattr(what, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(what)
        return reader.schema, reader
    raise CannotCreate(
        f"a {type(what).__name__} tells no columns: give an Arrow schema, such as pa.schema([('id', pa.int64())]), or "
        "Arrow rows"
    )


def _schema(columns: pa.Schema | Schema) -> Schema:
    if isinstance(columns, pa.Schema):
        names = [one for one in columns.names if columns.names.count(one) > 1]
        if names:
            raise CannotCreate(f"the column {names[0]!r} is there twice")
        try:
            converted = visit_pyarrow(columns, _ConvertToIcebergWithoutIDs(downcast_ns_timestamp_to_us=True))
        except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
            raise CannotCreate(f"Iceberg has no such column: {error}") from error
        assert isinstance(converted, Schema)  # noqa: S101 (what visiting a schema gives)
        columns = converted
    if not columns.fields:
        raise CannotCreate("a table needs a column: pa.schema([('id', pa.int64())])")
    return assign_fresh_schema_ids(columns)


def _keyed(schema: Schema, key: tuple[str, ...], name: str) -> Schema:
    if not key:
        return schema
    by_name = {field.name: field for field in schema.fields}
    for one in key:
        if one not in by_name:
            raise CannotCreate(f"key of {name}: there is no column {one!r}; there are {_names(schema)}")
        kind = by_name[one].field_type
        if isinstance(kind, FloatType | DoubleType | VariantType) or not kind.is_primitive:
            raise CannotCreate(
                f"key of {name}: {one} is {kind}, and keys are no floats, variants, lists, maps or structs"
            )
    fields = [
        NestedField(one.field_id, one.name, one.field_type, one.required or one.name in key, one.doc)
        for one in schema.fields
    ]
    return Schema(*fields, identifier_field_ids=[by_name[one].field_id for one in key])


def _names(schema: Schema) -> str:
    return ", ".join(field.name for field in schema.fields)
