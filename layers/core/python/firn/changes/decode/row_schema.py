"""What a stream's rows must be: the schema of a table rule in firn.yaml (docs/schemas.md), and how a row is held to it.

Ingest and the commit job judge by one codec (`checker`), so that what ingest has taken is what the job takes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from firn.changes.decode.codec import RowCodec
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Column, Encoding, FieldRule, Member, Type, list_of, storable, struct_of

Invalid = Literal["dead_letter", "refuse"]
Unknown = Literal["keep", "drop", "reject"]
Unit = Literal["second", "millisecond", "microsecond", "nanosecond"]

UNITS: Final[dict[str, Unit]] = {
    "second": "second", "s": "second", "millisecond": "millisecond", "ms": "millisecond",
    "microsecond": "microsecond", "us": "microsecond", "nanosecond": "nanosecond", "ns": "nanosecond",
}  # fmt: skip
_ENDS: Final = {"second": "s", "millisecond": "ms", "microsecond": "us", "nanosecond": "ns", None: "text"}
# How a schema's types travel in JSON, which is not how Debezium writes them (source_encodings.py).
_WRITTEN: Final = {
    "boolean": "boolean", "int": "integer", "long": "integer", "float": "float32", "double": "float64",
    "string": "string", "uuid": "uuid", "binary": "binary_base64", "decimal": "decimal_number", "date": "date_text",
    "time": "time_text", "fixed": "binary_base64",
}  # fmt: skip


@dataclass(frozen=True)
class SchemaField:
    """One field: its type, and in `written` how JSON has it, whether it must be there, what stands in for it."""

    type: Type
    written: Member

    @property
    def name(self) -> str:
        """What rows call it."""
        return self.written.name


@dataclass(frozen=True)
class RowSchema:
    """The schema of a table rule. `version`: a short hash of the fields and `unknown`; `invalid`: what becomes of rows
    that do not fit it; `unknown`: what becomes of members that it does not name."""

    fields: tuple[SchemaField, ...]
    version: str
    invalid: Invalid = "dead_letter"
    unknown: Unknown = "keep"

    def columns(self) -> tuple[Column, ...]:
        """As firn.tables.planning takes columns that are declared."""
        return tuple(
            Column(
                field.name,
                storable(field.type),
                source=field.written.source,
                rule=FieldRule(field.type, field.written.required, field.written.default),
            )
            for field in self.fields
        )

    @property
    def closed(self) -> bool:
        """Whether the table gets no columns but those that the schema names."""
        return self.unknown != "keep"

    def settings(self, settings: DecodeSettings) -> DecodeSettings:
        """The same for rows with a schema: what lies out of range is not what the schema says, and never null."""
        return replace(settings, out_of_range="dead_letter")

    def others(self, known: Collection[str]) -> frozenset[str] | None:
        """As Decoding.closed. `known`: names that say something to the stream itself (its table, op or order)."""
        return frozenset(known) if self.unknown == "reject" else None


def checker(schema: RowSchema, settings: DecodeSettings, known: Collection[str], *, deleted: bool = False) -> RowCodec:
    """What decides at ingest whether a row fits, by `decode`. `known`: as RowSchema.others; `deleted`: of rows that are
    deleted, which need not have all."""
    closed = None if deleted else schema.others(known)
    return RowCodec(schema.columns(), None, schema.settings(settings), closed=closed, lenient=deleted)


def written(kind: Type, unit: Unit | None = None) -> Encoding:
    """How values of a type that has no parts are written in JSON under a schema."""
    if kind.name in ("timestamptz", "timestamptz_ns"):
        return Encoding(f"timestamp_{_ENDS[unit]}", zoned=True)
    return Encoding(_WRITTEN[kind.name])


JSON: Final = Encoding("json_value")
"""How values of the type `json` are written: any way; they are kept as their text."""


def list_field(name: str, element: SchemaField) -> SchemaField:
    """A list of values that are written as `element` says."""
    return SchemaField(list_of(element.type), Member(name, Encoding("array", element=element.written.source)))


def struct_field(name: str, fields: Collection[SchemaField], *, closed: bool) -> SchemaField:
    """An object of these members. `closed`: of no others. Raises ValueError for names that can't be."""
    kind = struct_of((field.name, field.type) for field in fields)
    return SchemaField(kind, Member(name, Encoding("object", members=tuple(f.written for f in fields), closed=closed)))


def names_below(name: str, kind: Type) -> Iterator[str]:
    """The names that Iceberg knows a column and what is in it by: all those of a table differ."""
    yield name
    if kind.element is not None:
        yield from names_below(f"{name}.element", kind.element)
    for part, inner in zip(("key", "value"), kind.entry or (), strict=False):
        yield from names_below(f"{name}.{part}", inner)
    for part, inner in kind.fields:
        yield from names_below(f"{name}.{part}", inner)
