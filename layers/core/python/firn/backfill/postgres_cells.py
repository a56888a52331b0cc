"""How PostgreSQL itself writes a row as the stream's row image: an expression for each column. Pure.

The types, and what a value looks like in JSON, are those of a stream that Firn reads from PostgreSQL
(sources/postgres/column_forms.py). For most types the server's own functions give just that text; the others travel as
text, and are written by the very functions that write them in the stream. The session has value_texts.SESSION.

Where a table is there already, its columns decide: the same source may send a numeric as decimal or double, a timestamp
as such or as a number, whatever the settings of its connector are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from firn.backfill.chunk_plan import Cell
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Type, storable, widen
from firn.errors import TerminalError
from firn.sources.postgres.column_forms import column_form
from firn.sources.postgres.type_catalog import PgType, TypeCatalog


class NoForm(TerminalError):
    """No form of the column's values fits the table that is there."""


@dataclass(frozen=True)
class Form:
    """`field`: the Connect field without the column's name; `sql`: the cell, in which {} is the column; `convert`:
    whether it gives the text of PostgreSQL's output function, which is yet to be written."""

    field: Mapping[str, Any]
    sql: str
    convert: bool = False

    @property
    def type(self) -> Type:
        """What a table holds of it."""
        row = {"type": "struct", "field": "after", "fields": [{"field": "x", **self.field}]}
        return storable(columns_of(json.dumps({"type": "struct", "fields": [row]}).encode())[0].type)


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def form_of(
    name: str, oid: int, modifier: int, types: TypeCatalog, settings: DecodeSettings, existing: Type | None
) -> Form:
    """How the column's values are read. `existing`: the type of the table's column, or that firn.yaml declares; None:
    there is none yet. Raises NoForm."""
    known, digits = types.plain(oid, modifier)
    own = column_form(types, oid, modifier, settings)
    usual = Form(own.field, *_expression(known, types, settings))
    if existing is None:
        return usual
    for form in (usual, *_others(known, digits, settings, existing)):
        if goes_into(form.type, existing) and not _is_unsaid(form.type, existing, settings):
            return form
    raise NoForm(
        f"column {name[:100]} is {known.name if known else 'of an unknown type'} in the source and {existing} in the "
        "table, and no value of the one fits the other: declare the column in firn.yaml (`columns:`) with a type that "
        "holds both, and rebuild the table"
    )


def goes_into(kind: Type, existing: Type) -> bool:
    """Whether values of `kind` go into a table's column: all of them, or of bytes those of the column's length, which a
    commit looks at."""
    if kind.name == "binary" and existing.length is not None:
        return True
    return storable(widen(existing, kind)) == storable(existing)


def cell_of(name: str, form: Form, oid: int, modifier: int) -> Cell:
    """The cell of a plan."""
    sql = form.sql.replace("{}", quoted(name))
    return Cell(name, sql, oid, modifier, convert=True) if form.convert else Cell(name, sql)


def _is_unsaid(kind: Type, existing: Type, settings: DecodeSettings) -> bool:
    """Whether the table has as text what nobody has told the type of: a decimal in base64."""
    return kind.name == "decimal" and existing.name == "string" and settings.decimal == "precise"


_AS_IT_IS: Final = frozenset({"bool", "int2", "int4", "int8"})
_FLOATS: Final = frozenset({"float4", "float8"})
# row_to_json writes these by their output function, as the stream has them. A cast to text may give something else: it
# takes the blanks off a char(5), and gives every inet its netmask.
_QUOTED: Final = frozenset(
    {
        "text", "varchar", "bpchar", "name", "char", "citext", "time", "uuid", "xml", "ltree", "tsvector", "inet",
        "cidr", "macaddr", "macaddr8",
    }
)  # fmt: skip
# These it would write in a form of JSON's own, and their cast is their output function.
_CAST: Final = frozenset({"date", "timestamp", "timestamptz", "json", "jsonb"})
_BYTES: Final[Mapping[str, str]] = {
    "bytes": "translate(encode({}, 'base64'), E'\\n', '')",
    "base64": "translate(encode({}, 'base64'), E'\\n', '')",
    "base64-url-safe": "translate(encode({}, 'base64'), E'+/\\n', '-_')",
    "hex": "encode({}, 'hex')",
}
_TEXT: Final = "{}::text"
_OUTPUT: Final = "CASE WHEN {} IS NOT NULL THEN concat({}) END"  # by the output function, whatever casts there are
_FLOAT: Final = "CASE WHEN {} = 0 AND {}::text = '-0' THEN '-0.0'::json ELSE to_json({}) END"


