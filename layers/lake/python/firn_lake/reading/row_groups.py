"""Which row groups of a Parquet file may hold rows that fit a filter: by the file's statistics and its Bloom filters.

The statistics are asked by Arrow's own datasets. Nothing is asked of floating-point columns (a NaN is outside all
bounds), nor of columns inside others, nor of a column whose type has changed other than from int to long: predicates on
them count as true.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundIn,
    BoundLiteralPredicate,
    BoundPredicate,
    BoundSetPredicate,
    BoundUnaryPredicate,
    Or,
    Reference,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow, pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, LongType, UUIDType

from firn_lake.reading.bloom import BloomFilter
from firn_lake.variant_type import VariantType, with_variants
from firn_sql.variant_columns import as_texts, ids_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_MOST_VALUES: Final = 200  # of an IN: of more, PyIceberg asks no bounds either


@dataclass(frozen=True)
class Groups:
    """Of one file: its footer, the row groups to read, and how many Bloom filters left out.

    bloomed  the predicates that a Bloom filter answered with no
    """

    footer: pq.FileMetaData
    kept: tuple[int, ...]
    by_bloom: int
    bloomed: tuple[BoundPredicate, ...] = ()


def chosen(opened: Any, where: BooleanExpression, metadata: "TableMetadata") -> Groups:
    """The row groups of the open Parquet file that may hold rows of `where`: bound to the table's schema, without NOT.

    Raises what pyarrow raises of a file that can't be read.
    """
    fragment = ds.ParquetFileFormat().make_fragment(opened)
    physical, footer = fragment.physical_schema, fragment.metadata
    there = file_schema(physical, metadata)
    names = {field.field_id: field.name for field in there.fields}
    left = _by_statistics(fragment, where, there, names)
    asked = _Asked(opened, footer, physical, names)
    kept = tuple(number for number in left if asked.may_hold(where, number))
    return Groups(footer, kept, len(left) - len(kept), tuple(asked.denied.values()))


def file_schema(physical: pa.Schema, metadata: "TableMetadata") -> Schema:
    """A file's columns, with the field ids that they have in the table."""
    found = pyarrow_to_schema(
        pa.schema([as_texts(field) for field in physical]),
        metadata.name_mapping(),
        downcast_ns_timestamp_to_us=metadata.format_version <= 2,  # these versions know microseconds only
        format_version=metadata.format_version,
    )
    variants = frozenset(ids_of(physical))
    return with_variants(found, variants) if variants else found


def _by_statistics(fragment: Any, where: BooleanExpression, there: Schema, names: Mapping[int, str]) -> tuple[int, ...]:
    every = tuple(group.id for group in fragment.row_groups)
    bound = bind(there, _by_name(where, there, names), case_sensitive=True)
    if isinstance(bound, AlwaysTrue):
        return every
    if isinstance(bound, AlwaysFalse):
        return ()
    # Without a schema PyIceberg takes a name with dots for a name.
    found = fragment.subset(expression_to_pyarrow(bound), schema=fragment.physical_schema)
    return tuple(group.id for group in found.row_groups)


def _by_name(where: BooleanExpression, there: Schema, names: Mapping[int, str]) -> BooleanExpression:
    """The filter by the file's own names; what can't be asked of its statistics is true."""
    if isinstance(where, And):
        return And(_by_name(where.left, there, names), _by_name(where.right, there, names))
    if isinstance(where, Or):
        return Or(_by_name(where.left, there, names), _by_name(where.right, there, names))
    if not isinstance(where, BoundPredicate):
        return where if isinstance(where, AlwaysFalse) else AlwaysTrue()
    field = where.term.ref().field
    name = names.get(field.field_id)
    if name is None or not _comparable(there.find_field(field.field_id).field_type, field.field_type):
        return AlwaysTrue()
    to = Reference(name)
    if isinstance(where, BoundUnaryPredicate):
        return where.as_unbound(to)
    if isinstance(where, BoundLiteralPredicate):
        return where.as_unbound(to, where.literal)
    if isinstance(where, BoundSetPredicate):
        return where.as_unbound(to, where.literals) if len(where.literals) <= _MOST_VALUES else AlwaysTrue()
    return AlwaysTrue()


def _comparable(inside: IcebergType, now: IcebergType) -> bool:
    """Whether the statistics of a file's column can be compared with values of the table's column of today."""
    if not now.is_primitive or isinstance(now, FloatType | DoubleType | UUIDType | VariantType):
        return False
    return inside == now or (isinstance(inside, IntegerType) and isinstance(now, LongType))


class _Asked:
    """The Bloom filters of one file."""

    def __init__(self, opened: Any, footer: pq.FileMetaData, physical: pa.Schema, names: Mapping[int, str]) -> None:
        self._opened = opened
        self._footer = footer
        self._physical = physical
        self._names = names
        self._places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
        self.denied: dict[int, BoundPredicate] = {}  # by id: PyIceberg's IN has no hash

    def may_hold(self, where: BooleanExpression, group: int) -> bool:
        """Whether the row group may hold rows of the filter."""
        if isinstance(where, And):
            return self.may_hold(where.left, group) and self.may_hold(where.right, group)
        if isinstance(where, Or):
            return self.may_hold(where.left, group) or self.may_hold(where.right, group)
        if not isinstance(where, BoundEqualTo | BoundIn):
            return not isinstance(where, AlwaysFalse)
        values = [where.literal.value] if isinstance(where, BoundEqualTo) else [one.value for one in where.literals]
        if self._holds(where.term.ref().field.field_id, group, values):
            return True
        self.denied[id(where)] = where
        return False

    def _holds(self, field: int, group: int, values: list[Any]) -> bool:
        name = self._names.get(field)
        if name is None or name not in self._places or len(values) > _MOST_VALUES:
            return True
        column = self._footer.row_group(group).column(self._places[name])
        encoded = _encoder(self._physical.field(name).type, column.physical_type)
        offset = getattr(column, "bloom_filter_offset", None)  # pyarrow tells it from a later version on than we need
        if offset is None or encoded is None:
            return True
        plain = list(_encoded(values, encoded))
        if len(plain) < len(values):
            return True
        found = BloomFilter.at(self._opened, offset)
        return found is None or found.may_hold(self._opened, plain)


def _encoded(values: list[Any], encoder: Callable[[Any], bytes]) -> Iterator[bytes]:
    for value in values:
        try:
            yield encoder(value)
        except (struct.error, AttributeError, TypeError, ValueError):
            return  # not a value of the column's type in this file: bounds may tell, its filter can't


def _encoder(kind: pa.DataType, physical: str) -> Callable[[Any], bytes] | None:
    """How a value of PyIceberg's literals is written in the column's pages; None for types that are not asked."""
    types = pa.types
    if physical == "INT32" and (types.is_int32(kind) or types.is_date32(kind)):
        return struct.Struct("<i").pack
    if physical == "INT64" and (types.is_int64(kind) or (types.is_timestamp(kind) and kind.unit == "us")):
        return struct.Struct("<q").pack
    if physical == "BYTE_ARRAY" and (types.is_string(kind) or types.is_large_string(kind)):
        return str.encode
    if physical == "BYTE_ARRAY" and (types.is_binary(kind) or types.is_large_binary(kind)):
        return bytes
    return None
