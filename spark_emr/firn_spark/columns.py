"""Firn's types as Arrow, Spark and Iceberg know them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from firn.changes.types import Column, Type, decimal, list_of
from firn.changes.types import parse as parse_type

# Field id of a column -> order of the change that its value comes from. Only Firn's own column has this type.
HELD_TYPE = Type("held")
_ARROW: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.string(),  # Spark has no uuid: Iceberg's reader and writer turn it to text and back
    "binary": pa.binary(),
    "held": pa.map_(pa.int32(), pa.binary()),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type in which decoded values of `kind` reach Spark."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    return _ARROW[kind.name]


def iceberg_type(jvm: Any, kind: Type, element_id: int = 0) -> Any:
    """The Java `org.apache.iceberg.types.Type`. Iceberg gives fresh ids to fields and elements when it commits."""
    types = jvm.org.apache.iceberg.types.Types
    if kind.name == "decimal":
        return types.DecimalType.of(kind.precision, kind.scale)
    if kind.element is not None:
        return types.ListType.ofOptional(element_id, iceberg_type(jvm, kind.element, element_id + 1))
    return {
        "boolean": lambda: types.BooleanType.get(),
        "int": lambda: types.IntegerType.get(),
        "long": lambda: types.LongType.get(),
        "float": lambda: types.FloatType.get(),
        "double": lambda: types.DoubleType.get(),
        "date": lambda: types.DateType.get(),
        "timestamp": lambda: types.TimestampType.withoutZone(),
        "timestamptz": lambda: types.TimestampType.withZone(),
        "string": lambda: types.StringType.get(),
        "uuid": lambda: types.UUIDType.get(),
        "binary": lambda: types.BinaryType.get(),
        "held": lambda: types.MapType.ofOptional(
            element_id, element_id + 1, types.IntegerType.get(), types.BinaryType.get()
        ),
    }[kind.name]()


def type_json(kind: Type, element_id: int) -> Any:
    """The same as Iceberg's schemas in JSON spell it. Ids of elements count from `element_id`."""
    if kind.element is not None:
        element = {"element-id": element_id, "element": type_json(kind.element, element_id + 1)}
        return {"type": "list", "element-required": False} | element
    if kind == HELD_TYPE:
        key, value = {"key-id": element_id, "key": "int"}, {"value-id": element_id + 1, "value": "binary"}
        return {"type": "map", "value-required": False} | key | value
    return str(kind)


def column_of(field: Mapping[str, Any]) -> Column | None:
    """An Iceberg schema field (its JSON) as a column; None for types that Firn never writes (struct, map, fixed, …).

    Such columns of an adopted table are left alone: null in new rows, kept in updated ones.
    """
    kind = _type_of(field["type"])
    return None if kind is None else Column(field["name"], kind, required=bool(field["required"]))


def _type_of(text: Any) -> Type | None:
    if isinstance(text, Mapping):
        element = _type_of(text["element"]) if text.get("type") == "list" else None
        return None if element is None else list_of(element)
    if text.startswith("decimal"):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return decimal(int(precision), int(scale))
    return parse_type(text) if text in _ARROW else None
