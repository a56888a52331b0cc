"""A few intervals that hold all wanted keys, with the widest gaps between them left out. Pure.

Iceberg is asked for files by them: keys that are far from each other are in few files of a table that is sorted by its
key, and between the least and the greatest of them are nearly all.
"""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_MOST_VALUES: Final = 100_000  # that are sorted for it, in some 0.1 s
_BYTES: Final = 12  # behind what all texts begin with, by which they are told to be near or far


def intervals_of(some: pa.Array, most: int) -> list[tuple[Any, Any]]:
    """At most so many intervals, both ends included, in which all of these values are. `some`: values.key_type, at
    least one, and no null."""
    ends = pc.min_max(some)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if most < 2 or len(some) > _MOST_VALUES or not isinstance(low, int | Decimal | str | bytes):
        return [(low, high)]
    values = sorted(set(some.to_pylist()))
    places = _places(values)
    widest = sorted(range(1, len(values)), key=lambda n: places[n - 1] - places[n])
    firsts = [0, *sorted(widest[: most - 1]), len(values)]
    return [(values[first], values[end - 1]) for first, end in pairwise(firsts)]


def _places(values: Sequence[Any]) -> Sequence[Any]:
    """Numbers that rise as the values do."""
    if isinstance(values[0], int | Decimal):
        return values
    texts = [one.encode() if isinstance(one, str) else one for one in values]
    first, last = texts[0], texts[-1]
    same = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return [int.from_bytes(one[same : same + _BYTES].ljust(_BYTES, b"\0")) for one in texts]
