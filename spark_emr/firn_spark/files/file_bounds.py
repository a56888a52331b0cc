"""Which data files may hold some of the wanted values, by the bounds that manifests have of each. Pure.

Slices are planned before their keys are known, by the least and the greatest of them. Once they are known, most files
between may hold none of them, and to open a file only to find that out costs a request or more.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.types import Type

Ends = tuple[Any, Any]
"""The least and the greatest value of a column in a file, or what is below and above them (values.key_type)."""

# Of these a bound in bytes tells in which place values are among the others (values.key_type), and they are in Arrow's
# order as they are in that of files. An int may have become a long since, a date no timestamp.
_BYTES: Final = {"int": (4,), "date": (4,), "long": (4, 8), "timestamp": (8,), "timestamptz": (8,)}
_WHOLE: Final = frozenset({"string", "binary"})


def are_told(kind: Type) -> bool:
    """Whether bounds of such a column are of use here."""
    return kind.name in _BYTES or kind.name in _WHOLE


def ends_in(said: Mapping[str, Any], number: int, kind: Type) -> Ends | None:
    """The ends of the column with this field id. `said`: Iceberg's JSON of a data file. None if it does not tell."""
    ends = [_bound(said.get(name), number, kind) for name in ("lower-bounds", "upper-bounds")]
    return None if None in ends else (ends[0], ends[1])


def _bound(said: Mapping[str, Any] | None, number: int, kind: Type) -> Any:
    found = dict(zip(said["keys"], said["values"], strict=True)).get(number) if said else None
    if found is None:
        return None
    stored = bytes.fromhex(found)
    if kind.name in _BYTES:
        return int.from_bytes(stored, "little", signed=True) if len(stored) in _BYTES[kind.name] else None
    if kind.name == "binary":
        return stored
    try:
        return stored.decode() if kind.name == "string" else None
    except UnicodeDecodeError:  # cut within a character
        return None


def holding(paths: Sequence[str], ends: Mapping[str, Ends], some: Any) -> list[str]:
    """Those of the files that may hold one of the values `some` (values.key_type). `ends`: of the files that tell."""
    known = [path for path in paths if path in ends]
    if not known or not len(some) or some.null_count:
        return list(paths)
    wanted = some.combine_chunks() if isinstance(some, pa.ChunkedArray) else some
    wanted = wanted.take(pc.sort_indices(wanted))
    lows, highs = (pa.array([ends[path][place] for path in known], wanted.type) for place in (0, 1))
    next_one = pc.search_sorted(wanted, lows).cast(pa.int64())  # the least that is not below
    there = pc.less(next_one, len(wanted))
    fits = pc.less_equal(wanted.take(pc.min_element_wise(next_one, len(wanted) - 1)), highs)
    without = {path for path, one in zip(known, pc.and_(there, fits).to_pylist(), strict=True) if not one}
    return [path for path in paths if path not in without]
