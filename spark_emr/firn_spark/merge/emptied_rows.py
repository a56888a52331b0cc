"""The rows of a table that new truncates remove, found by their positions without a look at their values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.changes.merge.fold import Key, key_of
from firn.changes.metadata_columns import HELD, SOURCE
from firn_spark.files import row_lookup
from firn_spark.files.row_group import RowGroup
from firn_spark.tables import deletes


@dataclass(frozen=True)
class Highs:
    """Up to which `_firn_pos` truncates remove rows: of all source tables (`all_sources`), or, where `unnamed` rows are
    told from others, of the source tables in `of`. None: of no rows; b"": of those without a position alone.
    `unnamed`: the source table of rows that name none, None: it isn't known, so that any truncate means them."""

    all_sources: bytes | None
    of: Mapping[str, bytes] | None = None
    unnamed: str | None = None

    def per_row(self, sources: Any, rows: int) -> Any:
        """That of each row. `sources`: which source table it names; None: there is no such column."""
        if self.of is None:
            return pa.repeat(pa.scalar(self.all_sources, pa.binary()), rows)
        known = {name: max((self.all_sources, high), key=_order_of) for name, high in self.of.items()}
        newest = max((self.all_sources, *self.of.values()), key=_order_of)
        unnamed = newest if self.unnamed is None else known.get(self.unnamed, self.all_sources)
        if sources is None:
            return pa.repeat(pa.scalar(unnamed, pa.binary()), rows)
        places = pc.index_in(sources, value_set=pa.array(known, pa.string()))
        named = pa.array(known.values(), pa.binary()).take(_whole(places))
        named = pc.if_else(pc.is_valid(places), named, pa.scalar(self.all_sources, pa.binary()))
        return pc.if_else(pc.is_null(sources), pa.scalar(unnamed, pa.binary()), named)


def _order_of(high: bytes | None) -> tuple[bool, bytes]:
    return high is not None, high or b""


def up_to(
    files: row_lookup.Files, ids: Mapping[str, int], column: str, highs: Highs
) -> tuple[deletes.Places, set[Key]]:
    """The places of the rows of which `column` (binary) is at most as `highs` says, or null, and the keys (of `wanted`)
    of the others that hold values. `ids`: ids_of."""

    def one(file: pq.ParquetFile, path: str, gone: pa.Array) -> tuple[str, pa.Array, set[Key]]:
        with file:
            found = list(_up_to(file, files, column, highs, ids, gone))
        places = pa.concat_arrays([pa.array([], pa.int64()), *(rows for rows, _ in found)])
        return path, places, {key for _, keys in found for key in keys}

    each = row_lookup.each(files, one)
    places = {path: rows for path, rows, _ in each if len(rows)}
    return places, {key for _, _, keys in each for key in keys}


def _up_to(
    file: pq.ParquetFile, files: row_lookup.Files, column: str, highs: Highs, ids: Mapping[str, int], gone: pa.Array
) -> Iterator[tuple[pa.Array, list[Key]]]:
    there, key = row_lookup.by_id(file), files.wanted.key
    names = {name: there.get(ids.get(name, -1)) for name in (*(one.name for one in key), column, HELD, SOURCE)}
    first = 0
    for number in range(file.num_row_groups):
        group = RowGroup(file, number, names, files.defaults)
        old = _whole(_old(group, column, highs))
        held, keys = group.column(HELD), []
        if held is not None and pc.any(stay := pc.and_(pc.is_valid(held), pc.invert(old))).as_py():
            chosen = row_lookup.left(pc.indices_nonzero(stay).cast(pa.int64()), first, gone)
            columns = [row_lookup.some_values(group, one, chosen) for one in key]
            keys = list(map(key_of, zip(*columns, strict=True)))
        yield pc.add(row_lookup.left(pa.arange(0, group.rows).filter(old), first, gone), first), keys
        first += group.rows


def _old(group: RowGroup, column: str, highs: Highs) -> Any:
    """Which rows of the group are at most as `highs` says."""
    sources = group.column(SOURCE) if highs.of is not None else None
    limits = highs.per_row(sources, group.rows)
    if highs.of is None and highs.all_sources is not None and group.is_below(column, highs.all_sources + b"\0"):
        return pa.repeat(True, group.rows)
    position = group.column(column)
    if position is None:
        return pc.is_valid(limits)
    below = pc.fill_null(pc.less_equal(position.cast(pa.binary()), limits), False)
    return pc.and_(pc.is_valid(limits), pc.or_(pc.is_null(position), below))


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
