"""The envelopes, a line of ENVELOPES each. To add one: a module that ends with an `Envelope`, and its line here."""

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from firn.changes.change import Change, Ignored
from firn.changes.envelopes import (
    airbyte,
    canal,
    cloudevents,
    debezium,
    dms,
    dynamodb,
    flat,
    hasura,
    maxwell,
    mongodb,
    rows,
    seed,
    sequin,
    supabase,
    wal2json,
)
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parts import Parts, records
from firn.errors import EventError

AUTO: Final = "auto"
DEFAULT: Final = "debezium"
"""What `auto` takes an event without marks for."""

ENVELOPES: Final = {
    "debezium": debezium.ENVELOPE,
    "flat": flat.ENVELOPE,
    "cloudevents": cloudevents.ENVELOPE,
    "rows": rows.ENVELOPE,
    "maxwell": maxwell.ENVELOPE,
    "canal": canal.ENVELOPE,
    "wal2json": wal2json.ENVELOPE,
    "dms": dms.ENVELOPE,
    "dynamodb": dynamodb.ENVELOPE,
    "mongodb": mongodb.ENVELOPE,
    "sequin": sequin.ENVELOPE,
    "supabase": supabase.ENVELOPE,
    "hasura": hasura.ENVELOPE,
    "airbyte": airbyte.ENVELOPE,
    "seed": seed.ENVELOPE,
}


class Registry:
    """Envelopes by name; their marks are looked for in this order, and then those that recognise an event without `op`,
    which is Debezium's.

    names    what a stream's `envelope` may be
    foreign  by name: members that an event of it never has, the marks of those that are looked for before it
    """

    def __init__(self, envelopes: Mapping[str, Envelope]) -> None:
        self.envelopes = envelopes
        self.names = (*envelopes, AUTO)
        self._marked = [(name, one.marks) for name, one in envelopes.items() if one.marks]
        marks: frozenset[str] = frozenset()
        self.foreign: dict[str, frozenset[str]] = {}
        for name, own in self._marked:
            self.foreign[name] = marks
            marks |= own
        self.foreign |= {name: marks for name in envelopes if name not in self.foreign}
        shaped = [(name, one) for name, one in envelopes.items() if one.recognises is not None]
        # Rows first: their columns may be called like another's members, and no other has what they are known by.
        shaped.sort(key=lambda named: not named[1].may_lack_table)
        self._shaped = [(name, one.recognises) for name, one in shaped if one.recognises is not None]

    def bare(self, envelope: str) -> Envelope | None:
        """The envelope of that name if its events are all row."""
        found = self.envelopes.get(envelope)
        return found if found is not None and found.bare else None

    def envelope_of(self, value: Value, envelope: str) -> str:
        """Which envelope to read the value by. `envelope`: as the stream says. Raises EventError missing_op if the
        value shows another one."""
        own = self.envelopes.get(envelope)
        if own is not None and own.recognises is not None and own.recognises(value.fields):
            return envelope  # its events may be rows, with columns like another's members
        seen = self._shown(value.fields)
        if envelope in (AUTO, seen):
            return seen
        if not self.foreign[envelope].isdisjoint(value.fields) or self.envelopes[seen].recognises is not None:
            what = self.envelopes[seen].seen
            raise EventError("missing_op", f"{what}: write `envelope: {seen}` (or auto) for this stream")
        return envelope

    def is_shaped(self, envelope: str) -> bool:
        """Whether the events of that name are recognised by their shape: those of emitters other than Debezium."""
        return envelope != AUTO and self.envelopes[envelope].recognises is not None

    def may_lack_order(self, envelope: str) -> bool:
        """Whether changes of a stream with this envelope may be an emitter's that gives them no order, and that counts
        as they come (change.LITERAL)."""
        return envelope == AUTO or self.is_shaped(envelope)

    def may_lack_table(self, envelope: str) -> bool:
        """Whether events of a stream with this envelope may leave their table to the request."""
        found = self.envelopes.get(envelope)
        return any(one.may_lack_table for one in self.envelopes.values()) if found is None else found.may_lack_table

    def _shown(self, fields: Mapping[str, Raw]) -> str:
        for name, marks in self._marked:
            if not marks.isdisjoint(fields):
                return name
        if "op" not in fields:
            for name, recognises in self._shaped:
                if recognises(fields):
                    return name
        return DEFAULT

    def read(self, value: Value, envelope: str, limits: EventLimits) -> Change | Ignored | Parts:
        """The change of one event, why it is ignored, or the events that it holds. Raises EventError, RequestError."""
        if (parts := records(value, limits)) is not None:
            return parts
        form = self.envelopes[self.envelope_of(value, envelope)]
        parts = form.parts(value, limits) if form.parts is not None else None
        return form.read(value) if parts is None else parts


KNOWN = Registry(ENVELOPES)
