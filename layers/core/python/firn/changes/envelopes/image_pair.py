"""A change out of an event that names its table and holds a row before and a row after: most emitters but Debezium."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from firn.changes.change import TIMES, Change
from firn.changes.envelopes.event_reader import Value, decode
from firn.errors import EventError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def change_of(
    value: Value,
    op: str,
    table: str,
    connector: str,
    images: tuple[bytes | None, bytes | None],
    *,
    order: str | None = None,
    micros: int | None = None,
    key: bytes | None = None,
) -> Change:
    """The change of one event. `images`: before and after, None where null or not there; `micros`: the source's time,
    µs since 1970. Raises EventError missing_table, missing_image, bad_event."""
    if not table:
        raise EventError("missing_table", "the event does not name its table")
    before, after = images
    for name, image in (("before", before), ("after", after)):
        if image is not None and not image.startswith(b"{"):
            raise EventError("bad_event", f"the row {name} the change is not a JSON object")
    if op in "cur" and after is None:
        raise EventError("missing_image", f"an event of op {op} without the row after it")
    if op == "d" and before is None and key is None and value.key is None:
        raise EventError("missing_image", "a delete without the row before it, and without a key")
    millis = None if micros is None else micros // 1000
    if millis is not None and millis not in TIMES:
        raise EventError("bad_event", "the event's time is not in the years 1 to 9999")
    return Change(
        op=op,
        table=table,
        ts=millis,
        connector=connector,
        order=order,
        tx_order=None,
        emitted=None,
        flat=False,
        key=value.key if key is None else key,
        before=before,
        after=after,
        schema=None,
    )


def text_in(value: Value, name: str) -> str | None:
    """The member's text; None if it is absent or null. Raises EventError bad_event."""
    raw = value.raw(name)
    return None if raw is None else decode(raw, str, within=name)


def word_of(raw: bytes | msgspec.Raw | None) -> str:
    """The text of a member that may be anything; "" unless it is a text of letters."""
    text = b"" if raw is None else bytes(raw)
    return text[1:-1].decode("ascii", "replace") if text[:1] == b'"' and text[1:-1].isalpha() else ""


def qualified(schema: str | None, table: str | None) -> str:
    """`schema.table`, or `table` where there is no schema; "" without a table."""
    return f"{schema}.{table}" if schema and table else table or ""


def micros_of(text: str, within: str) -> int:
    """A time in ISO 8601 as µs since 1970; without a zone it is UTC. Raises EventError bad_event."""
    try:
        time = datetime.fromisoformat(text)
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        raise EventError("bad_event", f"`{within}` is not a time in ISO 8601") from None
