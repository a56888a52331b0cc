"""How a source without inline schema writes a column whose type is declared, or known from the table: the settings of
its Debezium connector and the type tell. The table is in docs/types.md."""

from dataclasses import dataclass
from typing import Final, Literal

from firn.changes.decode.types import Column, Encoding, Member, Type, storable

DecimalMode = Literal["precise", "string", "double"]
TimeMode = Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]
IntervalMode = Literal["numeric", "string"]
UnsignedMode = Literal["long", "precise"]
OutOfRange = Literal["null", "dead_letter"]


@dataclass(frozen=True)
class DecodeSettings:
    """How a stream's source encodes values: Debezium's own settings, under its own words.

    `out_of_range` is ours: what becomes of a value that the source holds and Iceberg can't (infinity, NaN in a decimal,
    years outside 1 to 9999): null, or a dead letter for the event.
    """

    unavailable_value: str = "__debezium_unavailable_value"
    decimal: DecimalMode = "precise"
    time: TimeMode = "adaptive"
    binary: BinaryMode = "bytes"
    interval: IntervalMode = "numeric"
    unsigned: UnsignedMode = "long"
    out_of_range: OutOfRange = "null"


_BINARY: Final[dict[str, str]] = {
    "bytes": "binary_base64",  # the JSON converter writes Connect's bytes as base64
    "base64": "binary_base64",
    "base64-url-safe": "binary_base64url",
    "hex": "binary_hex",
}
_DECIMAL: Final[dict[str, str]] = {"precise": "decimal_base64", "string": "decimal_text", "double": "decimal_number"}
_SIMPLE: Final[dict[str, str]] = {
    "boolean": "boolean", "int": "integer", "long": "integer", "float": "float32", "double": "float64",
    "string": "any", "uuid": "uuid", "variant": "json",
}  # fmt: skip


def _unit(settings: DecodeSettings, of: Literal["time", "timestamp"], precision: int | None) -> str:
    """ms, us, ns or text: how `time.precision.mode` writes a time or a timestamp of `precision` digits.

    Without a precision the column is taken for PostgreSQL's and MySQL's default of microseconds: PostgreSQL's
    `timestamp` has 6 digits. A timestamp(3) must therefore be declared as such in the adaptive modes.
    """
    match settings.time:
        case "connect":
            return "ms"
        case "isostring":
            return "text"
        case "microseconds":
            return "us"
        case "nanoseconds":
            return "ns"
        case "adaptive_time_microseconds" if of == "time":
            return "us"
        case _:
            if precision is None:
                return "us"
            return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def encoding_of(kind: Type, precision: int | None, settings: DecodeSettings) -> Encoding:
    """How the source writes a column of `kind`. `precision`: digits after the second of a time or timestamp."""
    if kind.element is not None:
        return Encoding("array", element=encoding_of(kind.element, precision, settings))
    if kind.entry is not None:
        of_key, of_value = (encoding_of(one, precision, settings) for one in kind.entry)
        return Encoding("map", element=of_value, key=of_key)
    if kind.fields:
        parts = (Member(name, encoding_of(part, precision, settings)) for name, part in kind.fields)
        return Encoding("geometry" if kind.holds("wkb") else "object", members=tuple(parts))
    match kind.name:
        case "decimal":
            return Encoding(_DECIMAL[settings.decimal], scale=kind.scale or 0)
        case "unsigned long":
            return Encoding("unsigned" if settings.unsigned == "long" else "decimal_base64")
        case "bit":
            return Encoding("bits")
        case "wkb":
            return Encoding("geometry")
        case "binary" | "fixed":
            return Encoding(_BINARY[settings.binary])
        case "date":
            return Encoding("date_text" if settings.time == "isostring" else "date_days")
        case "time":
            return Encoding("time_" + _unit(settings, "time", precision))
        case "timestamp" | "timestamptz":
            zoned = kind.name == "timestamptz"
            return Encoding("timestamp_" + _unit(settings, "timestamp", precision), zoned=zoned)
        case "timestamp_ns" | "timestamptz_ns":
            unit = _unit(settings, "timestamp", 9 if precision is None else precision)
            return Encoding("timestamp_" + unit, zoned=kind.name == "timestamptz_ns")
        case _:
            return Encoding(_SIMPLE[kind.name])


def declared_column(name: str, kind: Type, precision: int | None, settings: DecodeSettings) -> Column:
    """The column that a declaration in firn.yaml makes: the stored type, and how the source writes it.

    `time` is stored as string, `unsigned long` as decimal(20,0), `bit` and `wkb` as binary (types.storable), but the
    encoding remembers what it is.
    """
    return Column(name, storable(kind), source=encoding_of(kind, precision, settings))
