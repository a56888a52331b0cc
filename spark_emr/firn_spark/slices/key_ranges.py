"""Slices of keys: each is a range of them, so that it touches few of the table's files, and new ones do not overlap."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ROW = "_row"
_BOUND = "_bound"  # 0 of a bound, 1 of a row: a bound comes before the rows with its key


def bounds_of(sample: pa.Table, slices: int) -> pa.Table:
    """The least keys of all slices but the first, at most `slices` less one: each takes about as many of the `sample`
    (keys alone) as the others."""
    keys = _sorted(sample)
    places = sorted({len(keys) * number // slices for number in range(1, slices)} - {0})
    return _sorted(keys.take(pa.array(places, pa.int64())).group_by(sample.column_names).aggregate([]))


def _sorted(keys: pa.Table) -> pa.Table:
    return keys.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))


def cut(rows: pa.Table, bounds: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slice, with its number; those of one slice by key. `bounds`: bounds_of, of some of the columns
    of `rows`."""
    if not len(bounds):
        yield 0, rows
        return
    names = bounds.column_names
    none, numbers = pa.nulls(len(bounds), pa.int64()), pa.arange(0, len(rows))
    marked = bounds.append_column(_BOUND, pa.repeat(0, len(bounds))).append_column(_ROW, none)
    mine = rows.select(names).append_column(_BOUND, pa.repeat(1, len(rows))).append_column(_ROW, numbers)
    both = pa.concat_tables([marked, mine])
    order = pc.sort_indices(both, [(name, "ascending") for name in (*names, _BOUND)])
    places = both[_ROW].take(order)
    ends = [*pc.indices_nonzero(pc.is_null(places)).to_pylist(), len(both)]
    first = 0
    for number, end in enumerate(ends):
        mine = places.slice(first, end - first)
        first = end + 1  # behind the bound
        if len(mine):
            yield number, rows.take(mine)


def ends_of(values: Sequence[Any], least: Any, greatest: Any) -> list[tuple[Any, Any]]:
    """Of each slice the least and the greatest value of the key's first column. `values`: those of the bounds; `least`,
    `greatest`: of all rows, None: not known. Raises ValueError if they don't rise: rows would be looked for where they
    are not."""
    if any(low > high for low, high in pairwise(values)):
        raise ValueError("slices whose bounds don't rise")
    return list(zip([least, *values], [*values, greatest], strict=True))
