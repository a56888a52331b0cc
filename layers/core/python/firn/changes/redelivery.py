"""Changes that come again. Pure.

Those that have a place of their own in their source are one change wherever they come: `has_own_place`
(docs/adr/0064-places-of-their-own.md).

After their stream's generation was raised they keep the generation that they had (docs/adr/0034-generations.md). A
change is recognised by its source table, its source time and its order without the generation: raw position, op and
content. All of them are the source's own, so a change has one name, however often and in whatever company it comes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

Placed = tuple[str, bytes, int | None]
"""Source table, total order (ordering.placed) and source time (ms) of a change."""


def has_own_place(connector: str | None, op: str, order: str | None) -> bool:
    """Whether no other change of its source table can have its position and op, so that neither a number nor a request
    has to tell it from others. `order`: as sources.py writes it.

    MySQL's and MariaDB's `[file, pos, row]` is one row of one event of the binlog. PostgreSQL's LSN is one record of
    its log: of an update, a delete or a truncate one row, of inserts as many as COPY puts on a page.
    """
    if order is None:
        return False
    if connector == "postgresql":
        return op in _OF_ONE_RECORD
    return connector in _BINLOGS and op != "r" and not order.endswith(_NO_ROW)


_OF_ONE_RECORD: Final = frozenset("udt")
_BINLOGS: Final = frozenset({"mysql", "mariadb"})
_NO_ROW: Final = "null]"  # a flattened event that does not tell the row


@dataclass(frozen=True)
class Early:
    """Changes that may have come under a lower generation. `tables`: their source tables; `oldest`: the least of their
    source times (ms)."""

    names: frozenset[bytes] = frozenset()
    tables: frozenset[str] = frozenset()
    oldest: int = 0

    def __or__(self, other: "Early") -> "Early":
        if not (self.names and other.names):
            return self if self.names else other
        return Early(self.names | other.names, self.tables | other.tables, min(self.oldest, other.oldest))


def name_of(table: str, order: bytes, time: int | None) -> bytes:
    """What a change is recognised by, under whichever generation: 16 bytes."""
    return blake2b(b"%b\0%b\0%d" % (table.encode(), order[5:], time or 0), digest_size=16).digest()


def generation_of(order: bytes) -> int:
    """The generation in a total order that begins with a position."""
    return int.from_bytes(order[1:5])


def may_be_early(_table: str, order: bytes, time: int | None, until: int) -> bool:
    """Whether the change is of a raised generation and of a source time up to `until`: only then it may have come
    before. What tells no time, or no position, is taken for new."""
    return time is not None and time <= until and order[:1] == b"\1" and generation_of(order) > 0


def early(changes: Iterable[Placed], until: int) -> Early:
    """Those that may have come under a lower generation, which source times up to `until` have (ms)."""
    there = [one for one in changes if may_be_early(*one, until)]
    return Early(
        frozenset(name_of(*one) for one in there),
        frozenset(table for table, _, _ in there),
        min((time for _, _, time in there if time is not None), default=0),
    )


def lowest(wanted: frozenset[bytes], changes: Iterable[Placed]) -> dict[bytes, int]:
    """The lowest generation that each of the changes with these names has among `changes`."""
    found: dict[bytes, int] = {}
    for table, order, time in changes:
        name = name_of(table, order, time) if order[:1] == b"\1" else b""
        if name in wanted:
            found[name] = min(found.get(name, 1 << 32), generation_of(order))
    return found


def kept(
    positions: Sequence[bytes | None],
    orders: Sequence[bytes],
    tables: Sequence[str],
    times: Sequence[int | None],
    given: Sequence[int | None],
    generations: Mapping[bytes, int],
) -> tuple[list[bytes | None], list[bytes]]:
    """Positions and total orders with the generation that each change had when it came first. `generations`: by name;
    `given`: the generations that replayed dead letters keep."""
    found: tuple[list[bytes | None], list[bytes]] = list(positions), list(orders)
    for row, (where, order, table, time, own) in enumerate(zip(positions, orders, tables, times, given, strict=True)):
        first = generations.get(name_of(table, order, time)) if where is not None and own is None else None
        if where is not None and first is not None and first < generation_of(order):
            era = first.to_bytes(4)
            found[0][row], found[1][row] = era + where[4:], order[:1] + era + order[5:]
    return found
