"""What is said of a word that is no type: what to write instead. Pure."""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

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

_GEO: Final = re.compile(r"geometry|geography")
_GEO_INSTEAD: Final = (
    "write wkb for its bytes (a binary column of ISO's WKB), struct<wkb: wkb, srid: int> for the reference system too, "
    "or string for its JSON"
)


def no_type(word: str, known: Collection[str], also: Collection[str]) -> str:
    """The error's text. `known`: the names of types that stand alone; `also`: their other names."""
    if match := _GEO.match(word.lower()):
        return f"'{match[0]}': Spark 4.0 opens no table with Iceberg's {match[0]}; {_GEO_INSTEAD}"
    meant = _MEANT.get(re.split(r"[\s(<\[]", word.lower(), maxsplit=1)[0])
    if word.lower() in known or word.lower() in also:
        meant = word.lower()
    word = word if len(word) <= 100 else f"{word[:97]}..."
    every = ", ".join(known) + ", json, variant, decimal(p,s), fixed[n], list<type>, map<type, type>"
    every += " or struct<name: type>"
    return f"'{word}' is not a type; " + (f"write {meant}" if meant else f"write one of {every}")
