"""MongoDB's native change streams: an event as drivers print it, in extended JSON.

`{"_id": {"_data"}, "operationType", "ns": {"db", "coll"}, "documentKey", "fullDocument", "updateDescription",
"clusterTime"}` https://www.mongodb.com/docs/manual/reference/change-events/

Each top-level field of a document is a column; documents and arrays in it are JSON text (extended_json.py). The resume
token orders all events, those of a transaction too: its bytes rise, and begin with the cluster time.

An update is exact where the event tells the document: before it (fullDocumentBeforeChange), or after it as it was then
(post-images). A `fullDocument` that was looked up is a later state: until the events that made it so have come, the
row may be ahead of its time, and then it is right. An update alone is a patch of the columns that it sets or removes;
one that reaches into a column is refused, since no order could be kept in which parts of a value count.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct, structs

from firn.changes.change import Change, Ignored
from firn.changes.envelopes import documents
from firn.changes.envelopes.documents import MONGODB, MONGODB_PATCH
from firn.changes.envelopes.envelope import alone
from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.extended_json import plain_cell
from firn.changes.envelopes.image_pair import change_of, micros_of, qualified, word_of
from firn.changes.envelopes.update_description import Update, read_update
from firn.errors import EventError

_ROWS: Final = {"insert": "c", "update": "u", "replace": "u", "delete": "d", "drop": "t"}
_OTHERS: Final = frozenset({
    "rename", "dropDatabase", "invalidate", "create", "createIndexes", "dropIndexes", "modify", "shardCollection",
    "refineCollectionShardKey", "reshardCollection", "endOfTransaction", "movePrimary",
})  # fmt: skip
_TOKEN: Final = 39  # bytes of a resume token that a position holds


class _Namespace(Struct, frozen=True):
    db: str | None = None
    coll: str | None = None


class _Time(Struct, frozen=True):
    t: int
    i: int


class _Stamp(Struct, frozen=True, rename={"time": "$timestamp"}):
    time: _Time


class _Token(Struct, frozen=True, rename={"data": "_data"}):
    data: Raw = Raw(b"null")


def recognises(fields: Mapping[str, Raw]) -> bool:
    """An `operationType` of change streams, and the resume token or a namespace beside it; or nothing beside it."""
    kind = word_of(fields.get("operationType"))
    beside = bytes(fields.get("_id", b""))[:1] == b"{" or "ns" in fields or len(fields) == 1
    return (kind in _ROWS or kind in _OTHERS) and beside


def read(value: Value) -> Change | Ignored:
    """One event. Raises EventError."""
    kind = word_of(value.fields.get("operationType"))
    if kind in _OTHERS:
        return Ignored("schema_change" if kind not in ("invalidate", "endOfTransaction") else "control")
    if kind not in _ROWS:
        raise EventError("unknown_op", "`operationType` is none of a change stream's")
    if "splitEvent" in value.fields:
        raise EventError(
            "bad_event",
            "the event is a part of a large one: take $changeStreamSplitLargeEvent out of the pipeline, or put the "
            "parts together before they are sent",
        )
    stamp = _stamp(value)
    changed = change_of(
        value,
        "t",
        table_hint(value) or "",
        MONGODB,
        (None, None),
        order=_order(value, stamp),
        micros=_micros(value, stamp),
        key=_key(value),
    )
    if kind == "drop":
        return structs.replace(changed, key=None)
    after = documents.image(value.raw("fullDocument"), "fullDocument")
    before = documents.image(value.raw("fullDocumentBeforeChange"), "fullDocumentBeforeChange")
    if kind == "update":
        looked_up = after is None and "fullDocument" in value.fields
        return documents.updated(changed, before, after, _update(value), gone=looked_up, patch=MONGODB_PATCH)
    return documents.whole(changed, _ROWS[kind], before, after)


def _update(value: Value) -> Update | None:
    raw = value.raw("updateDescription")
    return None if raw is None else read_update(raw, "updateDescription")


def _key(value: Value) -> bytes | None:
    raw = value.raw("documentKey")
    if raw is None:
        return None
    found = documents.key_of(decode(raw, dict[str, Raw], within="documentKey").get("_id"))
    if found is None:
        raise EventError("no_key", "`documentKey` has no `_id`")
    return found


def _stamp(value: Value) -> _Time | None:
    raw = value.raw("clusterTime")
    if raw is None:
        return None
    stamp: _Stamp = decode(raw, _Stamp, within="clusterTime")
    if not (0 <= stamp.time.t < 1 << 32 and 0 <= stamp.time.i < 1 << 32):
        raise EventError("bad_event", "`clusterTime` is not a timestamp")
    return stamp.time


def _order(value: Value, stamp: _Time | None) -> str | None:
    """The resume token's first bytes in hexadecimal; without one, what a token of its cluster time begins with."""
    raw = value.raw("_id")
    token: _Token = decode(raw, _Token, within="_id") if raw is not None else _Token()
    data = bytes(token.data)
    if data == b"null":
        return None if stamp is None else f'"82{stamp.t:08x}{stamp.i:08x}"'
    text: str = decode(plain_cell(data, "_id._data"), str, within="_id._data")
    try:
        return f'"{bytes.fromhex(text.ljust(len(text) + len(text) % 2, "0"))[:_TOKEN].hex()}"'
    except ValueError:  # as base64 or in any other form: its text rises too
        return f'"{text.encode()[:_TOKEN].hex()}"'


def _micros(value: Value, stamp: _Time | None) -> int | None:
    raw = value.raw("wallTime")
    if raw is not None:
        return micros_of(decode(plain_cell(raw, "wallTime"), str, within="wallTime"), "wallTime")
    return None if stamp is None else stamp.t * 1_000_000


def table_hint(value: Value) -> str | None:
    """`db.coll` of `ns`."""
    raw = value.raw("ns")
    if raw is None or "operationType" not in value.fields:
        return None
    namespace: _Namespace = decode(raw, _Namespace, within="ns")
    return qualified(namespace.db, namespace.coll) or None


ENVELOPE = alone("this is an event of a MongoDB change stream", read, table_hint, recognises)
