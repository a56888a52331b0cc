"""Dead letters: events that can't be taken, kept with their reason and original bytes, as Parquet under `dead/`.

Columns (format 2): `_dlq_reason` (a code), `_dlq_message` (for people), `stream`, `table`, `batch`, `index`,
`received_at` (timestamp, ms, UTC), `original` (binary: the event's bytes as sent, or put together again), `change`
(JSON of StagedChange, for an event that was read well and refused later: a replay stages it as it was),
`generation` (the stream's when it died), `record` (JSON of firn.changes.record.Record: of an event that a record of a
stream held, which says where it stands), `writer` (the name of who sent it, if that may write a part of the stream
only: a replay holds it to the same). Format 1 has no `change` and no `generation`; both formats may lack `record` and
`writer`.

The footer's entry `firn` counts the letters by table and reason, so that nobody has to read them to count them.
Ingest and the commit job write the same.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from arro3.core import Array, DataType, Field, RecordBatch, Schema
from arro3.io import read_parquet

from firn.changes.change import ROWS, Change, Parsed
from firn.changes.record import Record
from firn.log.batches import UnreadableBatch, entry_of, parquet, read_footer
from firn.log.store import Store, get, put_if_absent

DEAD_FORMAT: Final = 2
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = DataType.timestamp("ms", tz="UTC")
_COLUMNS: Final = {
    "_dlq_reason": DataType.string(),
    "_dlq_message": DataType.string(),
    "stream": DataType.string(),
    "table": DataType.string(),
    "batch": DataType.string(),
    "index": DataType.int32(),
    "received_at": _TIME,
    "original": DataType.binary(),
    "change": DataType.binary(),
    "generation": DataType.int64(),
    "record": DataType.binary(),
    "writer": DataType.string(),
}
_NULLABLE: Final = frozenset({"table", "change", "generation", "record", "writer"})
_FIELDS: Final = {name: Field(name, kind, nullable=name in _NULLABLE) for name, kind in _COLUMNS.items()}
_ENCODING: Final = {"compression": "zstd(1)"}

Counts = Counter[tuple[str | None, str]]  # (source table, reason) -> letters


class StagedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change as the staged batch holds it (docs/architecture.md); images are JSON text, byte for byte.

    `occurrence` and `origin` are those of changes/merge/ordering.py; None: they follow from where the change stands.
    """

    table: str
    op: str
    connector: str = ""
    order: str | None = None
    ts: int | None = None
    tx_order: int | None = None
    emitted: int | None = None
    flat: bool = False
    key: str | None = None
    before: str | None = None
    after: str | None = None
    schema: str | None = None
    occurrence: int | None = None
    origin: str | None = None
    transaction: str | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """One event that can't be taken. `index` is its place in the batch `batch`, `table` None where it names none."""

    reason: str
    message: str
    stream: str
    table: str | None
    batch: str
    index: int
    received_at: datetime  # aware
    original: bytes
    change: StagedChange | None = None
    generation: int | None = None
    record: Record | None = None
    writer: str | None = None


class _Footer(msgspec.Struct, frozen=True):
    format: int
    dead: int
    counts: list[tuple[str | None, str, int]] = []


_decode_change: Final = msgspec.json.Decoder(StagedChange).decode
_decode_record: Final = msgspec.json.Decoder(Record).decode
_decode_footer: Final = msgspec.json.Decoder(_Footer).decode
_encode: Final = msgspec.json.encode


def write_dead(store: Store, path: str, letters: Sequence[DeadLetter]) -> bool:
    """Put `letters` at `path` if absent (layout.batch_dead_path, layout.dead_path). No letters: nothing is written.

    -> False if other bytes were there first. Raises StorageUnavailable, UnknownOutcome.
    """
    return not letters or put_if_absent(store, path, dead_bytes(letters))


