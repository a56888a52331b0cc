"""What an envelope is to Firn: each module of one ends with an `Envelope`, and registry.py lists them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Raw, Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.columnar_events import Columns
from firn.changes.envelopes.event_reader import Value
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parts import Parts

ValueType = Callable[[str, frozenset[str]], Any]


class Envelope(Struct, frozen=True):
    """One envelope. An event of it is read in two ways that give the same answer: many at once, or alone. `alone` makes
    one whose events are only read alone, which takes some 20 µs each.

    seen          what to say of an event of it that comes as another one: "this is a CloudEvent"
    connector_of  a value -> whose `source` to expect, "" if it does not say; raises EventError
    value_type    connector, members that an event of it never has -> what many values are decoded into; None: each is
                  read alone
    columns       those values, their records' destinations, connector -> the columns of their changes
    read          one value -> its change, or why it is ignored; raises EventError that says what is wrong
    table_hint    a value that can't be read -> the source table that it names, None if none can be told; may raise
                  EventError, msgspec's errors, UnicodeError
    marks         members by which `auto` recognises an event of it, and that none of another envelope has
    strict        whether numbers come as numbers; False: as text too
    flat          whether the row is the event itself, with metadata among the columns
    counted       whether an event takes much memory when it is decoded, however small it was
    bare          whether an event is all row: it has no record, inline schema or marker, and `auto` never sees one
    exact_type    as value_type, quicker, for events that all have a known op and this connector; tried first
    recognises    in place of marks: whether an event with these members, and none of `op` and anybody's marks, is one
                  of it. No event is recognised by two envelopes
    parts         the events that an event of it holds, each of which is read alone; None if it is one itself. Raises
                  EventError, and RequestError 413 for more than a request may hold
    may_lack_table  whether events of it may leave out which table they are of: the request says it, or the stream has
                  only one. The table of such a change is ""
    """

    seen: str
    connector_of: Callable[[Value], str]
    value_type: ValueType | None
    columns: Callable[[Sequence[Any], Sequence[str | None], str], Columns]
    read: Callable[[Value], Change | Ignored]
    table_hint: Callable[[Value], str | None]
    marks: frozenset[str] = frozenset()
    strict: bool = True
    flat: bool = False
    counted: bool = False
    bare: bool = False
    exact_type: ValueType | None = None
    recognises: Callable[[Mapping[str, Raw]], bool] | None = None
    parts: Callable[[Value, EventLimits], Parts | None] | None = None
    may_lack_table: bool = False


def alone(
    seen: str,
    read: Callable[[Value], Change | Ignored],
    table_hint: Callable[[Value], str | None],
    recognises: Callable[[Mapping[str, Raw]], bool],
    parts: Callable[[Value, EventLimits], Parts | None] | None = None,
    *,
    may_lack_table: bool = False,
) -> Envelope:
    """An envelope whose events are read one by one."""
    return Envelope(
        seen, _any, None, _none, read, table_hint,
        recognises=recognises, parts=parts, may_lack_table=may_lack_table,
    )  # fmt: skip


def _any(_value: Value) -> str:
    return ""


def _none(_values: Sequence[Any], _destinations: Sequence[str | None], _connector: str) -> Columns:
    raise NotImplementedError("events of this envelope are read alone")
