"""What a row has in a column that its writer tells no value of: Iceberg's `write-default`, or what firn.yaml declares.
Pure."""

from collections.abc import Mapping
from struct import pack
from typing import Any, Final

from firn.changes.decode.converters import converter
from firn.changes.decode.texts import retyped
from firn.changes.decode.types import Column, Encoding, Type, promotable, storable, widen
from firn.changes.decode.values import Refused, text_of_days, text_of_decimal, text_of_micros
from firn.errors import TerminalError

# How Iceberg writes defaults in JSON (spec, appendix D, "JSON single-value serialization"); what is not here is
# written as the value itself.
_DEFAULTS: Final[Mapping[str, Encoding]] = {
    "boolean": Encoding("boolean"), "int": Encoding("integer"), "long": Encoding("integer"),
    "float": Encoding("float32"), "double": Encoding("float64"), "decimal": Encoding("decimal_text"),
    "date": Encoding("date_text"), "timestamp": Encoding("timestamp_text"),
    "timestamptz": Encoding("timestamp_text", zoned=True), "timestamp_ns": Encoding("timestamp_text"),
    "timestamptz_ns": Encoding("timestamp_text", zoned=True), "string": Encoding("string"), "uuid": Encoding("uuid"),
    "binary": Encoding("binary_hex"), "fixed": Encoding("binary_hex"),
}  # fmt: skip


def write_default(field: Mapping[str, Any], kind: Type) -> Any:
    """What a row has in a column (Iceberg's JSON) of the type `kind` whose writer tells no value: Iceberg's
    `write-default`, as decoded values are; None for null.

    Raises TerminalError for one that Firn can't write, such as a day after the year 9999."""
    told = field.get("write-default")
    if told is None:
        return None
    encoding = _DEFAULTS.get(kind.name)
    try:
        if encoding is not None:
            return converter(kind, encoding)(told)
        reason = f"no default of a {kind.name} is known"
    except Refused as refused:
        reason = refused.reason
    raise TerminalError(f"the column {field['name']} has a write-default that Firn can't write: {reason}; set another")


def default_json(kind: Type, value: Any) -> Any:
    """A default as Iceberg writes it in JSON, of a decoded value of the type `kind`, which has no parts: what
    write_default reads."""
    match kind.name:
        case "decimal":
            return text_of_decimal(value)
        case "date":
            return text_of_days(value)
        case "timestamp":
            return text_of_micros(value, zoned=False)
        case "timestamptz":
            return text_of_micros(value, zoned=True).replace("Z", "+00:00")
        case "binary" | "fixed":
            return value.hex()
        case _:
            return value


def same_default(kind: Type, one: Any, other: Any) -> bool:
    """Whether two defaults of a column are one, as tables store them; None: there is none."""
    if kind.name == "float" and one is not None and other is not None:
        return pack("f", one) == pack("f", other)
    return bool(one == other)


def defaults_json(column: Column) -> dict[str, Any]:
    """What the field of a new column says beside its type: rows from before it have its default too."""
    if column.default is None:
        return {}
    told = default_json(column.type, column.default)
    return {"initial-default": told, "write-default": told}


def default_in(declared: Column, kind: Type) -> Any:
    """The default that firn.yaml declares of a column, as a value of the type `kind` that the table has it in. Raises
    TerminalError where that has no such value."""
    own, there = storable(declared.type), storable(kind)
    if own == there or promotable(own, there) or storable(widen(there, own)) == there:
        return retyped(own, there)(declared.default)
    raise TerminalError(
        f"the column {declared.name[:100]} is {there} in the table, and firn.yaml declares a default of {own} for it; "
        f"declare the column as {there}, or leave the default out"
    )
