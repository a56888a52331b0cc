"""Where each staged change stands: its position, its place in the total order, and which of several equals it is."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from firn.changes.fold import UNKNOWN
from firn.changes.positions import field_position, order_key, position
from firn.changes.redelivered import kept
from firn.errors import EventError


@dataclass(frozen=True)
class Order:
    """What is known about the order of a batch: its generation, the field that orders a source without positions (None:
    arrival order), and of changes that came before under a lower generation that one, by redelivered.name_of."""

    generation: int = 0
    field: str | None = None
    kept: Mapping[bytes, int] = dataclasses.field(default_factory=dict, hash=False)


PLACED_BY: Final = (
    "op", "index", "table", "connector", "order", "before", "after", "key", "occurrence", "generation", "tx_order",
    "emitted",
)  # fmt: skip


# When the connector sent a flattened row stands in the row. In text, a quote inside a value has a backslash before it.
_SENT: Final = re.compile(r',\s*"__ts_[mun]s":\s*-?[0-9]+')


def placed(columns: Mapping[str, Sequence[Any]], place: int, by: Order) -> dict[str, list[Any]]:
    """Position, total order, occurrence and place in its transaction of each change of one staged object, and why one
    can't be placed.

    columns  those of PLACED_BY, of equal length; `occurrence` and `generation` are null but for replayed dead letters,
             which keep theirs. And `ts`, if changes may keep an earlier generation
    place    the object's number in the range, which orders what has no position
    by       what the stream says about order
    """
    named = [columns[name] for name in PLACED_BY]
    ops, indexes, tables, connectors, orders, befores, afters, keys, given, generations, in_transaction, emitted = named
    eras = [by.generation if generation is None else generation for generation in generations]
    pos: list[bytes | None] = []
    totals: list[bytes] = []
    fault: list[str | None] = [None] * len(ops)
    fault_text: list[str | None] = [None] * len(ops)
    for row, (op, connector, order, before, after, era) in enumerate(
        zip(ops, connectors, orders, befores, afters, eras, strict=True)
    ):
        where: bytes | None = None
        try:
            where = position(connector or "", op, order, era)
            image = after if after is not None else before
            if where is None and by.field is not None and image is not None:
                where = field_position(image.encode(), by.field, op, era)
        except EventError as error:
            fault[row], fault_text[row] = error.code, str(error)
        pos.append(where)
        if where is None:
            # No position: arrival order, as the epochs list the batches; older than anything that has a position.
            totals.append(b"\0" + place.to_bytes(8, "big") + indexes[row].to_bytes(4, "big") + b"\1")
            continue
        content = f"{before}\0{after}\0{keys[row] if before is None and after is None else ''}"
        if '"__ts_' in content and op != "r":
            # After a restart the connector sends a change again, at another time: it is the same change. Equal rows of
            # a snapshot are told apart by it.
            content = _SENT.sub("", content)
        totals.append(b"\1" + order_key(where, op, content.encode()))
    if by.kept:
        pos, totals = kept(pos, totals, tables, columns["ts"], generations, by.kept)
    return {
        "pos": pos,
        "ord": totals,
        "occurrence": _occurrences(totals, tables, indexes, emitted, given),
        "fault": fault,
        "fault_text": fault_text,
        # Equal rows that a snapshot read are told apart by when. A streamed change may be emitted again.
        "tx_order": [
            at if op == "r" and number is None else number
            for op, number, at in zip(ops, in_transaction, emitted, strict=True)
        ],
    }


def total(stored: bytes | None) -> bytes:
    """The order in `_firn_pos` of a table's row among those of changes; an adopted row is older than all."""
    return b"\1" + stored if stored else UNKNOWN


def plain(order: bytes) -> bytes | None:
    """The inverse: a change's order as `_firn_pos` has it; None for one of arrival, and for UNKNOWN."""
    return order[1:] if order[:1] == b"\1" else None


def _occurrences(
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
