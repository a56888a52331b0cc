"""Tables with variants can be read: as JSON text.

PyIceberg 0.12 opens no table that has one: it has no such type. Importing this gives it one, for all that PyIceberg
does in this process; tests/unit/lake/test_variant_type.py says when that is no longer needed. To PyIceberg the type is
text, which is what `firn_lake.reading.files` makes of a file's variants.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from pydantic import Field
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

NAME: Final = "variant"


class VariantType(StringType):
    """Iceberg's type for JSON."""

    root: Literal["variant"] = Field(default="variant")  # type: ignore[assignment]

    def minimum_format_version(self) -> TableVersion:
        """The first format that has it."""
        return 3


@promote.register(VariantType)
def _promote(file_type: VariantType, read_type: IcebergType) -> IcebergType:
    """No other type holds a variant."""
    if read_type == file_type:
        return read_type
    raise ResolveError(f"Cannot promote a variant to {read_type}")


@from_bytes.register(VariantType)
def _bound(_: VariantType, bound: bytes) -> str:
    """Bounds of a variant are of parts of it, and none that a text has."""
    return f"{len(bound)} bytes"


def variants_in(schema: Schema) -> frozenset[int]:
    """The ids of the columns, and parts of them, that are variants."""
    return frozenset(one for one in schema.field_ids if isinstance(schema.find_type(one), VariantType))


def with_variants(schema: Schema, ids: frozenset[int]) -> Schema:
    """The schema, in which the columns of these ids, and parts of columns, are variants."""
    return Schema(*(_field(field, ids) for field in schema.fields), schema_id=schema.schema_id)


def _field(field: NestedField, ids: frozenset[int]) -> NestedField:
    kind = VariantType() if field.field_id in ids else _type(field.field_type, ids)
    return field.model_copy(update={"field_type": kind})


def _type(kind: IcebergType, ids: frozenset[int]) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*(_field(field, ids) for field in kind.fields))
    if isinstance(kind, ListType):
        element = _field(kind.element_field, ids)
        return ListType(kind.element_id, element.field_type, kind.element_required)
    if isinstance(kind, MapType):
        value = _field(kind.value_field, ids)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value.field_type, kind.value_required)
    return kind


def _reading(begin: Callable[..., None], *names: str) -> Callable[..., None]:
    """The constructor, to which the type's name in JSON is the type. `names`: of its arguments that are types."""

    def made(self: Any, *parts: Any, **data: Any) -> None:
        begin(self, *parts, **data | {name: VariantType() for name in names if data.get(name) == NAME})

    return made


NestedField.__init__ = _reading(NestedField.__init__, "type")  # type: ignore[method-assign]
ListType.__init__ = _reading(ListType.__init__, "element")  # type: ignore[method-assign]
MapType.__init__ = _reading(MapType.__init__, "value")  # type: ignore[method-assign]
