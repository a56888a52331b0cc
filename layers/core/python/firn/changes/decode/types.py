"""Iceberg's types as values: parse, print, widen, promote. The vocabulary in which tables, schemas and codecs talk.

Names and promotions follow the Iceberg table specification (format 2, "Schemas and Data Types", "Schema Evolution").
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

MAX_PRECISION: Final = 38


@dataclass(frozen=True)
class Type:
    """One Iceberg type: `precision` and `scale` belong to decimals, `element` to lists, `fields` (name, type) to
    structs, `length` in bytes to fixed, `entry` (key, value) to maps; `str()` is Iceberg's text."""

    name: str
    precision: int | None = None
    scale: int | None = None
    element: "Type | None" = None
    fields: "tuple[tuple[str, Type], ...]" = ()
    length: int | None = None
    entry: "tuple[Type, Type] | None" = None

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.length is not None:
            return f"{self.name}[{self.length}]"
        if self.name == "list":
            return f"list<{self.element}>"
        if self.entry is not None:
            return f"map<{self.entry[0]}, {self.entry[1]}>"
        if self.name == "struct":
            return f"struct<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"
        return self.name

    @property
    def nested(self) -> bool:
        """Whether it has parts: a list, a map or a struct."""
        return self.element is not None or bool(self.fields or self.entry)

    def holds(self, name: str) -> bool:
        """Whether it is the type of that name, or has it among its parts."""
        parts = [kind for _, kind in self.fields] + ([self.element] if self.element is not None else [])
        parts += self.entry or ()
        return self.name == name or any(part.holds(name) for part in parts)


BOOLEAN: Final = Type("boolean")
INT: Final = Type("int")
LONG: Final = Type("long")
FLOAT: Final = Type("float")
DOUBLE: Final = Type("double")
DATE: Final = Type("date")
TIME: Final = Type("time")
TIMESTAMP: Final = Type("timestamp")
TIMESTAMPTZ: Final = Type("timestamptz")
STRING: Final = Type("string")
UUID: Final = Type("uuid")
BINARY: Final = Type("binary")
# What only firn.yaml declares, of columns that no other type tells: how they are stored says `storable`.
UNSIGNED: Final = Type("unsigned long")  # 64 bits without a sign
BITS: Final = Type("bit")  # a bit string

_ALL: Final = BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, STRING, UUID, BINARY
_SIMPLE: Final[Mapping[str, Type]] = MappingProxyType({t.name: t for t in _ALL})

# The names of JSON schemas for streams (docs/schemas.md): they mean the same wherever a type is written.
_ALSO: Final[Mapping[str, Type]] = MappingProxyType(
    {"bool": BOOLEAN, "int32": INT, "int64": LONG, "float32": FLOAT, "float64": DOUBLE, "json": STRING}
)

# What people write from habit, and what Iceberg calls it: for the error's advice, never accepted silently.
_MEANT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "integer": "int", "smallint": "int", "tinyint": "int", "serial": "int", "bigint": "long",
        "bigserial": "long", "real": "float", "number": "decimal(p,s)", "numeric": "decimal(p,s)", "text": "string",
        "varchar": "string", "char": "string", "jsonb": "string", "enum": "string",
        "bytea": "binary", "bytes": "binary", "blob": "binary", "datetime": "timestamp", "array": "list<type>",
        "list": "list<type>", "map": "map<string, type>", "struct": "struct<name: type>",
        "object": "struct<name: type>", "fixed": "fixed[n], of 1 to 65,535 bytes",
    }
)  # fmt: skip

_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_FIXED: Final = re.compile(r"fixed\s*(?:\[\s*(\d{1,9})\s*\]|\(\s*(\d{1,9})\s*\))")
MAX_FIXED: Final = 65_535  # bytes of a value of one length
_LIST: Final = re.compile(r"list\s*<(.*)>", re.DOTALL)
_MAP: Final = re.compile(r"map\s*<(.*)>", re.DOTALL)
_STRUCT: Final = re.compile(r"struct\s*<(.*)>", re.DOTALL)
MAX_NESTING: Final = 20  # lists, maps and structs in one another: a reader of JSON, Parquet or Avro may go no deeper
MOST_FIELDS: Final = 5_000  # of structs, in one declared type
_TIMED: Final = re.compile(r"(time|timestamp|timestamptz)\s*\(\s*(\d)\s*\)")


