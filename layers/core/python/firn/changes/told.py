"""Decoded rows (changes.rows) one at a time: good ones and rejected ones, as changes of the specification, and who each
is in an append table. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from firn.changes.fold import Key, RowChange
from firn.changes.rows import META, READ, AppendDecoder, Decoder, Decoding, MirrorDecoder

WIDTH: Final = len(META)  # the values of the columns follow
(
    EPOCH, BATCH, INDEX, OP, TS, POS, ORD, UNAVAILABLE, CODE, MESSAGE, BEFORE, TX_ORDER, OCCURRENCE, ORIGIN, TABLE,
) = range(WIDTH)  # fmt: skip


def decoded(
    changes: Iterable[Mapping[str, Any]], decoding: Decoding, *, mirror: bool
) -> tuple[list[list[Any]], list[list[Any]]]:
    """(good, rejected) decoded rows of raw changes (rows.READ), in their order."""
    return decoded_by(decoder(decoding, mirror=mirror), changes)


def decoder(decoding: Decoding, *, mirror: bool) -> Decoder:
    """What decodes changes of one table. To make one takes as long as to decode some dozens of changes."""
    return (MirrorDecoder if mirror else AppendDecoder)(decoding)


def decoded_by(decoder: Decoder, changes: Iterable[Mapping[str, Any]]) -> tuple[list[list[Any]], list[list[Any]]]:
    """As `decoded`, by a decoder that is there."""
    good: list[list[Any]] = []
    rejected: list[list[Any]] = []
    for change in changes:
        for row in decoder.rows({name: change[name] for name in READ}):
            (good if row[CODE] is None else rejected).append(row)
    return good, rejected


def key_of(row: Sequence[Any], decoding: Decoding) -> Key:
    """The key of a decoded row."""
    return tuple(row[WIDTH + i] for i in decoding.key)


def values_of(row: Sequence[Any], decoding: Decoding) -> dict[str, Any]:
    """The columns of a decoded row by name."""
    return dict(zip((column.name for column in decoding.columns), row[WIDTH:], strict=True))


def row_change(row: Sequence[Any], decoding: Decoding) -> RowChange:
    """A decoded row of a mirror table as the specification knows it; its order is `_ord`."""
    op = row[OP]
    gaps = (i for i in row[UNAVAILABLE] or () if op in "cu" and i not in decoding.key)
    unavailable = frozenset(decoding.columns[i].name for i in gaps)
    values = None if op == "d" else values_of(row, decoding)
    return RowChange(op, key_of(row, decoding), row[POS], row[ORD], values, unavailable, row[TABLE])


def truncates(changes: Iterable[Mapping[str, Any]]) -> list[RowChange]:
    """The truncates among raw changes, each once."""
    there = (one for one in changes if one["op"] == "t" and one["fault"] is None)
    found = (RowChange("t", (), one["pos"], one["ord"], None, source=one["table"]) for one in there)
    return list({one.identity: one for one in found}.values())


def identity(row: Sequence[Any]) -> str:
    """Who a change of an append table is: firn_spark.append.identified says by what."""
    if row[POS] is None:
        told = f"b:{row[BATCH]}:{row[INDEX]}" if row[ORIGIN] is None else f"b:{row[ORIGIN]}"
    else:
        in_order = f"o{row[ORD].hex().upper()}:{row[OCCURRENCE]}"
        place = in_order if row[TX_ORDER] is None else f"t{row[TX_ORDER]}"
        told = f"{row[POS].hex().upper()}:{row[OP]}:{place}"
    return hashlib.md5(told.encode(), usedforsecurity=False).hexdigest()
