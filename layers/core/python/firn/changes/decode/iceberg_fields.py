"""Columns as the fields of Iceberg's schemas in JSON (Iceberg spec, appendix C), and back. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from firn.changes.decode.types import (
    DOUBLE,
    FLOAT,
    MAX_FIXED,
    VARIANT,
    Column,
    Type,
    decimal,
    fixed,
    list_of,
    map_of,
    struct_of,
)
from firn.changes.decode.types import parse as parse_type

HELD_TYPE: Final = Type("held")
"""Field id of a column -> order of the change that its value comes from. Only Firn's own column has this type."""

# Those that Firn writes, but for decimals, fixed, lists, maps and structs. Not `time`: it is stored as text.
_SIMPLE: Final = frozenset(
    {
        "boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "timestamp_ns",
        "timestamptz_ns", "string", "uuid", "binary"
    }
)  # fmt: skip


def typed_json(kind: Type, ids: Iterator[int]) -> Any:
    """The type as Iceberg's schemas in JSON spell it. Its parts have ids out of `ids`."""
    if kind.fields:
        numbered = [(next(ids), name, part) for name, part in kind.fields]
        fields = [
            {"id": n, "name": name, "required": False, "type": typed_json(part, ids)} for n, name, part in numbered
        ]
        return {"type": "struct", "fields": fields}
    if kind.element is not None:
        element = {"element-id": next(ids), "element": typed_json(kind.element, ids)}
        return {"type": "list", "element-required": False} | element
    if kind.entry is not None:
        key = {"key-id": next(ids), "key": typed_json(kind.entry[0], ids)}
        value = {"value-id": next(ids), "value": typed_json(kind.entry[1], ids)}
        return {"type": "map", "value-required": False} | key | value
    if kind == HELD_TYPE:
        key, value = {"key-id": next(ids), "key": "int"}, {"value-id": next(ids), "value": "binary"}
        return {"type": "map", "value-required": False} | key | value
    return str(kind)


def widened_json(there: Any, kind: Type, ids: Iterator[int]) -> Any:
    """The type of a field (its JSON) widened to `kind`: its parts keep their ids, new ones get some of `ids`."""
    if kind.element is not None and isinstance(there, Mapping):
        return {**there, "element": widened_json(there["element"], kind.element, ids)}
    if kind.entry is not None and isinstance(there, Mapping):
        return {**there, "value": widened_json(there["value"], kind.entry[1], ids)}
    if kind.fields and isinstance(there, Mapping):
        known = {field["name"]: field for field in there["fields"]}
        parts = [
            {**known[name], "type": widened_json(known[name]["type"], part, ids)}
            if name in known
            else {"id": next(ids), "name": name, "required": False, "type": typed_json(part, ids)}
            for name, part in kind.fields
        ]
        return {**there, "fields": parts}
    return typed_json(kind, ids)


def column_of(field: Mapping[str, Any]) -> Column | None:
    """An Iceberg schema field (its JSON) as a column; None for types that Firn never writes (time, a list of
    variants, …).

    Such columns of an adopted table are left alone: null in new rows, kept in updated ones.
    """
    kind = VARIANT if field["type"] == VARIANT.name else _type_of(field["type"])
    return None if kind is None else Column(field["name"], kind, required=bool(field["required"]))


def _type_of(text: Any) -> Type | None:
    if isinstance(text, Mapping) and text.get("type") == "struct":
        parts = [
            (str(field["name"]), None if field["required"] else _type_of(field["type"])) for field in text["fields"]
        ]
        known = [(name, part) for name, part in parts if part is not None]
        return struct_of(known) if known and len(known) == len(parts) else None
    if isinstance(text, Mapping) and text.get("type") == "map":
        key, value = _type_of(text["key"]), None if text["value-required"] else _type_of(text["value"])
        if key is None or value is None or key.nested or key in (FLOAT, DOUBLE):
            return None
        return map_of(key, value)
    if isinstance(text, Mapping):
        element = _type_of(text["element"]) if text.get("type") == "list" else None
        return None if element is None else list_of(element)
    if text.startswith("decimal"):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return decimal(int(precision), int(scale))
    if text.startswith("fixed["):
        length = int(text.removeprefix("fixed[").removesuffix("]"))
        return fixed(length) if 1 <= length <= MAX_FIXED else None
    return parse_type(text) if text in _SIMPLE else None
