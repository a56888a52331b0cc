"""What a mirror holds of an emitter's requests, without a lake: read as ingest does, placed, decoded and folded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from firn.changes.change import COLUMNS, Parsed
from firn.changes.decode.inference import seen_in
from firn.changes.decode.row_decoder import READ, Decoding
from firn.changes.decode.types import STRING, Column, storable
from firn.changes.envelopes.limits import NO_LIMITS
from firn.changes.envelopes.registry import KNOWN
from firn.changes.merge.decoded_rows import BATCH, CODE, decoded, row_change, truncates
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.config.model import StreamConfig, TableRule
from firn.ingest import reading
from tests.memory_table import MemoryTable

Table = Mapping[Key, Mapping[str, Any]]


def stream(envelope: str, order_by: tuple[str, ...] = ()) -> StreamConfig:
    """A stream that takes every table."""
    rules = (TableRule("*", "lake.{table}"),)
    table_by = "table" if KNOWN.bare(envelope) else None
    return StreamConfig("s", rules, envelope=envelope, order_by=order_by, table_by=table_by)


def read(body: bytes, settings: StreamConfig, batch: int = 0) -> Parsed:
    """The changes of one request; `batch`: its number."""
    return reading.read(body, settings, "auto", NO_LIMITS, f"s.{batch:028x}")


def table_of(
    bodies: Sequence[bytes], settings: StreamConfig, key: Sequence[str], columns: Sequence[Column] | None = None
) -> Table:
    """The table of one source table's requests, in the order in which they came. `columns`: what types it has; None:
    what the images show. Every event is taken."""
    changes: list[dict[str, Any]] = []
    for number, body in enumerate(bodies):
        parsed = read(body, settings, number)
        assert not parsed.rejected, parsed.rejected
        changes += _placed(parsed, number, settings)
    images = [one[side].encode() for one in changes for side in ("before", "after", "key") if one[side] is not None]
    shown = columns if columns is not None else [Column(one.name, storable(one.type)) for one in seen_in(images)]
    shown = [*shown, *(Column(name, STRING) for name in key if name not in {one.name for one in shown})]
    places = {column.name: place for place, column in enumerate(shown)}
    decoding = Decoding(tuple(shown), tuple(places[name] for name in key), settings.settings)
    good, rejected = decoded(changes, decoding, mirror=True)
    assert not rejected, rejected
    told: list[RowChange] = [row_change(row, decoding) for row in good] + truncates(changes, {})
    table, batches = MemoryTable(), [str(number) for number in range(len(bodies))]
    of = [(row[BATCH], row_change(row, decoding)) for row in good]
    emptied = [(one["batch"], truncate) for one in changes for truncate in truncates([one], {})]
    for batch in batches:
        table.commit([change for number, change in (*of, *emptied) if number == batch])
    found = _shown(fold({}, told).rows)
    assert _shown(table.live) == found, "the row engine says what the specification says"
    return found


def _shown(rows: Mapping[Key, Row]) -> Table:
    return {key: {name: one for name, one in row.values.items() if one is not None} for key, row in rows.items()}


def decoded_of(parsed: Parsed, number: int, settings: StreamConfig) -> tuple[int, Counter[str]]:
    """How many decoded rows of a request are good, for a mirror and an append table; and why others are not."""
    changes = _placed(parsed, number, settings)
    images = [one[side].encode() for one in changes for side in ("before", "after") if one[side] is not None]
    shown = [Column("id", STRING), *(Column(one.name, storable(one.type)) for one in seen_in(images))]
    decoding = Decoding(tuple({one.name: one for one in reversed(shown)}.values()), (0,), settings.settings)
    both = [decoded(changes, decoding, mirror=mirror) for mirror in (True, False)]
    return sum(len(good) for good, _ in both), Counter(row[CODE] for _, bad in both for row in bad)


def _placed(parsed: Parsed, number: int, settings: StreamConfig) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = {name: getattr(parsed, name) for name in COLUMNS}
    columns |= {name: [one and one.decode() for one in columns[name]] for name in ("before", "after", "key")}
    nothing: list[Any] = [None] * len(parsed)
    by = Order(settings.generation, settings.order_by)
    where = placed({name: columns.get(name, nothing) for name in PLACED_BY} | {"ts": columns["ts"]}, number, by)
    whole = columns | where | {"epoch": nothing, "batch": [str(number)] * len(parsed), "origin": nothing}
    whole |= {"schema_id": nothing}
    return [dict(zip(READ, row, strict=True)) for row in zip(*(whole[name] for name in READ), strict=True)]
