"""One event that holds several changes: Canal's rows, wal2json's transaction, a webhook's array, a delivery's records.

An envelope whose events may do so has a function `parts` (envelope.py): value, limits -> `Parts`, or None for an event
that is one itself. What the parts are:

* Each part is an event on its own, as JSON text, that is read like any other: of this envelope or of another, and
  recognised like one. Where a format knows no such event (a row of Canal's array is none), the part is the event with
  one row, and what its place in the whole says (its number in a transaction, say) is a member of it. So a part that
  can't be taken is a dead letter of its own, whose original is the part: it can be corrected and replayed alone, and is
  then the same change at the same place.
* Each takes a place of its own in the request: `index`, the answer's counts, the append identity and arrival order see
  no difference to as many events. An event without parts is `Ignored("empty")`.
* They are counted before anything is made of them (`members`), and made one at a time. `events` raises nothing: what is
  wrong with the whole is an EventError of `parts`, and a dead letter of the whole; what is wrong with a part shows when
  it is read.

A change of a key needs no parts: an update (op u) whose `before` holds another key than its `after` is a delete of the
old key and a create of the new one, at one position (decode/row_decoder.py). What updates leave out: change.PATCHES.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.envelopes.event_reader import Value, decode
from firn.changes.envelopes.json_text import count_members
from firn.changes.envelopes.limits import EventLimits
from firn.errors import EventError

DEEPEST: Final = 3  # a delivery, a record's event, its rows
_RECORDS: Final = frozenset({"Records"})
_EVENT_BRIDGE: Final = frozenset({"detail-type", "detail", "source"})
_OPS: Final = frozenset({"op", "__op", "__deleted"})  # beside columns of such names


class Parts(Struct, frozen=True):
    """`count`: how many events there are; `repeated`: bytes of the whole that they hold together, each its own copy."""

    count: int
    events: Iterable[bytes]
    repeated: int = 0


def members(array: bytes, within: str, limits: EventLimits) -> list[Raw]:
    """The members of a JSON array of objects (or nulls), none of them decoded. Raises EventError bad_event, and
    RequestError 413 for more than a request may hold, before they are made."""
    if array.count(b",") >= limits.events and count_members(array, limits) is None:
        raise EventError("bad_event", f"`{within}` is not an array of objects")
    found: list[Raw] = decode(array, list[Raw], within=within)
    return found


def is_delivery(value: Value) -> bool:
    """Whether the event is a delivery of records, or of one event (`records`)."""
    names = value.fields.keys()
    return names == _RECORDS or (names >= _EVENT_BRIDGE and names.isdisjoint(_OPS))


class _Kinesis(Struct, frozen=True):
    data: str


class _Record(Struct, frozen=True):
    kinesis: _Kinesis | None = None


def records(value: Value, limits: EventLimits) -> Parts | None:
    """The records of a delivery as Lambda gets it from a stream, `{"Records": […]}`: of DynamoDB each is an event, of
    Kinesis each holds one in base64. The `detail` of an event of EventBridge. None for any other event. Raises
    EventError, RequestError.

    https://docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html, with-ddb.html
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html
    """
    if not is_delivery(value):
        return None
    if "Records" not in value.fields:
        return Parts(1, [bytes(value.fields["detail"])])
    found = members(bytes(value.fields["Records"]), "Records", limits)
    return Parts(len(found), _events(found))


def _events(found: Iterable[Raw]) -> Iterator[bytes]:
    for raw in found:
        text = bytes(raw)
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError, Base64Error, ValueError):
            record = msgspec.json.decode(text, type=_Record | None)
            if record is not None and record.kinesis is not None:
                text = b64decode(record.kinesis.data, validate=True)
        yield text  # what is wrong with it shows where it is read
