"""Decoded rows (changes.rows) one at a time: good ones and rejected ones, as changes of the specification, and who each
is in an append table. Pure."""

import hashlib
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from firn.changes.change import STEPS
from firn.changes.decode.row_decoder import (
    META,
    OTHERS_LEFT_OUT,
    READ,
    AppendDecoder,
    ChangeId,
    Decoder,
    Decoding,
    MirrorDecoder,
    Why,
)
from firn.changes.decode.types import Type
from firn.changes.merge import fold
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import OWN_PLACE

WIDTH: Final = len(META)  # the values of the columns follow
(
    EPOCH, BATCH, INDEX, OP, TS, POS, ORD, UNAVAILABLE, CODE, MESSAGE, BEFORE, TX_ORDER, OCCURRENCE, ORIGIN, TABLE,
    NULLS,
) = range(WIDTH)  # fmt: skip


def decoded(
    changes: Iterable[Mapping[str, Any]],
    decoding: Decoding,
    *,
    mirror: bool,
    fit: Callable[[list[list[Any]]], object] = len,
) -> tuple[list[list[Any]], list[list[Any]]]:
    """(good, rejected) decoded rows of raw changes (rows.READ), in their order. `fit`: as for Decoder.fitting."""
    return decoded_by(decoder(decoding, mirror=mirror), changes, fit)


def decoder(decoding: Decoding, *, mirror: bool) -> Decoder:
    """What decodes changes of one table. To make one takes as long as to decode some dozens of changes."""
    return (MirrorDecoder if mirror else AppendDecoder)(decoding)


def decoded_by(
    decoder: Decoder, changes: Iterable[Mapping[str, Any]], fit: Callable[[list[list[Any]]], object] = len
) -> tuple[list[list[Any]], list[list[Any]]]:
    """As `decoded`, by a decoder that is there."""
    good: list[list[Any]] = []
    rejected: list[list[Any]] = []
    rows, _ = decoder.fitting([{name: change[name] for name in READ} for change in changes], fit)
    for row in rows:
        (good if row[CODE] is None else rejected).append(row)
    return good, rejected


def why_of(rejected: Iterable[Sequence[Any]]) -> dict[ChangeId, Why]:
    """Why decoded rows were rejected."""
    return {(row[BATCH], row[INDEX]): (row[CODE], row[MESSAGE]) for row in rejected}


def key_of(row: Sequence[Any], decoding: Decoding) -> Key:
    """The key of a decoded row."""
    return key_of_values([row[WIDTH + i] for i in decoding.key], decoding)


def key_of_values(key: Sequence[Any], decoding: Decoding) -> Key:
    """The decoded values of the key's columns as a key."""
    return fold.key_of(map(_single, key, (decoding.columns[i].type for i in decoding.key)) if decoding.singles else key)


def _single(value: Any, kind: Type) -> Any:
    """A part of a key as tables hold it: of floats the 32 bits, which several texts of a source may round to."""
    if value is None or kind.name not in ("float", "list"):
        return value
    if kind.element is not None:
        return [_single(one, kind.element) for one in value]
    return struct.unpack("f", struct.pack("f", value))[0]


def values_of(row: Sequence[Any], decoding: Decoding) -> dict[str, Any]:
    """The columns of a decoded row by name."""
    return dict(zip((column.name for column in decoding.columns), row[WIDTH:], strict=True))


def row_change(row: Sequence[Any], decoding: Decoding) -> RowChange:
    """A decoded row of a mirror table as the specification knows it; its order is `_ord`."""
    op = row[OP]
    gaps = (i for i in row[UNAVAILABLE] or () if op in "cu" and i not in decoding.key)
    unavailable = frozenset(fold.OTHERS if i == OTHERS_LEFT_OUT else decoding.columns[i].name for i in gaps)
    values = None if op == "d" else values_of(row, decoding)
    stepped: frozenset[str] = frozenset()
    if values is not None and fold.OTHERS in unavailable:  # then what it does not name goes without saying
        stepped = frozenset(name.removeprefix(STEPS) for name in row[NULLS] or () if name.startswith(STEPS))
        values = {name: value for name, value in values.items() if name not in unavailable}
        values |= dict.fromkeys(name for name in row[NULLS] or () if not name.startswith(STEPS))
        unavailable = frozenset((fold.OTHERS,))
    return RowChange(op, key_of(row, decoding), row[POS], row[ORD], values, unavailable, row[TABLE], stepped)


def truncates(changes: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> list[RowChange]:
    """The truncates among raw changes, each once. `names`: as Decoding has them."""
    there = (one for one in changes if one["op"] == "t" and one["fault"] is None)
    named = ((one, names.get(one["table"], one["table"])) for one in there)
    found = (RowChange("t", (), one["pos"], one["ord"], None, source=source) for one, source in named)
    return list({one.identity: one for one in found}.values())


def identity(row: Sequence[Any], stream: str) -> str:
    """Who a change of an append table is, as `_firn_id` has it: a 128-bit hash of what changes.append tells changes
    apart by. The order holds position, op and content."""
    if row[POS] is None:
        return _hashed(_arrived(row))
    return placed_identity(stream, row[ORD], row[OCCURRENCE], row[TX_ORDER], row[TABLE])


def placed_identity(stream: str, order: bytes, occurrence: int, number: int | None, table: str) -> str:
    """The same of a change with a position. `number`: its place in its transaction; `table`: its source table."""
    which = f"o{occurrence}" if number is None else f"t{number}"
    if occurrence == OWN_PLACE:
        which = "o0"
    # The table's name comes last: it may hold any character, and nothing before it a colon.
    return _hashed(f"{stream}:{order.hex().upper()}:{which}:{table}")


def first_identity(row: Sequence[Any]) -> str:
    """What `identity` was at first, without stream, source table and, by a number, content: the rows of tables from
    then have it (TableState.first_identity)."""
    if row[POS] is None:
        return _hashed(_arrived(row))
    in_order = f"o{row[ORD].hex().upper()}:{max(row[OCCURRENCE], 0)}"
    place = in_order if row[TX_ORDER] is None else f"t{row[TX_ORDER]}"
    return _hashed(f"{row[POS].hex().upper()}:{row[OP]}:{place}")


class Appendable:
    """The changes of a stream for an append table, each once. `rows`: by identity; `names`: all that the table may know
    them by."""

    def __init__(self, rows: Iterable[Sequence[Any]], stream: str, *, first: bool) -> None:
        """`rows`: decoded, any of them several times; `first`: the table may hold them by their first identity."""
        self.rows: dict[str, Sequence[Any]] = {}
        for row in rows:
            self.rows.setdefault(identity(row, stream), row)
        self._first = {one: first_identity(row) for one, row in self.rows.items()} if first else {}

    @property
    def names(self) -> set[str]:
        """What to look for in the table."""
        return {*self.rows, *self._first.values()}

    def without(self, there: Collection[str]) -> dict[str, Sequence[Any]]:
        """The rows that are new to a table that holds these of the names."""
        return {one: row for one, row in self.rows.items() if one not in there and self._first.get(one) not in there}


def _arrived(row: Sequence[Any]) -> str:
    return f"b:{row[BATCH]}:{row[INDEX]}" if row[ORIGIN] is None else f"b:{row[ORIGIN]}"


def _hashed(told: str) -> str:
    return hashlib.md5(told.encode(), usedforsecurity=False).hexdigest()
