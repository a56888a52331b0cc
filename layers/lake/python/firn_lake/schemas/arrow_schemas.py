"""Schemas of Arrow and of Iceberg, one from the other, for all types of both (docs/types.md has the table).

Iceberg -> Arrow -> Iceberg gives the same schema: ids and docs travel as metadata of the fields, the identifier fields
as metadata of the schema. Arrow has more types than Iceberg; what Iceberg has no word for is stored in the smallest
type that holds all its values, or refused by name.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyiceberg import types as kinds
from pyiceberg.schema import Schema

from firn.changes.decode.types import MAX_PRECISION
from firn.errors import TerminalError
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.schemas.type_text import type_of

ID: Final = b"PARQUET:field_id"  # Parquet's own key, which Iceberg's readers know
DOC: Final = b"doc"
TYPE: Final = b"iceberg.type"  # of a column whose Arrow type does not tell: geometries are binary there
IDENTIFIERS: Final = b"iceberg.identifier-field-ids"
SCHEMA_ID: Final = b"iceberg.schema-id"


class BadArrowType(TerminalError):
    """Iceberg has no type for a column's Arrow type; the text names both, and what to do."""


def to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema of rows of `schema`, with its ids and docs in the metadata. Types as `arrow_types` has them."""
    metadata = {SCHEMA_ID: str(schema.schema_id), IDENTIFIERS: json.dumps(sorted(schema.identifier_field_ids))}
    return pa.schema([_arrow_field(field) for field in schema.fields], metadata)


def to_iceberg(schema: pa.Schema, format_version: int = 2) -> Schema:
    """The Iceberg schema that holds rows of an Arrow schema.

    The ids are those of the metadata, if all fields have one; else they are numbered from 1. `format_version`: of the
    table; 3 has types for nanoseconds and for columns that are null throughout.

    Raises BadArrowType.
    """
    known = all(_id_of(field) is not None for field in _fields(schema))
    ids = itertools.count(1)
    fields = [_Reader(format_version, None if known else ids).field(field, field.name) for field in schema]
    metadata: Mapping[bytes, bytes] = (known and schema.metadata) or {}
    identifiers = json.loads(metadata.get(IDENTIFIERS, b"[]"))
    there = {field.field_id for field in fields}
    return Schema(
        *fields,
        schema_id=int(metadata.get(SCHEMA_ID, b"0")),
        identifier_field_ids=[one for one in identifiers if one in there],
    )


def _arrow_field(field: kinds.NestedField) -> pa.Field:
    metadata = {ID: str(field.field_id)}
    if field.doc is not None:
        metadata[DOC] = field.doc
    if isinstance(field.field_type, kinds.PrimitiveType) and str(field.field_type).startswith("geo"):
        metadata[TYPE] = str(field.field_type)
    return pa.field(field.name, _arrow_type(field.field_type), field.optional, metadata)


def _arrow_type(kind: kinds.IcebergType) -> pa.DataType:
    if isinstance(kind, kinds.StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, kinds.ListType):
        return pa.list_(_arrow_field(kind.element_field))
    if isinstance(kind, kinds.MapType):
        return pa.map_(_arrow_field(kind.key_field), _arrow_field(kind.value_field))
    return arrow_schema(Schema(kinds.NestedField(1, "it", kind))).field(0).type


def _fields(kind: pa.Schema | pa.DataType) -> Iterator[pa.Field]:
    """All fields of a schema or a type, those within them too."""
    if isinstance(kind, pa.Schema):
        own = list(kind)
    elif pa.types.is_struct(kind):
        own = [kind.field(place) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        own = [kind.key_field, kind.item_field]
    elif is_list(kind):
        own = [kind.value_field]
    else:
        own = []
    for field in own:
        yield field
        yield from _fields(field.type)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(ID)
    return int(text) if text is not None and text.lstrip(b"-").isdigit() else None


def is_list(kind: pa.DataType) -> bool:
    """Whether it is one of Arrow's five kinds of lists."""
    tests = (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
        pa.types.is_large_list_view,
    )  # fmt: skip
    return any(test(kind) for test in tests)


