"""What Iceberg is asked for by the values of a column (org.apache.iceberg.expressions.Expression)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from firn.changes.decode.types import Column
from firn_spark.files import values

_SIDE_BY_SIDE: Final = 4  # intervals that Iceberg tries one after the other


def named_in(schema: Any, ids: Mapping[str, int], key: Sequence[Column]) -> list[Column | None]:
    """The columns as a schema (org.apache.iceberg.Schema) calls them, None for one that it does not have: a snapshot is
    asked by the names of then. `ids`: of the columns by their names of now."""
    there = (schema.findField(ids[one.name]) if one.name in ids else None for one in key)
    return [replace(one, name=str(field.name())) if field else None for one, field in zip(key, there, strict=True)]


def in_any(expressions: Any, buffer: Any, column: Column, ends: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    """That a value is in one of these intervals, which rise; nothing where Iceberg can't be asked for one of them.
    `expressions`, `buffer`: Iceberg's Expressions and java.nio.ByteBuffer.

    Iceberg evaluates it for each file of the table, and takes the bounds out of their bytes each time. So it is asked
    by halves: whether the file reaches into all of some intervals, and only then into which.
    """
    found = _tree(expressions, buffer, column, ends)
    if found is not None:
        yield found


def _tree(expressions: Any, buffer: Any, column: Column, ends: Sequence[tuple[Any, Any]]) -> Any:
    if len(ends) > _SIDE_BY_SIDE:
        half = len(ends) // 2
        parts = [_tree(expressions, buffer, column, some) for some in (ends[:half], ends[half:])]
        around = _both(expressions, between(expressions, buffer, column, ends[0][0], ends[-1][1]))
        if None in parts or around is None:
            return None
        return getattr(expressions, "and")(around, getattr(expressions, "or")(*parts))
    either = None
    for low, high in ends:
        part = _both(expressions, between(expressions, buffer, column, low, high))
        if part is None:
            return None
        either = part if either is None else getattr(expressions, "or")(either, part)
    return either


def _both(expressions: Any, parts: Iterator[Any]) -> Any:
    found = list(parts)
    return None if not found else found[0] if len(found) == 1 else getattr(expressions, "and")(*found)


def between(expressions: Any, buffer: Any, column: Column, low: Any, high: Any) -> Iterator[Any]:
    """That a value is not outside of the ends. `low`, `high`: as values.key_type has them; None: no end."""
    low, high = (None if one is None else values.literal(one, column.type) for one in (low, high))
    low, high = (buffer.wrap(one) if isinstance(one, bytes) else one for one in (low, high))
    yield from () if low is None else (expressions.greaterThanOrEqual(column.name, low),)
    yield from () if high is None else (expressions.lessThanOrEqual(column.name, high),)
