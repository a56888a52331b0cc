"""Types as firn.yaml declares them, beside those of tables (types.parse)."""

import re
from typing import Final

from firn.changes.decode.types import BITS, MAX_PRECISION, MOST_FIELDS, UNSIGNED, Type, parse

_BITS: Final = re.compile(r"bit(?:\s*\(\s*\d{1,8}\s*\))?")
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_TIMED: Final = re.compile(r"(time|timestamp|timestamptz)\s*\(\s*(\d)\s*\)")


def parse_declared(text: str) -> tuple[Type, int | None]:
    """A type as firn.yaml declares it: like `parse`, and `timestamp(3)`, `timestamptz(3)`, `time(3)` with the source's
    own precision (digits after the second, 0 to 9), on which Debezium's adaptive encodings depend; `unsigned long`;
    `bit` or `bit(17)`; and a decimal of more digits than Iceberg has, which is stored as text.

    -> (type, precision or None). ValueError says what to write.
    """
    if text.count(":") > MOST_FIELDS:
        raise ValueError(f"the type names more than {MOST_FIELDS:,} fields; keep some together as one of json")
    word = " ".join(text.split())
    if word == UNSIGNED.name:
        return UNSIGNED, None
    if _BITS.fullmatch(word):
        return BITS, None
    if (match := _DECIMAL.fullmatch(word)) and MAX_PRECISION < int(match[1]) >= int(match[2]):
        return Type("decimal", int(match[1]), int(match[2])), None
    if word.lower().startswith("bigint") and word.lower().endswith("unsigned"):
        raise ValueError(f"'{word[:100]}' is not a type; write {UNSIGNED.name}")
    if match := _TIMED.fullmatch(text.strip()):
        return parse(match[1]), int(match[2])
    kind = parse(text)
    if alike := fields_alike(kind):
        raise ValueError(
            f"a struct has the fields {alike[0]:.60} and {alike[1]:.60}, which SQL can't tell apart; "
            "leave one out, or keep the struct as json"
        )
    return kind, None


def fields_alike(kind: Type) -> tuple[str, str] | None:
    """Two fields of one struct, anywhere in the type, that differ by upper and lower case alone: DuckDB and most others
    read the first one for both. None if there are none."""
    taken: dict[str, str] = {}
    for name, _ in kind.fields:
        if (first := taken.setdefault(name.lower(), name)) != name:
            return first, name
    parts = (*(part for _, part in kind.fields), *((kind.element,) if kind.element else ()), *(kind.entry or ()))
    return next(filter(None, map(fields_alike, parts)), None)
