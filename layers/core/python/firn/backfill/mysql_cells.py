"""How MySQL or MariaDB itself writes a row as the stream's row image: an expression for each column. Pure.

The types are those that a stream of Debezium's connector gives (docs/sources/mysql.md), and the values what it sends in
its own default settings: years of two digits, zero dates as null, or as 1970 where the column is NOT NULL. Where a
table is there already, its columns decide. The session has time_zone +00:00 and no sql_mode.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from firn.backfill.postgres_cells import Form, NoForm, goes_into
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Type

MAX_PRECISION: Final = 38
# information_schema.columns.column_type: `decimal(12,2) unsigned`, `enum('a','b')`, `timestamp(6)`.
_TYPE: Final = re.compile(r"([a-z0-9_]+)(?:\((\d+)(?:,(\d+))?\))?(.*)", re.DOTALL)


@dataclass(frozen=True)
class MysqlColumn:
    """A column as information_schema has it. `kind`: its column_type; `nullable`: whether it may be null."""

    name: str
    kind: str
    nullable: bool = True


@dataclass(frozen=True)
class _Kind:
    """`first`, `second`: the numbers in the parentheses; `unsigned`, `zerofill`: what follows them."""

    name: str
    first: int | None
    second: int | None
    unsigned: bool
    zerofill: bool


def mysql_form(column: MysqlColumn, settings: DecodeSettings, existing: Type | None) -> Form:
    """How the column's values are read. `existing`: the type of the table's column, or that firn.yaml declares; None:
    there is none yet. Raises NoForm."""
    kind = _kind(column.kind)
    usual = _usual(column, kind, settings)
    if usual is None:
        raise NoForm(
            f"column {column.name[:100]} is {column.kind[:40]}, of which the connector sends other values or none "
            "(docs/sources/mysql.md): keep it in binary(16) or varchar, or leave the table out"
        )
    if existing is None:
        return usual
    for form in (usual, *_others(column, kind, settings)):
        if goes_into(form.type, existing):
            return form
    raise NoForm(
        f"column {column.name[:100]} is {column.kind[:40]} in the source and {existing} in the table, and no value of "
        "the one fits the other: declare the column in firn.yaml (`columns:`) with a type that holds both, and rebuild "
        "the table"
    )


def _kind(text: str) -> _Kind:
    found = _TYPE.match(text.lower())
    if found is None:
        return _Kind(text, None, None, unsigned=False, zerofill=False)
    name, first, second, rest = found.groups()
    number = [None if one is None else int(one) for one in (first, second)]
    return _Kind(name, number[0], number[1], "unsigned" in rest or "zerofill" in rest, "zerofill" in rest)


def _field(kind: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": True} | ({"name": name} if name else {}) | more


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return _field("string", "firn.data.Decimal", parameters={"precision": str(precision), "scale": str(scale)})


_STRING: Final = _field("string")
_INTEGERS: Final = ("tinyint", "smallint", "mediumint")
_TEXTS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
_BYTES: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SHAPES: Final = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
)  # fmt: skip
_NUMBER: Final = "{} + 0"  # without the zeros of ZEROFILL
_DIGITS: Final = "CAST({} + 0 AS CHAR)"
# Not the column itself: JSON functions take the charset of what they are given, and JSON texts for JSON.
_TEXT: Final = "CONCAT(CONVERT({} USING utf8mb4), '')"
_TRUE: Final = "JSON_COMPACT(IF({} + 0 <> 0, 'true', IF({} IS NULL, NULL, 'false')))"
_YEAR: Final = "IF({} + 0 = 0, 1900, {} + 0)"  # YEAR 0000 comes as 1900
_BASE64: Final = r"REPLACE(TO_BASE64({}), '\n', '')"
_BINARY: Final[Mapping[str, str]] = {
    "bytes": _BASE64,
    "base64": _BASE64,
    "base64-url-safe": rf"REPLACE(REPLACE({_BASE64}, '+', '-'), '/', '_')",
    "hex": "LOWER(HEX({}))",
}
_COORDINATE: Final = (
    "IF(CAST({c} AS DOUBLE) = FLOOR({c}) AND ABS({c}) < 1e7, CONCAT(FLOOR({c}), '.0'), CAST({c} AS DOUBLE))"
)
_POINT: Final = (
    "'\"x\":', "
    + _COORDINATE.replace("{c}", "ST_X({})")
    + ", ',\"y\":', "
    + _COORDINATE.replace("{c}", "ST_Y({})")
    + ", ',"
)
_WKB: Final = (
    '"wkb":"\', '
    + _BASE64.replace("{}", "ST_AsBinary({})")
    + ", '\",\"srid\":', IF(ST_SRID({}) = 0, 'null', ST_SRID({})), '}')"
)
_SHAPE: Final = "CONCAT('{" + _WKB


def _usual(column: MysqlColumn, kind: _Kind, settings: DecodeSettings) -> Form | None:
    """What a table without any rows gets; None: no stream has its values."""
    match kind.name:
        case name if name in _INTEGERS:
            return Form(_field("int32"), _NUMBER)
        case "int" | "integer":
            return Form(_field("int64" if kind.unsigned else "int32"), _NUMBER)
        case "bigint":
            return Form(_decimal(20, 0), _DIGITS) if kind.unsigned else Form(_field("int64"), _NUMBER)
        case "year":
            return Form(_field("int32"), _YEAR)
        case "decimal" | "numeric":
            return Form(*_exact(kind))
        case "float":
            return Form(_field("float"), "CAST({} AS DOUBLE)")
        case "double" | "real":
            return Form(_field("double"), "CAST({} AS DOUBLE)")
        case "bit":
            return Form(_field("boolean"), _TRUE) if kind.first in (None, 1) else Form(*_bits(kind.first or 1))
        case name if name in _BYTES:
            return Form(_field("bytes" if settings.binary == "bytes" else "string"), _BINARY[settings.binary])
        case name if name in _TEXTS:
            return Form(_STRING, _TEXT)
        case "date":
            return Form(_field("string", "io.debezium.time.IsoDate"), _day(column, "%Y-%m-%d"))
        case "datetime":
            return Form(_field("string", "io.debezium.time.IsoTimestamp"), _day(column, _MOMENT))
        case "timestamp":
            return Form(_field("string", "io.debezium.time.ZonedTimestamp"), _INSTANT)
        case "time":
            return Form(_STRING, "TIME_FORMAT({}, '%H:%i:%s.%f')")
        case "point":
            return Form(_STRING, "CONCAT('{', " + _POINT + _WKB)
        case name if name in _SHAPES:
            return Form(_STRING, _SHAPE)
    return None


def _exact(kind: _Kind) -> tuple[dict[str, Any], str]:
    precision, scale = (10 if kind.first is None else kind.first), kind.second or 0
    return (_decimal(precision, scale) if precision <= MAX_PRECISION else dict(_STRING)), _DIGITS


def _bits(length: int) -> tuple[dict[str, Any], str]:
    """Little-endian, in base64 whatever the mode of binary columns is."""
    size = (length + 7) // 8
    field = _field("bytes", "io.debezium.data.Bits", parameters={"length": str(length)})
    return field, f"TO_BASE64(REVERSE(UNHEX(LPAD(HEX({{}} + 0), {2 * size}, '0'))))"


_MOMENT: Final = "%Y-%m-%dT%H:%i:%s.%f"
_EPOCH: Final = "1970-01-01T00:00:00.000000"


def _day(column: MysqlColumn, form: str) -> str:
    """A date or a datetime. Zeros in it are null, or 1970 where null can't be; years of two digits are of 1970 to
    2069."""
    nothing = "NULL" if column.nullable else f"'{_EPOCH[: 10 if 'T' not in form else 26]}'"
    rest = form.removeprefix("%Y")
    short = f"CONCAT(YEAR({{}}) + IF(YEAR({{}}) < 70, 2000, 1900), DATE_FORMAT({{}}, '{rest}'))"
    return (
        "CASE WHEN {} IS NULL THEN NULL "
        f"WHEN YEAR({{}}) = 0 OR MONTH({{}}) = 0 OR DAYOFMONTH({{}}) = 0 THEN {nothing} "
        f"WHEN YEAR({{}}) < 100 THEN {short} ELSE DATE_FORMAT({{}}, '{form}') END"
    )


# A zero timestamp comes as 1970 in the stream.
_INSTANT: Final = f"IF({{}} = 0, '{_EPOCH}Z', DATE_FORMAT({{}}, '{_MOMENT}Z'))"


_UNITS: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _others(column: MysqlColumn, kind: _Kind, settings: DecodeSettings) -> list[Form]:
    """Other forms of the type, the likeliest first: what its values are in streams that say less of it."""
    match kind.name:
        case "tinyint":
            return [Form(_field("boolean"), _TRUE)]
        case "bigint":
            return [Form(_field("int64"), "CAST({} AS SIGNED)")]  # above 2^63 as the connector's default mode has it
        case "decimal" | "numeric":
            return [Form(_field("double"), "CAST({} AS DOUBLE)"), Form(_STRING, _DIGITS)]
        case "float":
            return [Form(_field("double"), "CAST({} AS CHAR)", convert=True)]
        case "bit" if kind.first not in (None, 1):
            return [Form(_STRING, _bits(kind.first or 1)[1])]
        case name if name in _BYTES:
            return [Form(_STRING, _BINARY[settings.binary]), Form(_field("bytes"), _BASE64)]
        case name if name in _SHAPES:
            return [Form(_field("bytes"), _BASE64.replace("{}", "ST_AsBinary({})"))]
        case "date":
            return [Form(_field("int32"), f"DATEDIFF({_day(column, '%Y-%m-%d')}, '1970-01-01')")]
        case "datetime":
            unit = _UNITS[_unit(settings, "timestamp", kind.first or 0)]
            moment = _day(column, _MOMENT)
            micros = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {moment})"
            return [
                Form(_field("int64"), f"FLOOR({micros} / 1000)" if unit == 1_000 else f"{micros} * {unit // 1_000_000}")
            ]
        case "time":
            unit = _UNITS[_unit(settings, "time", kind.first or 0)]
            micros = "CAST(TIME_TO_SEC({}) * 1000000 AS SIGNED)"
            return [Form(_field("int64"), f"{micros} DIV 1000" if unit == 1_000 else f"{micros} * {unit // 1_000_000}")]
        case "timestamp":
            return [Form(_STRING, _INSTANT)]
    return []


def _unit(settings: DecodeSettings, of: str, digits: int) -> str:
    """What a time without schema counts, by Debezium's time.precision.mode."""
    match settings.time:
        case "connect":
            return "ms"
        case "nanoseconds":
            return "ns"
        case "adaptive" if digits <= 3:
            return "ms"
        case "adaptive_time_microseconds" if of == "timestamp" and digits <= 3:
            return "ms"
    return "us"


def row_json(columns: Mapping[str, str]) -> str:
    """The SQL of a row's JSON, in bytes: of column names to the SQL of their values."""
    cells = ", ".join(f"{text_literal(name)}, {sql}" for name, sql in columns.items())
    return f"CAST(JSON_OBJECT({cells}) AS BINARY)"


def text_literal(text: str) -> str:
    """A string constant, by its bytes."""
    return f"_utf8mb4 X'{text.encode().hex()}'"


def connect_schema(fields: Mapping[str, Mapping[str, Any]]) -> str:
    """The inline Connect schema of rows with these columns."""
    row = [{**field, "field": name} for name, field in fields.items()]
    after = {"type": "struct", "field": "after", "optional": True, "fields": row}
    return json.dumps({"type": "struct", "name": "firn.backfill.Envelope", "fields": [after]}, ensure_ascii=False)