def decimal(precision: int, scale: int) -> Type:
    """decimal(precision, scale), 1 <= precision <= 38 and 0 <= scale <= precision, else ValueError."""
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise ValueError(
            f"decimal({precision},{scale}) does not exist: the precision is 1 to {MAX_PRECISION}, "
            "the scale 0 to the precision"
        )
    return Type("decimal", precision, scale)


def fixed(length: int) -> Type:
    """fixed[length], 1 to MAX_FIXED bytes, else ValueError."""
    if not 1 <= length <= MAX_FIXED:
        raise ValueError(f"fixed[{length}]: the length is 1 to {MAX_FIXED:,} bytes; write binary")
    return Type("fixed", length=length)


def list_of(element: Type) -> Type:
    """list<element>."""
    return Type("list", element=element)


def map_of(key: Type, value: Type) -> Type:
    """map<key, value>. ValueError for keys that have parts, or that equal others by rounding."""
    if key.nested or key in (FLOAT, DOUBLE):
        raise ValueError(
            f"a map's keys can't be {key!s:.100}: equal ones may be written differently; "
            f"write map<string, {value!s:.100}>"
        )
    return Type("map", entry=(key, value))


def struct_of(fields: Iterable[tuple[str, Type]]) -> Type:
    """struct<name: type, …>. ValueError for names that are empty or there twice, or no name at all."""
    found = tuple(fields)
    names = [name for name, _ in found]
    if not found or not all(names):
        raise ValueError("a struct has fields, and each has a name; write struct<name: type, …>")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(f"the struct names {', '.join(twice)[:100]} twice; write each field once")
    return Type("struct", fields=found)


