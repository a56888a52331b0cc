"""Values of any Arrow type in the type that Iceberg stores them in: exactly, or not at all."""

import pyarrow as pa
import pyarrow.compute as pc

from firn_lake.schemas.arrow_schemas import is_list, to_iceberg
from firn_lake.schemas.arrow_types import arrow_schema


def to_stored(rows: pa.Table, format_version: int = 2) -> pa.Table:
    """The rows in the Arrow types that their Iceberg types have (`arrow_schemas.to_iceberg`), each value as it was.

    Raises BadArrowType; pa.ArrowInvalid for a value that its column can't hold, such as parts of a microsecond.
    """
    schema = arrow_schema(to_iceberg(rows.schema, format_version))
    fitting = [
        pa.chunked_array([stored(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(fitting, schema=schema)


def stored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values as an array of the type `kind`. Raises pa.ArrowInvalid for one that is not exactly the same there."""
    array = _decoded(array)
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, stored(array, kind.storage_type))
    if pa.types.is_struct(array.type):
        # `flatten` takes the struct's own nulls and its slice into account.
        fields = [kind.field(place) for place in range(kind.num_fields)]
        parts = [stored(part, field.type) for part, field in zip(array.flatten(), fields, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=pc.is_null(array))
    if is_list(array.type):
        # Views and lists of one size have no offsets: all lists are laid end to end, as `flatten` gives their values.
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
        ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
        values = stored(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(ends, values, type=kind, mask=pc.is_null(array))
    if pa.types.is_map(array.type):
        keys, items = stored(array.keys, kind.key_type), stored(array.items, kind.item_type)
        # The offsets of a slice still count from the start; one that is null makes its map null.
        nulls = pa.concat_arrays([pc.is_null(array), pa.array([False])])
        offsets = pc.if_else(nulls, pa.scalar(None, pa.int32()), array.offsets)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    return array.cast(kind)


def _decoded(array: pa.Array) -> pa.Array:
    """The values of an array that is encoded: a dictionary, runs, an extension's storage."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _decoded(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _decoded(pc.run_end_decode(array))
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _decoded(array.storage)
    return array
