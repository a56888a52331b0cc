"""Decoded events of one shape -> columns, at one comprehension a column: the path that nearly all events take."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from firn.changes.change import OPS, Change
from firn.changes.envelopes.event_reader import Value
from firn.errors import EventError

_OBJECT = b"{"[0]
_LONGEST_ID = 1_000  # bytes of a transaction's id, as JSON
_NULL = Raw(b"null")
_Never = Annotated[str, Meta(min_length=1, max_length=0)]


def absent(names: Iterable[str]) -> tuple[list[tuple[str, Any, Any]], dict[str, str]]:
    """Struct fields for members that an event of this format never has, and what they are called in JSON: what has one
    fails the decode of them all, and is then read on its own, as what it is."""
    fields = {f"absent_{i}": name for i, name in enumerate(sorted(names))}
    return [(field, _Never, "") for field in fields], fields


class Columns(Struct, frozen=True):
    """Equal lists, a place for each event. What is at the `irregular` places means nothing: read those one by one."""

    op: list[str]
    table: list[str]
    ts: list[int | None]
    connector: list[str]
    order: list[str | None]
    tx_order: list[int | None]
    emitted: list[int | None]
    before: list[bytes | None]
    after: list[bytes | None]
    irregular: list[int]
    schema: list[bytes | None] | None = None  # when the format itself holds it, as CloudEvents do
    transaction: list[str | None] | None = None  # None: no event names one


def images(raws: Sequence[Raw]) -> tuple[list[bytes | None], bool]:
    """Row images as bytes, null as None; and whether all of them are objects or null."""
    texts = [None if raw == _NULL else bytes(raw) for raw in raws]
    # Of all first bytes that a JSON value can have, an object's is the highest.
    return texts, min(filter(None, texts), default=b"{") >= b"{"


def transactions(ids: Sequence[Raw]) -> list[str | None] | None:
    """The ids of transactions as text; None if there is none. What can't be one is null: no event is bad for that."""
    return [_id(bytes(raw)) for raw in ids] if ids.count(_NULL) < len(ids) else None


def _id(raw: bytes) -> str | None:
    if raw == b"null" or len(raw) > _LONGEST_ID:
        return None
    try:
        told = msgspec.json.decode(raw)
        found = told if isinstance(told, str) else raw.decode() if type(told) is int else None
        return found if found is None or found.encode() else None
    except (msgspec.DecodeError, UnicodeError, ValueError):
        return None


def irregular(
    op: list[str],
    table: list[str],
    before: list[bytes | None],
    after: list[bytes | None],
    *,
    objects: bool,
    connectors: Sequence[str],
    connector: str,
    others: Sequence[int] = (),
) -> list[int]:
    """The places whose event is not a plain change: a marker, broken, or in another shape. Costs little if none is.

    `objects`: all images are objects or null. `connector`: the one whose fields were decoded. `others`: places that the
    format knows to be irregular.
    """
    if others:
        odd = irregular(op, table, before, after, objects=objects, connectors=connectors, connector=connector)
        return sorted({*odd, *others})
    if objects and OPS.issuperset(op) and all(table) and connectors.count(connector) == len(connectors):
        # Only a delete or a truncate may lack the row after, so only these are looked at one by one.
        lacking = [i for i, row in enumerate(after) if row is None]
        return [i for i in lacking if not _has_image(op[i], before[i], after[i])]
    return [
        i
        for i in range(len(op))
        if op[i] not in OPS
        or not table[i]
        or connectors[i] != connector
        or not all(row is None or row[0] == _OBJECT for row in (before[i], after[i]))
        or not _has_image(op[i], before[i], after[i])
    ]


def _has_image(op: str, before: bytes | None, after: bytes | None) -> bool:
    return after is not None or op == "t" or (op == "d" and before is not None)


def single(columns: Columns, value: Value, *, flat: bool) -> Change:
    """The one change of one-row columns, whatever is wrong with it named. Raises EventError.

    Codes: missing_table, missing_image (the row that the op speaks of is not there), bad_event.
    """
    op, table, connector = columns.op[0], columns.table[0], columns.connector[0]
    if not table:
        raise EventError("missing_table", "the event does not name its table")
    before, after = _image(columns.before[0], "before"), _image(columns.after[0], "after")
    if op in "cur" and after is None:
        raise EventError("missing_image", f"op {op} comes without the row in `after`")
    if op == "d" and before is None and value.key is None:
        raise EventError("missing_image", "op d comes without the row in `before`, and without a key")
    return Change(
        op=op,
        table=table,
        ts=columns.ts[0],
        connector=connector,
        order=columns.order[0],
        tx_order=columns.tx_order[0],
        emitted=columns.emitted[0],
        flat=flat,
        key=value.key,
        before=before,
        after=after,
        schema=value.schema if columns.schema is None else columns.schema[0],
        transaction=None if columns.transaction is None else columns.transaction[0],
    )


def _image(text: bytes | None, name: str) -> bytes | None:
    """A row image is a JSON object. Never looked into."""
    if text is None or text.startswith(b"{"):
        return text
    raise EventError("bad_event", f"`{name}` is not a JSON object")