def dead_bytes(letters: Sequence[DeadLetter]) -> bytes:
    """`letters` as a Parquet file; the same letters give the same bytes."""
    columns = {name: [getattr(x, name.removeprefix("_dlq_")) for x in letters] for name in _COLUMNS}
    columns["received_at"] = [(when - _START) // timedelta(milliseconds=1) for when in columns["received_at"]]
    for name in ("change", "record"):
        columns[name] = [None if value is None else _encode(value) for value in columns[name]]
    for name in ("record", "writer"):
        if not any(columns[name]):
            del columns[name]  # as before there were such
    arrays = [
        Array(values, DataType.int64()).cast(kind) if kind == _TIME else Array(values, kind)
        for values, kind in ((values, _COLUMNS[name]) for name, values in columns.items())
    ]
    by = sorted(counted(letters).items(), key=lambda one: (one[0][0] or "", one[0][1]))
    footer = _Footer(DEAD_FORMAT, len(letters), [(table, reason, n) for (table, reason), n in by])
    schema = Schema([_FIELDS[name] for name in columns])
    return parquet(RecordBatch.from_arrays(arrays, schema=schema), {"firn": _encode(footer).decode()}, _ENCODING)


def read_dead(store: Store, path: str) -> list[DeadLetter]:
    """The dead letters at `path`, [] if there is no object. Raises StorageUnavailable, UnreadableBatch."""
    data = get(store, path)
    if data is None:
        return []
    if data[-4:] != b"PAR1":
        raise UnreadableBatch(f"{path} is not a Parquet file: move it out of dead/, it was not written by Firn")
    _checked(entry_of(_decode_footer, data[-8 - int.from_bytes(data[-8:-4], "little") :], path), path)
    table = read_parquet(data).read_all()
    there = set(table.column_names)
    columns = {name: table.column(name).to_pylist() if name in there else [None] * table.num_rows for name in _COLUMNS}
    columns["received_at"] = [_instant(when) for when in columns["received_at"]]
    columns["change"] = [None if text is None else _decode_change(text) for text in columns["change"]]
    columns["record"] = [None if text is None else _decode_record(text) for text in columns["record"]]
    return [DeadLetter(*row) for row in zip(*columns.values(), strict=True)]


def count_dead(store: Store, path: str, size: int | None = None) -> tuple[int, Counts]:
    """How many letters `path` holds, and by table and reason (empty for format 1, which does not say). From the footer.

    `size` in bytes, if known, saves a read. (0, {}) if there is no object. Raises StorageUnavailable, UnreadableBatch.
    """
    footer = read_footer(store, path, size)
    if footer is None:
        return 0, Counter()
    found = _checked(entry_of(_decode_footer, footer, path), path)
    return found.dead, Counter({(table, reason): n for table, reason, n in found.counts})


def counted(letters: Iterable[DeadLetter]) -> Counts:
    """`letters` by (source table, reason)."""
    return Counter((x.table, x.reason) for x in letters)


def staged_change(change: Change) -> StagedChange:
    """A change that was read, as a letter keeps it. Raises UnicodeError if an image is not UTF-8."""

    def text(raw: bytes | None) -> str | None:
        return None if raw is None else raw.decode()

    return StagedChange(
        table=change.table, op=change.op, connector=change.connector, order=change.order, ts=change.ts,
        tx_order=change.tx_order, emitted=change.emitted, flat=change.flat, key=text(change.key),
        before=text(change.before), after=text(change.after), schema=text(change.schema),
        transaction=change.transaction,
    )  # fmt: skip


def change_at(parsed: Parsed, row: int) -> Change:
    """The change in a row of `parsed`."""
    return Change(**{name: getattr(parsed, name)[row] for name in Change.__struct_fields__})


def rebuilt(change: StagedChange) -> bytes:
    """The change as an event for people to look at: its images are the bytes that the source sent.

    A flattened event, or a plain row, is its image; the others are put together again from what is kept, as Debezium
    writes them.
    """
    image = change.after or change.before
    if (change.flat or change.connector == ROWS) and image is not None:
        value: Any = _raw(image)
    else:
        schema, _, table = change.table.rpartition(".")
        value = {
            "before": _raw(change.before),
            "after": _raw(change.after),
            "source": {
                "connector": change.connector, "schema": schema or None, "table": table, "ts_ms": change.ts,
                "sequence": change.order,
            },
            "op": change.op,
        }  # fmt: skip
    return _encode(value if change.schema is None else {"schema": _raw(change.schema), "payload": value})


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw((text or "null").encode())


def _checked(footer: _Footer, path: str) -> _Footer:
    if footer.format > DEAD_FORMAT:
        raise UnreadableBatch(
            f"{path} has format {footer.format}, this Firn reads up to {DEAD_FORMAT}: update this side first"
        )
    return footer


def _instant(value: Any) -> datetime:
    return value if isinstance(value, datetime) else _START + timedelta(milliseconds=int(value))
