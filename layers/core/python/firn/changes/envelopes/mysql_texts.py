"""MySQL's values as Canal writes them, a text each, and its types: what the row image and its schema become. Pure.

Most texts stay as they are, and the schema says by the type's word how they are read. These do not:

* `binary`, `varbinary` and blobs are bytes as ISO 8859-1 text: they become base64; `binary(4)` gets its zeros back;
* geometry is such a text of MySQL's own form, four bytes of SRID and then WKB: an object {wkb, srid}, as Debezium's;
* an `enum` is its place among the labels, from 1: the label (0, MySQL's mark of a wrong value, is ""); a `set` the sum
  of its labels' bits: the labels, with commas;
* a `float` becomes a JSON number: its shortest digits are those of 32 bits.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from firn.changes.envelopes.row_images import schema_of, word
from firn.errors import EventError

Write = Callable[[str], bytes]  # a value's text -> its JSON; ValueError if it is no text of the type
_encode: Final = msgspec.json.encode

_WORDS: Final = re.compile("[a-z][a-z ]*")
_SIGNS: Final = frozenset({"unsigned", "zerofill", "signed"})
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_LABEL_CHARACTERS: Final = 255  # MySQL 8.0 Reference Manual, 13.3.6: M <= 255 for an element
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,20}", re.ASCII)  # an enum's place, a set's bits, a length
_INTEGERS: Final = {
    "tinyint": "int32", "smallint": "int32", "mediumint": "int32", "int": "int32", "integer": "int32",
    "bigint": "int64", "year": "int32", "bool": "int32", "boolean": "int32", "serial": "int64",
}  # fmt: skip
_TIMES: Final = {
    "date": "io.debezium.time.IsoDate", "time": "io.debezium.time.IsoTime",
    "datetime": "io.debezium.time.IsoTimestamp", "timestamp": "io.debezium.time.IsoTimestamp",
}  # fmt: skip
_BINARY: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_GEOMETRY: Final = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
     "geometrycollection", "geomcollection"}
)  # fmt: skip
_INTEGER: Final = 4  # java.sql.Types.INTEGER: of an enum that is its place


class Form(Struct, frozen=True):
    """How the rows of one table are written. `schema`: their inline schema, of the columns `names`; `writes`: the
    columns whose texts become other JSON."""

    schema: bytes
    names: frozenset[str]
    writes: Mapping[str, Write]


@lru_cache(512)
def texts_of(names: tuple[str, ...]) -> Form:
    """Rows of which nothing is known but the names of their columns."""
    fields = [word(name, "string", "firn.data.Text") for name in names if name]
    return Form(schema_of(fields), frozenset(names), {})


@lru_cache(256)
def form_of(types: bytes, codes: bytes | None, others: tuple[str, ...] = ()) -> Form:
    """`types`, `codes`: the objects `mysqlType` (name: type) and `sqlType` (name: code of java.sql.Types), as JSON;
    `others`: columns that have no type there. Raises EventError bad_event."""
    try:
        kinds = msgspec.json.decode(types, type=dict[str, str])
        numbers = msgspec.json.decode(codes, type=dict[str, int]) if codes is not None else {}
    except (msgspec.MsgspecError, UnicodeError):
        raise EventError("bad_event", "`mysqlType` or `sqlType` is not an object of types by column") from None
    fields, writes = [], {}
    for name, kind in kinds.items():
        field, write = _column(name, kind, numbers.get(name))
        fields += [field] if name else []
        if write is not None:
            writes[name] = write
    fields += [word(name, "string", "firn.data.Text") for name in others if name]
    return Form(schema_of(fields), frozenset([*kinds, *others]), writes)


def _column(name: str, kind: str, code: int | None) -> tuple[dict[str, Any], Write | None]:
    bare, inside, rest = _taken_apart(kind.lower())
    if bare in ("decimal", "numeric", "dec", "fixed"):
        precision, _, scale = inside.partition(",")
        digits = {"precision": precision.strip() or 10, "scale": scale.strip() or 0}
        return word(name, "string", "firn.data.Decimal", **digits), None
    if bare in _INTEGERS:
        if "unsigned" in rest and bare == "bigint":
            return word(name, "string", "firn.data.Decimal", precision=20, scale=0), None
        wide = "unsigned" in rest and bare in ("int", "integer")
        return word(name, "int64" if wide else _INTEGERS[bare], "firn.data.Text"), None
    if bare == "bit":
        if inside.strip() == "64":
            return word(name, "string", "firn.data.Decimal", precision=20, scale=0), None
        return word(name, "int64", "firn.data.Text"), None
    if bare == "float":
        return word(name, "float"), _number
    if bare in ("double", "double precision", "real"):
        return word(name, "double", "firn.data.Text"), None
    if bare in _TIMES:
        return word(name, "string", _TIMES[bare]), None
    if bare in _BINARY:
        length = (_length(inside) or 1) if bare == "binary" else 0
        return word(name, "bytes"), partial(_bytes, length)
    if bare in _GEOMETRY:
        return word(name, "struct", "io.debezium.data.geometry.Geometry"), _geometry
    if bare in ("enum", "set"):
        labels = [label.replace("''", "'") for label in _LABEL.findall(kind)]
        if max(map(len, labels), default=0) > _LABEL_CHARACTERS:  # each row of an event would repeat it
            raise EventError("bad_event", f"a label of the type of {name[:100]!r} is longer than MySQL has them")
        write = _of_set if bare == "set" else _of_enum if code in (None, _INTEGER) else None
        return word(name, "string"), write and partial(write, labels, frozenset(labels))
    return word(name, "string", "io.debezium.data.Json" if bare == "json" else None), None


def _taken_apart(kind: str) -> tuple[str, str, list[str]]:
    """A type's words, what stands in its parentheses, and the words of its sign: `decimal`, `10,2`, [`unsigned`]. No
    words if it is not of that form. In linear time, whatever somebody calls a type."""
    before, opened, behind = kind.partition("(")
    inside, closed, behind = behind.rpartition(")")
    words, rest = before.split(), behind.split()
    while not opened and words and words[-1] in _SIGNS:
        rest.append(words.pop())
    bare = " ".join(words)
    if not _WORDS.fullmatch(bare) or not _SIGNS.issuperset(rest) or bool(opened) is not bool(closed):
        return "", "", []
    return bare, inside, rest


def _length(inside: str) -> int:
    """What stands in a type's parentheses as a number; 0 if it is none."""
    return int(inside) if _DIGITS.fullmatch(inside) else 0


def _number(text: str) -> bytes:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("not a number")
    return text.encode()


def _bytes(length: int, text: str) -> bytes:
    return b'"' + b64encode(text.encode("latin-1").ljust(min(length, 255), b"\0")) + b'"'


def _geometry(text: str) -> bytes:
    data = text.encode("latin-1")
    if len(data) < 9:  # SRID, byte order, kind
        raise ValueError("too short for a geometry")
    return b'{"wkb":"%b","srid":%d}' % (b64encode(data[4:]), int.from_bytes(data[:4], "little"))


def _of_enum(labels: list[str], known: frozenset[str], text: str) -> bytes:
    if not _DIGITS.fullmatch(text) or int(text) > len(labels):
        if text in known:
            return _encode(text)
        raise ValueError("no label of the enum")
    return _encode(labels[int(text) - 1] if int(text) else "")


def _of_set(labels: list[str], known: frozenset[str], text: str) -> bytes:
    if not _DIGITS.fullmatch(text) or int(text) >> len(labels):
        if known.issuperset(text.split(",")):
            return _encode(text)
        raise ValueError("no labels of the set")
    bits = int(text)
    return _encode(",".join(label for place, label in enumerate(labels[: bits.bit_length()]) if bits >> place & 1))
