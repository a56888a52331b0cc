"""Arrow types as results have them, and as DuckDB keeps them."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from firn_lake.variant_type import VariantType


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of rows of `schema`: plain `string`, `binary` and `list` in place of the large ones; JSON for
    columns that are variants, and text for variants in others, where Arrow can do little with another type."""
    found = _mapped(schema_to_pyarrow(schema, include_field_ids=False), _small)
    kinds = [pa.json_() if isinstance(one.field_type, VariantType) else None for one in schema.fields]
    return pa.schema([field.with_type(kind or field.type) for field, kind in zip(found, kinds, strict=True)])


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without what DuckDB would give back as another type: UUIDs and fixed bytes as `binary`, JSON as
    `string`."""
    return _mapped(schema, _stored)


def without_json(schema: pa.Schema) -> pa.Schema:
    """The schema with text in place of JSON."""
    return _mapped(schema, lambda kind: pa.string() if isinstance(kind, pa.JsonType) else kind)


def cast(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The arrays as a batch of this schema. Raises pa.ArrowException for a value that does not fit."""
    fitting = [cast_array(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(fitting, schema=schema)


def cast_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in another type. Raises pa.ArrowException for a value that does not fit."""
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, cast_array(array, kind.storage_type))
    if isinstance(array, pa.ExtensionArray):
        return cast_array(array.storage, kind)
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError:
        # Arrow casts no maps and few bytes inside lists; few tables have them.
        return pa.array(array.to_pylist(), kind)


def _mapped(schema: pa.Schema, of: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(field.name, of(field.type), field.nullable) for field in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return _nested(kind, _small)


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.JsonType):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return _nested(kind, _stored)


def _nested(kind: pa.DataType, of: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    def inner(field: pa.Field) -> pa.Field:
        return pa.field(field.name, of(field.type), field.nullable)

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(inner(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(inner(kind.key_field), inner(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([inner(kind.field(place)) for place in range(kind.num_fields)])
    return kind