def parse(text: str, depth: int = 0) -> Type:
    """The type that `text` names, in Iceberg's words or those of schemas: `decimal(12,2)`, `list<int64>`,
    `struct<a: long, b: string>`. ValueError says what to write."""
    word = text.strip()
    if not word:
        raise ValueError("a type is missing; write list<type>, map<string, type> or struct<name: type>")
    if depth > MAX_NESTING:
        raise ValueError(f"the type is nested more than {MAX_NESTING} deep; keep what is below as json")
    if simple := _SIMPLE.get(word) or _ALSO.get(word):
        return simple
    if match := _DECIMAL.fullmatch(word):
        return decimal(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(word):
        return fixed(int(match[1] or match[2]))
    if match := _LIST.fullmatch(word):
        return list_of(parse(match[1], depth + 1))
    if (match := _MAP.fullmatch(word)) and len(inside := list(_parts(match[1]))) == 2:
        return map_of(*(parse(one, depth + 1) for one in inside))
    if match := _STRUCT.fullmatch(word):
        parts = [part.partition(":") for part in (_parts(match[1]) if match[1].strip() else ())]
        return struct_of((name.strip(), parse(kind, depth + 1)) for name, _, kind in parts)
    if match := _TIMED.fullmatch(word):
        raise ValueError(f"'{word}': Iceberg's {match[1]} has no precision; write {match[1]}")
    known = ", ".join(_SIMPLE) + ", json, decimal(p,s), fixed[n], list<type>, map<type, type> or struct<name: type>"
    meant = _MEANT.get(re.split(r"[\s(<\[]", word.lower(), maxsplit=1)[0])
    if word.lower() in _SIMPLE or word.lower() in _ALSO:
        meant = word.lower()
    word = word if len(word) <= 100 else f"{word[:97]}..."
    raise ValueError(f"'{word}' is not a type; " + (f"write {meant}" if meant else f"write one of {known}"))


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas of a struct or a map, but not those of its parts."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def storable(kind: Type) -> Type:
    """The type that a table column gets for `kind`: `time` is stored as string 'HH:MM:SS.ffffff', because Spark 4.0
    can't write Iceberg's time, `unsigned long` as decimal(20,0), `bit` as binary, a decimal of more digits than Iceberg
    has as string; everything else as itself. Works inside lists, maps and structs."""
    if kind.element is not None:
        return replace(kind, element=storable(kind.element))
    if kind.entry is not None:
        return replace(kind, entry=(storable(kind.entry[0]), storable(kind.entry[1])))
    if kind.fields:
        return replace(kind, fields=tuple((name, storable(part)) for name, part in kind.fields))
    return STRING if (kind.precision or 0) > MAX_PRECISION else _STORED.get(kind, kind)


# What inference has seen, never the type of a column: integers that a double holds exactly; NaN and infinities alone,
# which JSON has as text; both. With a fraction among them they are double.
INT53: Final = Type("int53")
SPECIAL: Final = Type("special")
SPECIAL_INT53: Final = Type("special_int53")
_STORED: Final[Mapping[Type, Type]] = MappingProxyType(
    {TIME: STRING, UNSIGNED: decimal(20, 0), BITS: BINARY, INT53: LONG, SPECIAL: STRING, SPECIAL_INT53: STRING}
)
INFERRED: Final[Mapping[str, Type]] = MappingProxyType({t.name: t for t in (INT53, SPECIAL, SPECIAL_INT53)})


def _as_decimal(kind: Type) -> tuple[int, int] | None:
    """(integer digits, scale) that hold every value of `kind`."""
    if kind.precision is not None and kind.scale is not None:
        return kind.precision - kind.scale, kind.scale
    return {"int": (10, 0), "int53": (19, 0), "long": (19, 0)}.get(kind.name)


_RANK: Final[Mapping[str, int]] = MappingProxyType({"int": 0, "long": 1, "float": 0, "double": 1})


_WITH_SPECIAL: Final = (
    (frozenset({"special", "special_int53", "int53", "int"}), SPECIAL_INT53),
    (frozenset({"special", "special_int53", "float", "double"}), DOUBLE),
)


def widen(a: Type, b: Type) -> Type:
    """The smallest type that holds both exactly, for a column that no table has yet; string if there is none.

    int < long, float < double, int < decimal, int < double, fixed < binary; decimals by integer digits and scale. A
    long does not fit a double exactly, nor a double a decimal: those become string, which keeps the text of both.
    """
    if a == b:
        return a
    if a.element is not None and b.element is not None:
        return list_of(widen(a.element, b.element))
    if a.entry and b.entry:
        return map_of(a.entry[0], widen(a.entry[1], b.entry[1])) if a.entry[0] == b.entry[0] else STRING
    if a.fields and b.fields:
        ours, theirs = dict(a.fields), dict(b.fields)
        return struct_of(
            (name, widen(ours[name], theirs[name]) if name in ours and name in theirs else (ours | theirs)[name])
            for name in ours | theirs
        )
    names = {a.name, b.name}
    if names <= {"fixed", "binary"}:
        return BINARY
    if names in ({"int", "long"}, {"float", "double"}):
        return a if _RANK[a.name] > _RANK[b.name] else b
    if names & {"special", "special_int53"}:
        return next((kind for others, kind in _WITH_SPECIAL if names <= others), STRING)
    if names == {"int53", "int"}:
        return INT53
    if names == {"int53", "long"}:
        return LONG
    if names in ({"int", "double"}, {"int", "float"}, {"int53", "double"}, {"int53", "float"}):
        return DOUBLE
    left, right = _as_decimal(a), _as_decimal(b)
    if left and right:
        whole, scale = max(left[0], right[0]), max(left[1], right[1])
        return decimal(whole + scale, scale) if whole + scale <= MAX_PRECISION else STRING
    return STRING


def promotable(a: Type, b: Type) -> bool:
    """Whether Iceberg lets an existing column of type `a` become `b` (format 2): int -> long, float -> double, a
    decimal of the same scale and more precision; in lists, by their element; in structs by their fields, of which more
    may come. A type promotes to itself."""
    if a == b:
        return True
    if a.element is not None and b.element is not None:
        return promotable(a.element, b.element)
    if a.entry and b.entry:
        return a.entry[0] == b.entry[0] and promotable(a.entry[1], b.entry[1])
    if a.fields and b.fields:  # fields may come in addition, behind those that are there
        ours, theirs = a.fields, b.fields[: len(a.fields)]
        same = [name for name, _ in ours] == [name for name, _ in theirs]
        return same and all(promotable(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True))
    if (a.name, b.name) in {("int", "long"), ("float", "double")}:
        return True
    if a.name == b.name == "decimal":
        return a.scale == b.scale and (a.precision or 0) <= (b.precision or 0)
    return False


@dataclass(frozen=True)
class Member:
    """How one member of an object is written. `required`: it must be there and not null; `default`: the JSON of its
    value where it is not there."""

    name: str
    source: "Encoding"
    required: bool = False
    default: bytes | None = None


@dataclass(frozen=True)
class Encoding:
    """How a source writes one column's values in JSON.

    `kind` is one of KINDS. `scale` belongs to decimal_base64 (digits after the point), `bits` to bits (its declared
    length), `zoned` to timestamps (true: an instant; None: the source does not say), `element` to array, and with `key`
    to a map (and to json, where a source says what its maps hold), `members` to object; `closed`: an object with other
    members is refused; `marked`: an unavailable value is unavailable.MARK and nothing else.
    """

    kind: str
    scale: int = 0
    bits: int = 0
    zoned: bool | None = False
    element: "Encoding | None" = None
    key: "Encoding | None" = None
    members: tuple[Member, ...] = ()
    closed: bool = False
    marked: bool = False


KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "any": "no schema and no declaration: the JSON value tells",
        "boolean": "true or false",
        "integer": "a JSON integer",
        "unsigned": "a JSON integer of 64 bits without a sign; one that is negative has 2^64 too little",
        "float32": "a JSON number, the shortest that gives the 32-bit float; or NaN, Infinity, -Infinity as strings",
        "float64": "a JSON number; or NaN, Infinity, -Infinity as strings",
        "string": "a JSON string",
        "uuid": "a JSON string of 36 characters",
        "decimal_base64": "base64 of the unscaled value, big-endian two's complement (Connect's Decimal)",
        "decimal_variable": "an object {scale, value: base64} (Debezium's VariableScaleDecimal)",
        "decimal_text": "decimal digits in a string, or a word for NaN or infinity",
        "decimal_number": "a JSON number, read by its digits and not as a double",
        "text": "the text of a value in a string, whatever the column's type: digits, ISO 8601, base64",
        "binary_base64": "base64 in a string, padded or not",
        "binary_base64url": "URL-safe base64 in a string, padded or not",
        "binary_hex": "hexadecimal digits in a string",
        "bits": "base64 of the bits, little-endian (Debezium's Bits)",
        "date_days": "days since 1970-01-01",
        "date_text": "ISO 8601 date in a string, with or without a trailing Z",
        "time_ms": "milliseconds since midnight",
        "time_us": "microseconds since midnight",
        "time_ns": "nanoseconds since midnight",
        "time_text": "ISO 8601 time in a string",
        "timestamp_s": "seconds since 1970-01-01T00:00:00",
        "timestamp_ms": "milliseconds since 1970-01-01T00:00:00",
        "timestamp_us": "microseconds since 1970-01-01T00:00:00",
        "timestamp_ns": "nanoseconds since 1970-01-01T00:00:00",
        "timestamp_text": "ISO 8601 timestamp in a string",
        "json": "any JSON value, kept as its text; a string is taken for such a text",
        "json_value": "any JSON value, kept as its text; a string too",
        "geometry": "an object with wkb in base64 (Debezium's Point, Geometry, Geography), kept as its text",
        "array": "a JSON array of the element's encoding",
        "object": "a JSON object of the members' encodings",
        "map": "a JSON object whose names are texts of keys, or an array of [key, value]",
    }
)


@dataclass(frozen=True)
class FieldRule:
    """What a schema (row_schema.py) demands of a column: that its values are of `type`, whatever wider one the table
    has; that it is there and not null (`required`); and what stands in for it where it is not there (`default`: JSON).
    """

    type: Type
    required: bool = False
    default: bytes | None = None


@dataclass(frozen=True)
class Column:
    """One column: of a table (`type` is what to produce) or of an event (`type` is what the source's values become).

    `source` is how the source writes it; None where nobody has said. `earlier`: the names under which changes may carry
    it too, the newest first. `silent`: no change carries it under its own name, which is one of another column.
    `rule`: what a schema demands of it. `default`: the value of a row whose change does not name it, None: null.
    """

    name: str
    type: Type
    required: bool = False
    source: Encoding | None = None
    earlier: tuple[str, ...] = ()
    silent: bool = False
    rule: FieldRule | None = None
    default: Any = None
