"""MySQL's and MariaDB's types -> the declarations that plain JSON needs in firn.yaml (docs/types.md has them all).

Declared is what JSON alone can't tell: a decimal and a datetime travel as text or numbers like any other. Integers and
texts need nothing.
"""

import re
from typing import Final

# information_schema.columns.column_type: `decimal(12,2) unsigned`, `enum('a','b')`, `timestamp(6)`.
_TYPE: Final = re.compile(r"([a-z0-9_]+)(?:\((\d+)(?:,(\d+))?\))?(.*)", re.DOTALL)
_DECLARED: Final = {
    "float": "float", "double": "double", "real": "double", "date": "date", "json": "string", "uuid": "string",
    "binary": "binary", "varbinary": "binary", "tinyblob": "binary", "blob": "binary", "mediumblob": "binary",
    "longblob": "binary", "vector": "list<float>",
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
         "geometrycollection", "geomcollection"), "string"
    ),
}  # fmt: skip
_TIMED: Final = {"time": "time", "datetime": "timestamp", "timestamp": "timestamptz"}
_NOTES: Final = {
    "uuid": "Debezium 3.5's MariaDB connector sends other uuids than MariaDB has: keep them as text or binary(16)",
    "inet4": "Debezium 3.5's MariaDB connector stops at this type: leave the table out, or change the column",
    "inet6": "Debezium 3.5's MariaDB connector stops at this type: leave the table out, or change the column",
}  # fmt: skip
_DIGITS: Final = (10, 0)  # of a decimal that says neither
MAX_PRECISION: Final = 38


def declaration(column_type: str) -> tuple[str | None, str | None]:
    """The declaration for a column of this type (information_schema's column_type) -> (type or None, note or None)."""
    found = _TYPE.match(column_type.lower())
    if found is None:
        return None, None
    name, first, second, rest = found.groups()
    if name == "bigint" and "unsigned" in rest:
        return "unsigned long", None
    if name in ("decimal", "numeric"):
        precision, scale = (int(first), int(second or 0)) if first else _DIGITS
        note = f"more digits than Iceberg's {MAX_PRECISION}: its exact text" if precision > MAX_PRECISION else None
        return f"decimal({precision},{scale})", note
    if name == "bit":
        return ("boolean" if first in (None, "1") else f"bit({first})"), None
    if name in _TIMED:
        return f"{_TIMED[name]}({first or 0})", None
    return _DECLARED.get(name), _NOTES.get(name)
