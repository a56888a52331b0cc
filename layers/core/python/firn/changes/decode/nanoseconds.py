"""Columns of nanoseconds: which types count them, and where a source's schema says so. Only tables of Iceberg's format
3 have such (tables.iceberg_format.keeps_nanoseconds)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from firn.changes.decode.types import NANOSECONDS, TIMESTAMP, Column, Encoding, Type, list_of

TIMESTAMP_NS, TIMESTAMPTZ_NS = NANOSECONDS
_NAMES: Final = tuple(kind.name for kind in NANOSECONDS)


def is_fine(kind: Type) -> bool:
    """Whether it counts nanoseconds, or has a part that does."""
    return any(kind.holds(name) for name in _NAMES)


def fine(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of an inline schema as a table has them that keeps nanoseconds: what is sent so is timestamp_ns."""
    return tuple(replace(one, type=_fine(one.type, one.source)) if one.source else one for one in columns)


def _fine(kind: Type, source: Encoding) -> Type:
    if kind.element is not None and source.element is not None:
        return list_of(_fine(kind.element, source.element))
    return TIMESTAMP_NS if kind == TIMESTAMP and source.kind == "timestamp_ns" else kind
