"""Where each staged change stands: its position, its place in the total order, and which of several equals it is."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import msgspec

from firn.changes import clocks
from firn.changes.change import OPS, TIMES
from firn.changes.decode import nesting
from firn.changes.decode.poison import poison
from firn.changes.merge import nested_updates
from firn.changes.merge.fold import LOADED, OTHERS, UNKNOWN
from firn.changes.metadata_columns import NAMELESS_ID, OTHERS_ID, PARTS, PARTS_ID
from firn.changes.positions import MONGODB, NAMED_LATER, arrived, field_position, order_key, position, within
from firn.changes.redelivery import has_own_place, kept
from firn.errors import EventError


@dataclass(frozen=True)
class Order:
    """What is known of the order of some batches: their generation, the fields that order a source without positions
    (none: arrival order), the generation whose changes told their commits before (quarantine.tells_commits; None:
    none), and of changes that came before under a lower generation that one, by redelivery.name_of."""

    generation: int = 0
    fields: tuple[str, ...] = ()
    commits: int | None = None
    kept: Mapping[bytes, int] = dataclasses.field(default_factory=dict, hash=False)


OWN_PLACE: Final = -1
"""The occurrence of a change that has no equals: no other has its position and op (redelivery.has_own_place)."""

PLACED_BY: Final = (
    "op", "index", "table", "connector", "order", "before", "after", "key", "occurrence", "generation", "tx_order",
    "emitted",
)  # fmt: skip


_nameless: Final = msgspec.json.Decoder(dict[str, bytes]).decode
# When the connector sent a flattened row stands in the row. After a restart it sends a change again, at another time:
# it is the same change. Equal rows of a snapshot are told apart by it. In text, a quote inside a value has a backslash
# before it.
_SENT: Final = re.compile(r',\s*"__ts_[mun]s":\s*-?[0-9]+')


def placed(columns: Mapping[str, Sequence[Any]], place: int, by: Order, accepted: int = 0) -> dict[str, list[Any]]:
    """Position, total order, occurrence and place in its transaction of each change of one staged object, and why one
    can't be placed.

    columns  those of PLACED_BY, of equal length; `occurrence` and `generation` are null but for replayed dead letters,
             which keep theirs. And `ts`, if changes may keep an earlier generation
    place    the object's number in the range, which orders what has no position
    by       what is known of the stream's order
    accepted when the object's events were accepted, ms; 0: not known
    """
    named = [columns[name] for name in PLACED_BY]
    ops, indexes, tables, connectors, orders, befores, afters, keys, given, generations, in_transaction, emitted = named
    fields, commits = by.fields, by.commits
    mongodb = not MONGODB.isdisjoint(connectors)
    if mongodb:
        orders = list(map(arrived, connectors, orders, repeat(accepted), indexes))
    eras = [by.generation if generation is None else generation for generation in generations]
    pos: list[bytes | None] = []
    totals: list[bytes] = []
    faults: dict[int, tuple[str, str]] = {}  # code and text
    wrong = _without_place(columns, by, accepted)
    changes = zip(ops, connectors, orders, befores, afters, eras, strict=True)
    for row, (op, connector, order, before, after, era) in enumerate(changes):
        where: bytes | None = None
        inside: bytes | None = None
        total_order = b""
        try:
            if wrong and row in wrong:
                raise wrong[row]
            if not fields or connector not in NAMED_LATER:
                where = position(connector or "", op, order, era, era == commits)
            if where is None and fields:
                where = placed_by_field(fields, op, era, (after, before, keys[row]), accepted)
            if mongodb and order is not None:
                inside = within(connector or "", order)
            if inside is not None and where is not None:
                total_order = b"\1" + where + inside
            elif where is not None:
                total_order = b"\1" + order_key(where, op, _content(op, before, after, keys[row]).encode())
        except Exception as error:  # noqa: BLE001 (one event's failure is one dead letter)
            why = poison(error)
            where, faults[row] = None, (why.code, str(why))
        pos.append(where)
        if where is None:
            # No position: arrival order, as the epochs list the batches; older than anything that has a position.
            total_order = b"\0" + place.to_bytes(8, "big") + indexes[row].to_bytes(4, "big") + b"\1"
        totals.append(total_order)
    if by.kept:
        pos, totals = kept(pos, totals, tables, columns["ts"], generations, by.kept)
    return {
        "pos": pos,
        "ord": totals,
        "occurrence": _with_own_places(
            occurrences(totals, tables, indexes, emitted, given), pos, connectors, ops, orders
        ),
        "fault": _by_row({row: code for row, (code, _) in faults.items()}, len(ops)),
        "fault_text": _by_row({row: text for row, (_, text) in faults.items()}, len(ops)),
        "tx_order": _in_transaction(ops, in_transaction, emitted),
    }


def _content(op: str, before: str | None, after: str | None, key: str | None) -> str:
    content = f"{before}\0{after}\0{key if before is None and after is None else ''}"
    return _SENT.sub("", content) if '"__ts_' in content and op != "r" else content


def _with_own_places(
    numbers: Sequence[int],
    pos: Sequence[bytes | None],
    connectors: Sequence[str | None],
    ops: Sequence[str],
    orders: Sequence[str | None],
) -> list[int]:
    """The occurrences of changes, but of those that have no equals."""
    changes = zip(numbers, pos, map(has_own_place, connectors, ops, orders), strict=True)
    return [OWN_PLACE if own and where is not None else number for number, where, own in changes]


def _by_row(texts: Mapping[int, str], rows: int) -> list[str | None]:
    found: list[str | None] = [None] * rows
    for row, text in texts.items():
        found[row] = text
    return found


def _in_transaction(
    ops: Sequence[str], places: Sequence[int | None], emitted: Sequence[int | None]
) -> list[int | None]:
    """The place of each change in its transaction. Equal rows that a snapshot read are told apart by when: a streamed
    change may be emitted again."""
    return [at if op == "r" and number is None else number for op, number, at in zip(ops, places, emitted, strict=True)]


def _without_place(columns: Mapping[str, Sequence[Any]], by: Order, accepted: int) -> dict[int, EventError]:
    """Which changes can't be placed whatever their order says, and why. Arguments as of `placed`."""
    ops, connectors, orders = (columns[name] for name in ("op", "connector", "order"))
    times, without = columns.get("ts", ()), NAMED_LATER if by.fields else ()
    ahead = clocks.ahead(connectors, orders, times, [accepted] * len(ops), without=without)
    images = {name: columns[name] for name in ("key", "before", "after")}
    return ahead | _not_changes(ops, times) | nesting.too_deep(images)


