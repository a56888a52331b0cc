"""Plain changes decoded to columns: what the job's process and its readers (readers.py) do alike."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.changes.decode.row_decoder import READ, Decoding, MirrorDecoder
from firn.changes.positions import WIDTH
from firn_spark.driver import values
from firn_spark.staged.decode import decoded as decoded_batches
from firn_spark.staged.decode import decoded_schema

_META = ("_op", "_ts", "_ord")  # of the decoded columns; c0, c1, … follow
_PLACED = b"\1"  # how `_ord` begins for a change with a position; the position follows


class NotPlain(Exception):
    """A truncate, a dead letter, a change without a position, with unavailable values or with nulls in its key."""


def schema(decoding: Decoding) -> pa.Schema:
    """Of `decoded`: `_op`, `_ts`, `_ord`, `_table` if several source tables feed the table, then c0, c1, …"""
    return decoded_schema(decoding, _meta(decoding))


def _meta(decoding: Decoding) -> tuple[str, ...]:
    return (*_META, "_table") if decoding.several else _META


def decoded(parts: Iterable[pa.Table], decoding: Decoding) -> Iterator[pa.RecordBatch]:
    """The decoded changes of a mirror table, out of parts of them (packed.CHANGES), each part by order.

    Raises NotPlain."""
    if not _can_be_looked_up(decoding):
        raise NotPlain
    names = schema(decoding).names
    told = (*_meta(decoding), "_unavail", "_code")
    for changes in parts:
        if pc.any(pc.equal(changes["op"], "t")).as_py():
            raise NotPlain
        raw = changes.select(READ).combine_chunks().to_batches()
        batches = list(decoded_batches(raw, decoding, MirrorDecoder, told))
        if not all(_is_plain(batch, decoding) for batch in batches):
            raise NotPlain
        if batches:
            # Deletes come apart from the others. In order they need no sorting later, where there is one core for it.
            found = pa.Table.from_batches(batches).select(names)
            yield from found.take(pc.sort_indices(found["_ord"])).combine_chunks().to_batches()


def _can_be_looked_up(decoding: Decoding) -> bool:
    return bool(decoding.key) and all(decoding.columns[i].type.name in values.RANGED for i in decoding.key)


def _is_plain(batch: pa.RecordBatch, decoding: Decoding) -> bool:
    odd = [batch["_code"], batch["_unavail"]]
    if any(one.null_count < len(one) for one in odd) or any(batch[f"c{i}"].null_count for i in decoding.key):
        return False
    return bool(pc.all(pc.equal(pc.binary_slice(batch["_ord"], 0, 1), _PLACED)).as_py())


def position(orders: Any) -> Any:
    """The positions of changes that all have one, out of their `ord`."""
    return pc.binary_slice(orders, 1, 1 + WIDTH)


def order(orders: Any) -> Any:
    """The orders of such changes without the byte that says so. With an end: pyarrow 26 fails without."""
    return pc.binary_slice(orders, 1, 1_000)
