"""Rows of a batch by the shard that a map places them in."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa

from firn.changes.decode.types import Type

Keep = Callable[[pa.RecordBatch], pa.Array]
"""Which rows of a batch are meant."""


def value_of(kind: Type, cell: pa.Scalar) -> Any:
    """A value of a column of the type as the codec has it: days, micro- or nanoseconds, a uuid's text."""
    if pa.types.is_temporal(cell.type):
        return cell.value if cell.is_valid else None  # as_py refuses the year 10000, and nanoseconds
    found = cell.as_py()
    return str(UUID(bytes=found)) if kind.name == "uuid" and isinstance(found, bytes) else found


def with_value(name: str, kind: Type, fits: Callable[[Any], bool]) -> Keep:
    """The rows whose value in a column fits; each value is looked at once a batch."""

    def keep(batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(name)
        found = (column.storage if isinstance(column, pa.ExtensionArray) else column).dictionary_encode("encode")
        told = pa.array([fits(value_of(kind, one)) for one in found.dictionary], pa.bool_())
        return told.take(found.indices)

    return keep
