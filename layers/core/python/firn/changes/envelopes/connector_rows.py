"""Rows that some of Debezium's connectors write in a way of their own: MongoDB's documents, Spanner's changed columns.

MongoDB: documents travel as extended JSON in text; an update may hold `updateDescription` alone (documents.py). The key
is `{"id": "extended JSON of _id"}`.
Spanner: with the value capture type OLD_AND_NEW_VALUES, the connector's own, `before` and `after` of an update hold the
columns that changed, and null for the others. So a column that is null in both says nothing: if it was written, it was
null before too. https://cloud.google.com/spanner/docs/change-streams#value-capture-type
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from firn.changes.change import Change
from firn.changes.envelopes import documents
from firn.changes.envelopes.columnar_events import Columns, single
from firn.changes.envelopes.event_reader import Value, fields_of
from firn.changes.envelopes.extended_json import encode
from firn.changes.envelopes.update_description import read_update

_NULL: Final = b"null"


def read_alone(connector: str, ops: Sequence[str]) -> Sequence[int]:
    """The places of events whose rows need a look."""
    if connector == "mongodb":
        return range(len(ops))
    return [place for place, op in enumerate(ops) if op == "u"] if connector == "spanner" else ()


def change_of_row(columns: Columns, value: Value, connector: str, description: bytes | None, capture: str) -> Change:
    """The one change of one-row columns (columnar_events.single). `description`: MongoDB's `updateDescription`;
    `capture`: Spanner's value capture type. Raises EventError."""
    if connector == "mongodb":
        return _document(columns, value, description)
    change = single(columns, value, flat=False)
    if connector == "spanner" and change.op == "u" and capture == "OLD_AND_NEW_VALUES":
        return _without_unchanged(change)
    return change


def _document(columns: Columns, value: Value, description: bytes | None) -> Change:
    op = columns.op[0]
    named = single(structs.replace(columns, op=["t"], before=[None], after=[None]), value, flat=False)
    before = documents.image(columns.before[0], "before")
    after = documents.image(columns.after[0], "after")
    named = structs.replace(named, op=op, key=documents.debezium_key(value.key), schema=None)
    if op == "t":
        return named
    if op == "u":
        update = None if description is None else read_update(description, "updateDescription")
        return documents.updated(named, before, after, update, gone=False, patch=documents.DEBEZIUM_PATCH)
    return documents.whole(named, op, before, after)


def _without_unchanged(change: Change) -> Change:
    if change.before is None or change.after is None:
        return change
    before, after = fields_of(change.before, "`before`"), fields_of(change.after, "`after`")
    there = {name: one for name, one in after.items() if bytes(one) != _NULL or bytes(before.get(name, _NULL)) != _NULL}
    return change if len(there) == len(after) else structs.replace(change, after=encode(there))
