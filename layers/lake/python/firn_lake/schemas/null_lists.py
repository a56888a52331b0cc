"""Lists and maps of structs that are null stay null.

PyIceberg 0.12 brings the columns of a file to a schema, as it reads and as it writes, by making such lists again out of
their offsets alone: one that was null is empty then. Importing this mends it for all that PyIceberg does in this
process; tests/unit/lake/test_null_lists.py says when that is no longer needed.
"""

from typing import Any

import pyarrow as pa
import pyiceberg.io.pyarrow
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.types import ListType, MapType


class KeepsNulls(ArrowProjectionVisitor):
    """PyIceberg's own, and the nulls of lists and maps with it."""

    def list(self, list_type: ListType, list_array: Any, value_array: Any) -> Any:
        """As PyIceberg has it: a list out of its elements (pa.Array), None where the file has none."""
        found = super().list(list_type, list_array, value_array)
        return found if found is None else _with_nulls_of(list_array, found, found.values)

    def map(self, map_type: MapType, map_array: Any, key_result: Any, value_result: Any) -> Any:
        """As PyIceberg has it: a map out of its keys and values (pa.Array), None where the file has none."""
        found = super().map(map_type, map_array, key_result, value_result)
        if found is None or found.null_count == map_array.null_count:
            return found
        parts = [found.type.key_field, found.type.item_field]
        return _with_nulls_of(map_array, found, pa.StructArray.from_arrays([found.keys, found.items], fields=parts))


def _with_nulls_of(there: Any, found: Any, inner: Any) -> Any:
    """`found`, null where `there` is. `inner`: what it is made of. Of its buffers, for computing it loses field ids."""
    if there.null_count == found.null_count:
        return found
    before = pa.array([True] * found.offset, pa.bool_())
    valid = pa.concat_arrays([before, there.is_valid()])
    buffers = [valid.buffers()[1], found.buffers()[1]]
    return pa.Array.from_buffers(found.type, len(found), buffers, offset=found.offset, children=[inner])


pyiceberg.io.pyarrow.ArrowProjectionVisitor = KeepsNulls  # type: ignore[misc]
