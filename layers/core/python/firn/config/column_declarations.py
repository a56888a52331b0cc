"""`columns:` of a table's rule: the type of each, with or without a default for rows that no change told a value of."""

import math
import re
from collections.abc import Collection
from typing import Any, Final

import msgspec

from firn.changes.decode import declared_types, types
from firn.changes.decode.exact_values import convert_exactly
from firn.changes.decode.row_schema import names_below, written
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import Refused
from firn.config.file_writing import DEFAULTS_FORMAT
from firn.config.model import ColumnDeclaration
from firn.config.names import ICEBERGS, OWN, RETYPED, is_own_column
from firn.config.problems import Section, shown
from firn.config.schema_reader import value_of
from firn.config.yaml_tree import Scalar

_ICEBERGS: Final = "is a name that Iceberg keeps for itself"
_TYPE: Final = "a type, decimal(12,2) for example"
_SOURCES: Final = {types.WKB: Encoding("geometry"), types.TIMESTAMP: Encoding("timestamp_text")}
_MOST: Final = 1_000  # bytes of a default: it is in each version of the table's metadata


def read_columns(section: Section, key: Collection[str] | None, version: int | None) -> dict[str, ColumnDeclaration]:
    """The declared columns; every problem is noted. `key`: the rule's; `version`: Iceberg's format that it asks for."""
    columns = {}
    taken: dict[str, str] = {}

    def add(name: str, kind: Type, *more: Any) -> None:
        columns[name] = ColumnDeclaration(kind, *more)
        for known in names_below(name, kind):
            if known in taken:
                section.note(name, f"{shown(known)} is there twice: in {shown(taken[known])} and {shown(name)}")
            taken[known] = name

    for name in section.names:
        if name.startswith(OWN):
            section.note(name, f"begins with {OWN}, which Firn keeps for itself; leave the line out")
        elif is_own_column(name) and not section.problems.published:
            section.note(name, f"ends in {RETYPED}, which Firn keeps for itself; leave the line out")
        elif name in ICEBERGS and not section.problems.published:
            section.note(name, f"{_ICEBERGS}, and is left out; write renames: {{NAME: {name}}} to have it as NAME")
        if not section.is_mapping(name):
            declared = section.parsed(name, _declared, None, f"{_TYPE}, or {{type: int, default: 0}}")
            if declared is not None:
                add(name, *declared)
            continue
        below = section.section(name)
        below.allow_only(("type", "default"))
        if not below.has("type"):
            below.note("type", f"is missing; write {_TYPE}")
        declared = below.parsed("type", _declared, None, _TYPE)
        if declared is not None:
            default = _default(below, declared[0])
            if default is not None and name in (key or ()):
                below.note("default", "is of the key, and a change that names no key is no row; leave it out")
            elif default is not None and (version or 0) < DEFAULTS_FORMAT:
                below.note(
                    "default", f"is what columns have from Iceberg's format {DEFAULTS_FORMAT} on; write format: "
                    f"{DEFAULTS_FORMAT} in the table's rule (docs/format-3.md), or leave the default out"
                )  # fmt: skip
            add(name, *declared, default)
    return columns


def _declared(text: str) -> tuple[Type, int | None]:
    try:
        return declared_types.parse_declared(text)
    except ValueError as error:
        # What PostgreSQL calls it, with the numbers that were meant.
        if meant := re.fullmatch(r"(?:numeric|dec|number)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text, re.IGNORECASE):
            raise ValueError(f"{text!r} is not a type; write decimal({meant[1]},{meant[2] or 0})") from error
        raise


def _default(section: Section, kind: Type) -> Any:
    """The value, as decoded values of the stored type are; None without one."""
    if not section.has("default") or section.is_missing:
        return None
    node = section.node("default")
    if node is None:
        section.note("default", "is null, which a column without a default has anyway; leave the line out")
        return None
    stored = types.storable(kind)
    if stored.nested or (kind.precision or 0) > types.MAX_PRECISION:
        section.note("default", f"is not for a {shown(str(kind))}, which has parts or no type in Iceberg; leave it out")
        return None
    if not isinstance(node, Scalar):
        section.note("default", f"is not one value; write one of the type {stored}, or leave it out")
        return None
    # Times have a form of their own in the column that holds them.
    read = kind if kind == types.TIME else stored
    source = _SOURCES.get(kind) or written(read)
    text = msgspec.json.encode(value_of(node, read, json=False))
    if len(text) > _MOST:
        section.note(
            "default", f"is longer than {_MOST:,} bytes, and it is in each version of the metadata; shorten it"
        )
        return None
    try:
        value = convert_exactly(read, source, text, nulls=False)
    except (Refused, msgspec.MsgspecError, UnicodeError) as error:
        why = error.reason if isinstance(error, Refused) else str(error)
        section.note("default", f"is not of the column's type: {why}; write another one or leave it out")
        return None
    if isinstance(value, float) and not math.isfinite(value):
        section.note("default", f"is {shown(node.text)}, which Iceberg's metadata can't hold; leave it out")
        return None
    return value