def _not_changes(ops: Sequence[str], times: Sequence[int | None]) -> dict[int, EventError]:
    """The places of what a staged batch may hold and no table can take, and why: ingest once let both through."""
    found: dict[int, EventError] = {}
    if not OPS.issuperset(ops):
        text = "the op of the staged event is none of c, u, d, r, t"
        found = {row: EventError("unknown_op", text) for row, op in enumerate(ops) if op not in OPS}
    told = [time for time in times if time is not None]
    if told and not (min(told) in TIMES and max(told) in TIMES):
        text = "the source time is not in the years 1 to 9999"
        late = (row for row, time in enumerate(times) if time is not None and time not in TIMES)
        found |= {row: EventError("bad_event", text) for row in late}
    return found


# Why a change without a row has no place in a stream with `order_by`, and what to do.
_NO_ROW: Final = {
    "d": (
        "no_order",
        "the delete holds it neither in a row nor in its key; have the source send the row before, or the field in the "
        "key",
    ),
    "t": (
        "no_order",
        "a truncate holds no row, so nothing says after which changes it came; delete the rows at the source, or take "
        "a new snapshot under a raised generation",
    ),
}


def placed_by_field(
    fields: Sequence[str], op: str, generation: int, images: tuple[str | None, str | None, str | None], accepted: int
) -> bytes | None:
    """The position by `order_by`. `images`: the row after, the row before, the key: of a change without a row after it
    the first that holds the field counts. None for one that lacks a row which it must have: it is refused as what it
    is. Raises EventError."""
    lacking = _NO_ROW.get(op)
    there = [image for image in (images if lacking else images[:1]) if image is not None]
    if not there and not lacking:
        return None
    return field_position(there, fields, op, generation, accepted, *([lacking] if lacking else []))


