"""Where each staged change stands: its position, its place in the total order, and which of several equals it is."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from firn.changes.positions import field_position, order_key, position
from firn.errors import EventError


@dataclass(frozen=True)
class Order:
    """What a stream's configuration says about order: its generation, and the field that orders a source without
    positions (None: arrival order)."""

    generation: int = 0
    field: str | None = None


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
             which keep theirs
    place    the object's number in the range, which orders what has no position
    by       what the stream says about order
    """
    names = ("pos", "ord", "occurrence", "fault", "fault_text", "tx_order")
    found: dict[str, list[Any]] = {name: [] for name in names}
    seen: defaultdict[tuple[str, bytes], dict[int, int]] = defaultdict(dict)
    for op, index, table, connector, order, before, after, key, given, generation, in_transaction, emitted in zip(
        *(columns[name] for name in PLACED_BY), strict=True
    ):
        content = f"{before}\0{after}\0{key if before is None and after is None else ''}"
        if op != "r" and '"__ts_' in content:
            # After a restart the connector sends a change again, at another time: it is the same change. Equal rows of
            # a snapshot are told apart by it.
            content = _SENT.sub("", content)
        where: bytes | None = None
        fault = text = None
        era = by.generation if generation is None else generation
        try:
            where = position(connector or "", op, order, era)
            image = after if after is not None else before
            if where is None and by.field is not None and image is not None:
                where = field_position(image.encode(), by.field, op, era)
        except EventError as error:
            fault, text = error.code, str(error)
        if where is None:
            # No position: arrival order, as the epochs list the batches; older than anything that has a position.
            total = b"\0" + place.to_bytes(8, "big") + index.to_bytes(4, "big") + b"\1"
        else:
            total = b"\1" + order_key(where, op, content.encode())
        occurrence = given
        if occurrence is None:
            # Truncates of two tables are alike in all but the table. What was emitted at one instant is one event,
            # brought twice; where the source does not say when, each is an event of its own.
            alike = seen[table, total]
            occurrence = alike.setdefault(-index - 1 if emitted is None else emitted, len(alike))
        if op == "r" and in_transaction is None:
            # Equal rows that a snapshot read are told apart by when. A streamed change may be emitted again.
            in_transaction = emitted
        for name, value in zip(names, (where, total, occurrence, fault, text, in_transaction), strict=True):
            found[name].append(value)
    return found