class _Reader:
    """Reads Arrow fields. `ids`: where new ids come from; None: from the fields' metadata."""

    def __init__(self, format_version: int, ids: Iterator[int] | None) -> None:
        self._version = format_version
        self._ids = ids

    def field(self, field: pa.Field, path: str) -> kinds.NestedField:
        metadata: Mapping[bytes, bytes] = field.metadata or {}
        number = self._number(field)
        kind = type_of(metadata[TYPE].decode()) if TYPE in metadata else self._type(field.type, path)
        doc = metadata[DOC].decode() if DOC in metadata else None
        return kinds.NestedField(number, field.name, kind, required=not field.nullable, doc=doc)

    def _number(self, field: pa.Field) -> int:
        return (_id_of(field) or 0) if self._ids is None else next(self._ids)

    def _type(self, kind: pa.DataType, path: str) -> kinds.IcebergType:
        if pa.types.is_struct(kind):
            fields = (kind.field(place) for place in range(kind.num_fields))
            return kinds.StructType(*(self.field(field, f"{path}.{field.name}") for field in fields))
        if pa.types.is_map(kind):
            key, value = self.field(kind.key_field, f"{path}.key"), self.field(kind.item_field, f"{path}.value")
            return kinds.MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
        if is_list(kind):
            element = self.field(kind.value_field, f"{path}.element")
            return kinds.ListType(element.field_id, element.field_type, element.required)
        if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            return self._type(kind.value_type, path)
        if isinstance(kind, pa.UuidType):
            return kinds.UUIDType()
        if isinstance(kind, pa.Bool8Type):
            return kinds.BooleanType()
        if isinstance(kind, pa.BaseExtensionType):
            return self._type(kind.storage_type, path)
        return self._primitive(kind, path)

    def _primitive(self, kind: pa.DataType, path: str) -> kinds.IcebergType:
        for test, found in _PLAIN:
            if test(kind):
                return found
        if pa.types.is_fixed_size_binary(kind):
            return kinds.FixedType(kind.byte_width)
        if pa.types.is_decimal(kind):
            return _decimal(kind, path)
        if pa.types.is_timestamp(kind):
            if kind.unit == "ns" and self._version >= 3:
                return kinds.TimestampNanoType() if kind.tz is None else kinds.TimestamptzNanoType()
            return kinds.TimestampType() if kind.tz is None else kinds.TimestamptzType()
        if pa.types.is_null(kind):
            if self._version >= 3:
                return kinds.UnknownType()
            raise BadArrowType(
                f"{path} is null throughout, and a table of format {self._version} has no type for that: give it one, "
                "such as pa.string()"
            )
        raise BadArrowType(f"{path} is {kind}, which Iceberg has no type for: {_instead(kind)}")


_PLAIN: Final = (
    (pa.types.is_boolean, kinds.BooleanType()),
    (pa.types.is_uint64, kinds.DecimalType(20, 0)),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), kinds.LongType()),
    (pa.types.is_integer, kinds.IntegerType()),
    (pa.types.is_float64, kinds.DoubleType()),
    (pa.types.is_floating, kinds.FloatType()),
    (pa.types.is_date, kinds.DateType()),
    (pa.types.is_time, kinds.TimeType()),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        kinds.StringType(),
    ),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind),
        kinds.BinaryType(),
    ),
)


def _decimal(kind: pa.DataType, path: str) -> kinds.DecimalType:
    """Iceberg's scale is 0 to the precision: 12 at scale -2 is 1200, and .00012 has five digits."""
    scale = max(kind.scale, 0)
    precision = max(kind.precision - min(kind.scale, 0), scale)
    if precision > MAX_PRECISION:
        raise BadArrowType(
            f"{path} is {kind}, and a decimal of Iceberg has at most {MAX_PRECISION} digits: use fewer, or text"
        )
    return kinds.DecimalType(precision, scale)


def _instead(kind: pa.DataType) -> str:
    if pa.types.is_duration(kind):
        return "cast it to int64, and say the unit in the column's name"
    if pa.types.is_interval(kind):
        return "store months, days and nanoseconds as columns of their own, or its text"
    if pa.types.is_union(kind):
        return "make it a struct with a field for each kind"
    return "cast it to one that has"
