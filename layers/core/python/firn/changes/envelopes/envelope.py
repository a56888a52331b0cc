"""What an envelope is to Firn: each module of one ends with an `Envelope`, and registry.py lists them."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from firn.changes.change import Change, Ignored
from firn.changes.envelopes.columnar_events import Columns
from firn.changes.envelopes.event_reader import Value

ValueType = Callable[[str, frozenset[str]], Any]


class Envelope(Struct, frozen=True):
    """One envelope. An event of it is read in two ways that give the same answer: many at once, or alone.

    seen          what to say of an event of it that comes as another one: "this is a CloudEvent"
    connector_of  a value -> whose `source` to expect, "" if it does not say; raises EventError
    value_type    connector, members that an event of it never has -> what many values are decoded into
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
    """

    seen: str
    connector_of: Callable[[Value], str]
    value_type: ValueType
    columns: Callable[[Sequence[Any], Sequence[str | None], str], Columns]
    read: Callable[[Value], Change | Ignored]
    table_hint: Callable[[Value], str | None]
    marks: frozenset[str] = frozenset()
    strict: bool = True
    flat: bool = False
    counted: bool = False
    bare: bool = False
    exact_type: ValueType | None = None
