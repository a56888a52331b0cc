"""Plain changes decoded to columns: what the job's process and its readers (readers.py) do alike."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import READ, Decoding, MirrorDecoder
from firn.changes.positions import WIDTH
from firn_spark.files import values
from firn_spark.merge.shared_decoding import Shared
from firn_spark.staged.decode import decoded as decoded_batches
from firn_spark.staged.decode import decoded_schema

_META = ("_op", "_ts", "_ord", "_unavail", "_nulls")  # of the decoded columns; c0, c1, … follow
_PLACED = b"\1"  # how `_ord` begins for a change with a position; the position follows


class Columns(Protocol):
    """How changes are decoded to columns. Goes to other processes."""

    def schema(self, decoding: Decoding) -> pa.Schema:
        """Of those that are."""

    def shared(self, decoding: Decoding, /) -> Shared | None:
        """How the changes are decoded for several tables at once; None if no other table takes them. `split` finds what
        they are decoded to beside them then (shared_decoding.beside)."""

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Changes, a part of them (packed.CHANGES) at a time: those decoded to columns, and the others as they are."""


class MirrorColumns:
    """Columns of the plain changes of a mirror table."""

    def schema(self, decoding: Decoding) -> pa.Schema:
        """As Columns says."""
        return schema(decoding)

    def shared(self, _decoding: Decoding) -> Shared | None:
        """As Columns says: what is decoded for a mirror is of no use to another table."""
        return None

    def split(self, parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
        """As Columns says."""
        return split(parts, decoding)


def schema(decoding: Decoding) -> pa.Schema:
    """Of the plain ones: `_op`, `_ts`, `_ord`, `_unavail`, `_nulls`, `_table` if several source tables feed the
    table, then c0, c1, … and k… of the key's columns of types in values.FORMED: what they are compared by."""
    found = decoded_schema(decoding, _meta(decoding))
    for i in _formed(decoding):
        found = found.append(pa.field(f"k{i}", values.key_type(decoding.columns[i].type)))
    return found


def key_names(decoding: Decoding) -> list[str]:
    """The columns of the plain ones by which keys are compared."""
    formed = _formed(decoding)
    return [f"k{i}" if i in formed else f"c{i}" for i in decoding.key]


def _formed(decoding: Decoding) -> list[int]:
    return [i for i in decoding.key if decoding.columns[i].type.name in values.FORMED]


def _meta(decoding: Decoding) -> tuple[str, ...]:
    return (*_META, "_table") if decoding.several else _META


def split(parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Changes of a mirror table, a part of them (packed.CHANGES) at a time: the plain ones decoded, by order, and the
    others as they are.

    Plain is a delete, a whole row, or an update of which some values are unavailable (`_unavail`): no truncate or dead
    letter, and no null in the key. Where a changed key makes two rows of one change and one of them is not
    plain, neither is.
    """
    plain = decoded_schema(decoding, _meta(decoding)).names
    told = (*_meta(decoding), "_code", "_index")
    place = READ.index("index")
    for changes in parts:
        numbers = pa.arange(0, len(changes)).cast(pa.int32())
        raw = changes.select(READ).set_column(place, "index", numbers).combine_chunks().to_batches()
        batches = list(decoded_batches(raw, decoding, MirrorDecoder, told))
        # Neither truncates nor reads of a snapshot that the table leaves out become rows.
        found = pa.Table.from_batches(batches, decoded_schema(decoding, told))
        truncates = numbers.filter(pc.equal(changes["op"], "t").combine_chunks())
        odd = pc.unique(pa.chunked_array([*found["_index"].filter(_is_odd(found, decoding)).chunks, truncates]))
        if len(odd):
            found = found.filter(pc.invert(pc.is_in(found["_index"], value_set=odd)))
        found = found.select(plain)
        for i in _formed(decoding):
            found = found.append_column(f"k{i}", values.formed(found[f"c{i}"], decoding.columns[i].type))
        # Deletes come apart from the others. In order they need no sorting later, where there is one core for it.
        yield found.take(pc.sort_indices(found["_ord"])).combine_chunks(), changes.take(odd)


def _is_odd(rows: pa.Table, decoding: Decoding) -> Any:
    gaps = pc.and_(pc.is_valid(rows["_unavail"]), pc.not_equal(rows["_op"], "u"))
    odd = pc.or_(pc.is_valid(rows["_code"]), gaps)
    for i in decoding.key:
        odd = pc.or_(odd, pc.is_null(rows[f"c{i}"]))
    return odd


def position(orders: Any) -> Any:
    """The positions of changes that all have one, out of their `ord`."""
    return pc.binary_slice(orders, 1, 1 + WIDTH)


def are_placed(orders: Any) -> Any:
    """Which changes have a position, by their `ord`."""
    return pc.equal(pc.binary_slice(orders, 0, 1), _PLACED)


def order(orders: Any) -> Any:
    """The orders of changes with a position, out of their `ord`, as a row has them; b"" of those without one. With an
    end: pyarrow 26 fails without."""
    placed = are_placed(orders)
    found = pc.binary_slice(orders, 1, 1_000)
    return found if pc.all(placed).as_py() else pc.if_else(placed, found, pa.scalar(b"", pa.binary()))
