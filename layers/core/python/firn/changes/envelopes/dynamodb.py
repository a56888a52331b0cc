"""Records of DynamoDB Streams, as GetRecords and Lambda have them, and of DynamoDB's stream to Kinesis.

`{eventName: INSERT | MODIFY | REMOVE, eventSourceARN | tableName, dynamodb: {Keys, NewImage, OldImage, SequenceNumber,
ApproximateCreationDateTime, StreamViewType}}`. The table is in the ARN of the stream, or in `tableName`.

Each attribute has its type with it, and becomes a column of that type (attributes.py). An item's attributes are all in
its image, so one that is not there is null. A stream of keys alone, or of old images, can't be followed: it is refused
with the setting to change.

Order: the sequence number, which rises for each item. The Kinesis form has none: there the time of the change counts,
in the µs or ms that the table is set to, and two changes of an item within one are not told apart.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_Record.html,
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/kds.html, and the recordings in
tests/data/emitters/dynamodb.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.change import Change
from firn.changes.envelopes.attributes import Item, item_of
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.row_images import ITS_OWN, image, micros_of, named, some, time_in
from firn.errors import EventError

_OPS: Final = {"INSERT": "c", "MODIFY": "u", "REMOVE": "d"}
_ARN: Final = re.compile(r"arn:[^:]*:dynamodb:[^:]*:[^:]*:table/([A-Za-z0-9_.-]{1,255})(?:/.*)?")
_DIGITS: Final = re.compile(r"[0-9]{1,56}")
_VIEWS: Final = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


class _Stream(Struct, frozen=True):
    Keys: dict[str, dict[str, Raw]] | None = None
    NewImage: dict[str, dict[str, Raw]] | None = None
    OldImage: dict[str, dict[str, Raw]] | None = None
    SequenceNumber: str | None = None
    StreamViewType: str | None = None
    ApproximateCreationDateTime: int | float | str | None = None


class _Event(Struct, frozen=True):
    dynamodb: _Stream
    eventName: str = ""
    eventSourceARN: str | None = None
    tableName: str | None = None


def recognises(fields: Mapping[str, Raw]) -> bool:
    """What happened, and DynamoDB's part of it."""
    return {"dynamodb", "eventName"} <= fields.keys()


def read(value: Value) -> Change:
    """One record. Raises EventError."""
    event = decode(value.text, _Event)
    op = _OPS.get(event.eventName)
    if op is None:
        raise EventError("unknown_op", f"`eventName` is {event.eventName[:20]!r}, none of INSERT, MODIFY, REMOVE")
    table, told = named(None, _table(event)), event.dynamodb
    if told.StreamViewType not in (None, *_VIEWS):
        raise EventError(
            "missing_image",
            f"the stream's StreamViewType is {told.StreamViewType[:40]}, and its records do not hold the items: set it "
            "to NEW_IMAGE or NEW_AND_OLD_IMAGES (a new stream of the table)",
        )
    if not told.Keys:
        raise EventError("missing_image", "the record has no `dynamodb.Keys`")
    if op != "d" and told.NewImage is None:
        raise EventError(
            "missing_image", f"{event.eventName} comes without `dynamodb.NewImage`: set StreamViewType to NEW_IMAGE"
        )
    now = item_of(told.NewImage if op != "d" and told.NewImage is not None else told.OldImage or told.Keys)
    old = item_of(told.OldImage) if op == "u" and told.OldImage is not None else None
    row = image(now.values)
    after, before = (None, row) if op == "d" else (row, image(old.values) if old else None)
    key = some(item_of(told.Keys).values, sorted(told.Keys))
    micros = _micros(told.ApproximateCreationDateTime)
    ts = None if micros is None else time_in(micros, 1_000_000, "dynamodb.ApproximateCreationDateTime")
    schema = (now if old is None else Item(now.values, {**old.kinds, **now.kinds})).schema
    order = _order(told, micros)
    emitted = None if order is None else ITS_OWN
    return Change(op, table, ts, "dynamodb", order, None, emitted, False, key, before, after, schema)


def _table(event: _Event) -> str:
    found = _ARN.fullmatch(event.eventSourceARN or "")
    table = event.tableName or (found[1] if found else "")
    if not table:
        raise EventError("missing_table", "neither `eventSourceARN` nor `tableName` names the table")
    return table


def _order(told: _Stream, micros: int | None) -> str | None:
    if told.SequenceNumber is None:
        return None if micros is None else f"[{max(micros, 0)},null,null]"
    if not _DIGITS.fullmatch(told.SequenceNumber):
        raise EventError("bad_event", "`dynamodb.SequenceNumber` is not digits")
    return f"@dynamodb:{told.SequenceNumber}:0:0"  # as firn.changes.record has it


def _micros(time: float | str | None) -> int | None:
    """Microseconds of seconds (streams), ms or µs (Kinesis): their sizes lie far apart. Raises EventError."""
    if time is None or isinstance(time, str):
        return micros_of(time, "dynamodb.ApproximateCreationDateTime")
    if not abs(time) < 1 << 62:
        raise EventError("bad_event", "`dynamodb.ApproximateCreationDateTime` is no time")
    unit = 1_000_000 if abs(time) < 10**11 else 1000 if abs(time) < 10**14 else 1
    return round(time * unit)


def table_hint(value: Value) -> str | None:
    """The table that the record names."""
    if not recognises(value.fields):
        return None
    kind = {name: value.fields[name] for name in ("eventSourceARN", "tableName") if name in value.fields}
    texts = {name: msgspec.json.decode(raw, type=str | None) for name, raw in kind.items()}
    return _table(_Event(_Stream(), "", texts.get("eventSourceARN"), texts.get("tableName")))


ENVELOPE = alone("this is a record of DynamoDB", read, table_hint, recognises)
