"""The envelopes, a line of ENVELOPES each. To add one: a module that ends with an `Envelope`, and its line here."""

from collections.abc import Mapping
from typing import Final

from firn.changes.change import Change, Ignored
from firn.changes.envelopes import cloudevents, debezium, flat, rows
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value
from firn.errors import EventError

AUTO: Final = "auto"
DEFAULT: Final = "debezium"
"""What `auto` takes an event without marks for."""

ENVELOPES: Final = {
    "debezium": debezium.ENVELOPE,
    "flat": flat.ENVELOPE,
    "cloudevents": cloudevents.ENVELOPE,
    "rows": rows.ENVELOPE,
}


class Registry:
    """Envelopes by name; their marks are looked for in this order.

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

    def bare(self, envelope: str) -> Envelope | None:
        """The envelope of that name if its events are all row."""
        found = self.envelopes.get(envelope)
        return found if found is not None and found.bare else None

    def envelope_of(self, value: Value, envelope: str) -> str:
        """Which envelope to read the value by. `envelope`: as the stream says. Raises EventError missing_op if the
        value shows another one."""
        seen = DEFAULT
        for name, marks in self._marked:
            if not marks.isdisjoint(value.fields):
                seen = name
                break
        if envelope in (AUTO, seen):
            return seen
        if not self.foreign[envelope].isdisjoint(value.fields):
            what = self.envelopes[seen].seen
            raise EventError("missing_op", f"{what}: write `envelope: {seen}` (or auto) for this stream")
        return envelope

    def read(self, value: Value, envelope: str) -> Change | Ignored:
        """The change of one event, or why it is ignored. Raises EventError."""
        return self.envelopes[self.envelope_of(value, envelope)].read(value)


KNOWN = Registry(ENVELOPES)
