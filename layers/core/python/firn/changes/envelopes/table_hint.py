"""What can still be told of an event that can't be taken: the table it is about."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw

from firn.changes.envelopes import cloudevents
from firn.changes.envelopes.event_reader import Value, unwrap
from firn.changes.envelopes.sources import MongoDb, MySql, source_type
from firn.errors import EventError


def table_named_in(element: bytes) -> str | None:
    """The source table that a broken event names, as `Change.table` writes it; None if it can't be told.

    Each name is read on its own, so that what is wrong elsewhere in the event does not matter. Never raises.
    """
    try:
        value = unwrap(element)
        if not isinstance(value, Value):
            return None
        source = value.raw("source")
        if source is not None:
            return _table(msgspec.json.decode(source, type=dict[str, Raw]), "{}".format)
        if "specversion" in value.fields:
            return _table(value.fields, cloudevents.attribute)
        return _table(value.fields, "__{}".format)
    except (EventError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _table(fields: Mapping[str, Raw], spelled: Callable[[str], str]) -> str | None:
    def name(field: str) -> str | None:
        raw = fields.get(spelled(field))
        try:
            return None if raw is None else msgspec.json.decode(raw, type=str | None)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    kind = source_type(name("connector") or "")
    table = name("collection" if kind is MongoDb else "table")
    schema = name("db" if kind in (MySql, MongoDb) else "schema")
    return f"{schema}.{table}" if schema and table else table or None
