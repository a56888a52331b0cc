"""Columns of adopted tables that Firn has no type for: their values go from a row's old file to its new one.

No change tells them. A row that goes on living keeps them, whatever writes it again; a new row, and one that comes
after a delete or a truncate of its key, has null there, or the column's default.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.merge.decide import Before
from firn.changes.merge.fold import Key, RowChange
from firn_spark.files import values
from firn_spark.files.row_lookup import by_id
from firn_spark.tables.objects import Objects


def lasting(before: Before, changes: Iterable[RowChange]) -> set[Key]:
    """The keys whose row no delete or truncate that is known removes. `changes`: those that were decided on."""
    gone: dict[Key, bytes] = {}
    for change in (*before.facts, *changes):
        if change.op == "d":
            gone[change.key] = max(change.order, gone.get(change.key, b""))
    return {
        key for key, row in before.rows.items() if max(gone.get(key, b""), before.truncates.gone(row, ())) <= row.order
    }


def values_at(
    home: str, places: Sequence[tuple[str, int] | None], fields: Sequence[pa.Field]
) -> dict[str, pa.ChunkedArray]:
    """The values that rows of data files (file and row; None: of no row) have in some columns of the table at `home`
    (values.file_field), as these are now. Raises LostRace, StorageUnavailable."""
    wanted: dict[str, list[int]] = {}
    for place in sorted({place for place in places if place is not None}):
        wanted.setdefault(place[0], []).append(place[1])
    if not wanted:
        return {field.name: values.untold(len(places), field) for field in fields}
    objects = Objects(home)
    with ThreadPoolExecutor(objects.at_once) as pool:
        parts = list(pool.map(lambda path: _values_in(objects, path, wanted[path], fields), wanted))
    each = ((path, row) for path, rows in wanted.items() for row in rows)
    numbers: Mapping[Any, int] = {place: number for number, place in enumerate(each)}
    chosen = pa.array([numbers.get(place) for place in places], pa.int64())

    def taken(field: pa.Field) -> pa.ChunkedArray:
        every = pa.concat_arrays([one for part in parts for one in part[field.name]])
        found = values.sealed(pa.chunked_array([every.take(chosen)]), field)
        return values.or_untold(found, pc.is_valid(chosen), field)

    return {field.name: taken(field) for field in fields}


def _values_in(
    objects: Objects, path: str, rows: Sequence[int], fields: Sequence[pa.Field]
) -> dict[str, list[pa.Array]]:
    """Those of the rows of one file, which rise."""
    found: dict[str, list[pa.Array]] = {field.name: [] for field in fields}
    with objects.open(path) as file:
        there, end = by_id(file), 0
        names = [there[one] for one in map(values.field_id, fields) if one in there]
        for group in range(file.num_row_groups):
            first, end = end, end + file.metadata.row_group(group).num_rows
            mine = [row - first for row in rows[bisect_left(rows, first) : bisect_left(rows, end)]]
            if mine:
                data = file.read_row_group(group, columns=names).take(pa.array(mine, pa.int64())) if names else None
                for field in fields:
                    name = there.get(values.field_id(field))
                    some = values.lacking(len(mine), field) if name is None else values.now(data, name, field)
                    found[field.name] += some.chunks
    return found
