"""PostgreSQL's types -> the declarations that plain JSON needs in firn.yaml (docs/types.md has the whole table).

Declared is what JSON alone can't tell: a decimal and a date travel as text or numbers like any other. Integers,
booleans and texts need nothing.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class PgType(NamedTuple):
    """A row of pg_type. `kind`: b base, d domain, e enum. `base`, `modifier` are for domains, `element` for arrays."""

    name: str
    kind: str
    base: int
    modifier: int
    element: int


_DECLARED: Final = {
    "float4": "float", "float8": "double", "money": "decimal(19,2)", "bytea": "binary", "uuid": "uuid", "date": "date",
    "json": "string", "jsonb": "string", "varbit": "binary",
}  # fmt: skip
_TIMED: Final = {"time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz"}
# Inside a list an element must be named even where a column of its own needs nothing.
_ELEMENTS: Final = {"bool": "boolean", "int2": "int", "int4": "int", "int8": "long", "oid": "long"}
_DEFAULT_DIGITS: Final = 6
_DIGITS: Final = re.compile(r"(?<=time|tamp)\(\d\)|(?<=tamptz)\(\d\)")  # a list's elements are declared without


def declaration(types: Mapping[int, PgType], oid: int, modifier: int) -> tuple[str | None, str | None]:
    """The declaration for a column of type `oid` with pg_attribute's `modifier` -> (type or None, note or None)."""
    kind = types.get(oid)
    while kind is not None and kind.kind == "d":
        oid, modifier = kind.base, (kind.modifier if modifier < 0 else modifier)
        kind = types.get(oid)
    if kind is None or kind.kind == "e":
        return None, None
    if kind.element:
        element, note = declaration(types, kind.element, modifier)
        inner = types.get(kind.element)
        element = element or _ELEMENTS.get(inner.name if inner else "", "string")
        return f"list<{_DIGITS.sub('', element)}>", note
    if kind.name == "numeric":
        return _numeric(modifier)
    if kind.name in _TIMED:
        return f"{_TIMED[kind.name]}({modifier if modifier >= 0 else _DEFAULT_DIGITS})", None
    if kind.name == "bit" and modifier > 1:
        return "binary", None
    return _DECLARED.get(kind.name), None


def _numeric(modifier: int) -> tuple[str, str | None]:
    # numeric's modifier is ((precision << 16) | scale as 11 bits, signed) + 4: numeric.c, make_numeric_typmod.
    if modifier < 4:
        return "string", "numeric without precision: its exact text"
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    if scale < 0:
        # PostgreSQL 15 rounds numeric(5,-2) to hundreds: seven digits before the point.
        precision, scale, note = precision - scale, 0, "negative scale: Debezium 3.6 sends such values wrong"
    else:
        precision, note = max(precision, scale), None
    if precision > 38:
        return "string", f"numeric({precision},{scale}) has more digits than Iceberg's 38: its exact text"
    return f"decimal({precision},{scale})", note
