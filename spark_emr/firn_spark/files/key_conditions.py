"""What Iceberg is asked for by the values of a column (org.apache.iceberg.expressions.Expression)."""

from collections.abc import Iterator, Sequence
from typing import Any

from firn.changes.decode.types import Column
from firn_spark.files import values


def in_any(expressions: Any, buffer: Any, column: Column, ends: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    """That a value is in one of these intervals; nothing where Iceberg can't be asked for one of them. `expressions`,
    `buffer`: Iceberg's Expressions and java.nio.ByteBuffer."""
    either = None
    for low, high in ends:
        parts = list(between(expressions, buffer, column, low, high))
        if not parts:
            return
        both = parts[0] if len(parts) == 1 else getattr(expressions, "and")(*parts)
        either = both if either is None else getattr(expressions, "or")(either, both)
    if either is not None:
        yield either


def between(expressions: Any, buffer: Any, column: Column, low: Any, high: Any) -> Iterator[Any]:
    """That a value is not outside of the ends. `low`, `high`: as values.key_type has them; None: no end."""
    low, high = (None if one is None else values.literal(one, column.type) for one in (low, high))
    low, high = (buffer.wrap(one) if isinstance(one, bytes) else one for one in (low, high))
    yield from () if low is None else (expressions.greaterThanOrEqual(column.name, low),)
    yield from () if high is None else (expressions.lessThanOrEqual(column.name, high),)