def _expression(known: PgType | None, types: TypeCatalog, settings: DecodeSettings) -> tuple[str, bool]:
    """The cell of the column's usual form, and whether it is converted."""
    if known is None:
        return _OUTPUT, False
    if known.element:
        element = types.get(known.element)
        name = element.name if element is not None and element.kind in "be" and not element.element else ""
        if name in _AS_IT_IS or name in _QUOTED or (name and element is not None and element.kind == "e"):
            return "{}", False
        return ("{}::text[]", False) if name in _CAST - {"json", "jsonb"} else (_OUTPUT, True)
    if known.kind == "e":
        return "{}", False
    if known.kind != "b":
        return _TEXT, False
    match known.name:
        case name if name in _AS_IT_IS or name in _QUOTED:
            return "{}", False
        case name if name in _FLOATS:
            return _FLOAT, False
        case name if name in _CAST:
            return _TEXT, False
        case "oid":
            return "{}::bigint", False
        case "numeric":
            return (_NUMBER if settings.decimal == "double" else _TEXT), False
        case "bytea":
            return _BYTES[settings.binary], False
    return _OUTPUT, True


# A number by its digits, as the stream has it; JSON has no word for NaN and infinity.
_NUMBER: Final = "CASE WHEN {} IN ('NaN', 'Infinity', '-Infinity') THEN to_json({}::text) ELSE to_json({}) END"
_UNITS: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _others(known: PgType | None, digits: int, settings: DecodeSettings, existing: Type) -> list[Form]:
    """Other forms of the type, the likeliest first."""
    string = {"type": "string", "optional": True}
    if known is None:
        return []
    match known.name:
        case "numeric" | "money":
            text = "{}::numeric::text"
            found = [Form({"type": "double", "optional": True}, "to_json({}::float8)"), Form(string, text)]
            if existing.name == "decimal":
                parameters = {"precision": str(existing.precision), "scale": str(existing.scale)}
                decimal = {"type": "string", "optional": True, "name": "firn.data.Decimal", "parameters": parameters}
                found.insert(0, Form(decimal, text))
            return found
        case "date":
            days = "CASE WHEN isfinite({}) THEN {} - date '1970-01-01' END"
            return [Form({"type": "int32", "optional": True}, days)]
        case "time" | "timestamp":
            unit = _UNITS[_unit(settings, known.name, digits)]
            since = f"(extract(epoch FROM {{}}) * {unit})::bigint"
            if unit == _UNITS["ms"]:  # connectors cut microseconds off, and a cast would round them
                since = "floor(round((extract(epoch FROM {}) * 1000000)::numeric) / 1000)::bigint"
            finite = f"CASE WHEN isfinite({{}}) THEN {since} END" if known.name == "timestamp" else since
            return [Form({"type": "int64", "optional": True}, finite)]
        case "geometry" | "geography":
            return [Form({"type": "bytes", "optional": True, "name": "firn.data.Hex"}, _TEXT)]
        case "uuid" | "bytea" | "timestamptz":
            return [Form(string, _expression(known, TypeCatalog(), settings)[0])]
    return []


def _unit(settings: DecodeSettings, name: str, digits: int) -> str:
    """What a time without schema counts, by Debezium's time.precision.mode."""
    match settings.time:
        case "connect":
            return "ms"
        case "nanoseconds":
            return "ns"
        case "adaptive" | "adaptive_time_microseconds" if 0 <= digits <= 3:
            return "us" if name == "time" and settings.time == "adaptive_time_microseconds" else "ms"
    return "us"
