"""Plain rows: each event is the row itself, a JSON object with no more than its columns.

Nothing is taken off it, whatever its members are called: `{"value": 1}` is a row of the column `value`. What a row does
not say of itself (its table, whether it is a delete, its place in the order) follows from the request and the stream's
settings: firn.ingest.reading.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw

from firn.changes.change import ROWS, Change
from firn.changes.envelopes.columnar_events import Columns
from firn.changes.envelopes.envelope import Envelope
from firn.changes.envelopes.event_reader import Value

_OBJECT: Final = b"{"[0]


def value_type(_connector: str, _foreign: frozenset[str]) -> Any:
    """What many rows are decoded into: themselves."""
    return Raw


def connector_of(_value: Value) -> str:
    """Always the same."""
    return ROWS


def columns(raws: Sequence[Raw], _destinations: Sequence[str | None], _connector: str) -> Columns:
    """The columns of many rows, each of them written to a table yet to be told."""
    rows = list(map(bytes, raws))
    nothing: list[Any] = [None] * len(rows)
    return Columns(
        op=["c"] * len(rows),
        table=[""] * len(rows),
        ts=nothing,
        connector=[ROWS] * len(rows),
        order=nothing,
        tx_order=nothing,
        emitted=nothing,
        before=nothing,
        after=list(rows),
        irregular=[place for place, row in enumerate(rows) if row[0] != _OBJECT],
    )


def read(value: Value) -> Change:
    """One row."""
    return Change("c", "", None, ROWS, None, None, None, False, None, None, value.text, None)


def table_hint(_value: Value) -> str | None:
    """No row names its table."""
    return None


ENVELOPE = Envelope("this is a row", connector_of, value_type, columns, read, table_hint, counted=True, bare=True)
