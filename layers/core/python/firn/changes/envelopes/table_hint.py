"""What can still be told of an event that can't be taken: the table it is about."""

import msgspec

from firn.changes.envelopes import registry
from firn.changes.envelopes.event_reader import Value, unwrap
from firn.errors import EventError

_UNREADABLE = (EventError, msgspec.MsgspecError, UnicodeError, RecursionError)


def table_named_in(element: bytes) -> str | None:
    """The source table that a broken event names, as `Change.table` writes it; None if it can't be told.

    Each name is read on its own, so that what is wrong elsewhere in the event does not matter. Never raises.
    """
    try:
        value = unwrap(element)
    except _UNREADABLE:
        return None
    if isinstance(value, Value):
        for envelope in registry.KNOWN.envelopes.values():
            try:
                table = envelope.table_hint(value)
            except _UNREADABLE:
                continue
            if table is not None:
                return table
    return None