def total(stored: bytes | None) -> bytes:
    """The order in `_firn_pos` of a table's row, or in `_firn_held` of a value, among those of changes. Without one it
    is older than all: another tool loaded it."""
    return b"\1" + stored if stored else LOADED


def plain(order: bytes | None) -> bytes | None:
    """The inverse: a change's order as `_firn_pos` has it; None for one of arrival, for LOADED, UNKNOWN and None."""
    return order[1:] if order is not None and order[:1] == b"\1" else None


def stored_held(order: bytes, held: Mapping[str, bytes], ids: Mapping[str, int]) -> list[tuple[int, bytes]] | None:
    """`_firn_held` of a row at `order` (plain): field ids, rising, and the orders of their values as `plain` gives
    them, b"" for none. `held`: as a row has them; `ids`: of the columns that may be held."""
    if PARTS in held:
        others = {name: one for name, one in held.items() if name != PARTS}
        composed = {name: one.shortened() for name, one in nested_updates.read(held[PARTS]).items()}
        return [(PARTS_ID, nested_updates.written(composed)), *(stored_held(order, others, ids) or ())]
    orders = {name: plain(one) or b"" for name, one in held.items()}
    rest = orders.get(OTHERS)
    if rest is None:
        entries = sorted((ids[name], one) for name, one in orders.items() if name in ids and one < order)
        return entries or None
    named = {name: one for name, one in orders.items() if one != rest}
    found = {ids[name]: one for name, one in named.items() if name in ids} | {OTHERS_ID: rest}
    if nameless := {name: one for name, one in sorted(named.items()) if name not in ids}:
        found[NAMELESS_ID] = msgspec.json.encode(nameless)
    return sorted(found.items())


def read_held(stored: Iterable[tuple[int, bytes]] | None, names: Mapping[int, str]) -> dict[str, bytes]:
    """The inverse. `names`: of the table's columns, by field id."""
    found: dict[str, bytes] = {}
    for number, order in stored or ():
        told = {names[number]: order} if number in names else {}
        if number == PARTS_ID:
            found[PARTS] = order
            continue
        if number < 0:
            told = {OTHERS: order} if number == OTHERS_ID else _nameless(order)
        for name, one in told.items():
            # A column has come since that was null before: what is told by its id is as new or newer.
            found[name] = max(total(one), found.get(name, UNKNOWN))
    return found


def occurrences(
    totals: Sequence[bytes],
    tables: Sequence[str],
    indexes: Sequence[int],
    emitted: Sequence[int | None],
    given: Sequence[int | None],
) -> list[int]:
    """How many equal changes of its table came before each in the request, as the changes so far count: `given` ones
    keep theirs and don't."""
    if len(set(totals)) == len(totals):  # nearly always
        return [number or 0 for number in given]
    found: list[int] = []
    seen: defaultdict[tuple[str, bytes], dict[int, int]] = defaultdict(dict)
    for order, table, index, at, number in zip(totals, tables, indexes, emitted, given, strict=True):
        if number is None:
            # Truncates of two tables are alike in all but the table. What was emitted at one instant is one event,
            # brought twice; where the source does not say when, each is an event of its own.
            alike = seen[table, order]
            found.append(alike.setdefault(-index - 1 if at is None else at, len(alike)))
        else:
            found.append(number)
    return found
