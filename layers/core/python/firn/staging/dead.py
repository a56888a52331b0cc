"""Dead letters: events that can't be taken, kept with their reason and original bytes, as Parquet under `dead/`.

Columns: `_dlq_reason` (a code), `_dlq_message` (for people), `stream`, `table`, `batch`, `index`, `received_at`
(timestamp, ms, UTC), `original` (binary: the event's bytes as sent). Ingest and the commit job write the same.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from arro3.core import Array, DataType, Field, RecordBatch, Schema
from arro3.io import read_parquet

from firn.staging.batch import FORMAT, parquet
from firn.staging.store import Store, get, put_if_absent

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
}
_NULLABLE: Final = frozenset({"table"})
_SCHEMA: Final = Schema([Field(name, kind, nullable=name in _NULLABLE) for name, kind in _COLUMNS.items()])
_ENCODING: Final = {"compression": "zstd(1)"}


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


def write_dead(store: Store, path: str, letters: Sequence[DeadLetter]) -> bool:
    """Put `letters` at `path` if absent (layout.batch_dead_path, layout.dead_path). No letters: nothing is written.

    -> False if other bytes were there first. Raises StorageUnavailable, UnknownOutcome.
    """
    return not letters or put_if_absent(store, path, dead_bytes(letters))


def dead_bytes(letters: Sequence[DeadLetter]) -> bytes:
    """`letters` as a Parquet file; the same letters give the same bytes."""
    columns: dict[str, list[Any]] = {
        "_dlq_reason": [x.reason for x in letters],
        "_dlq_message": [x.message for x in letters],
        "stream": [x.stream for x in letters],
        "table": [x.table for x in letters],
        "batch": [x.batch for x in letters],
        "index": [x.index for x in letters],
        "received_at": [(x.received_at - _START) // timedelta(milliseconds=1) for x in letters],
        "original": [x.original for x in letters],
    }
    arrays = [
        Array(columns[name], DataType.int64()).cast(kind) if kind == _TIME else Array(columns[name], kind)
        for name, kind in _COLUMNS.items()
    ]
    metadata = {"firn": msgspec.json.encode({"format": FORMAT, "dead": len(letters)}).decode()}
    return parquet(RecordBatch.from_arrays(arrays, schema=_SCHEMA), metadata, _ENCODING)


def read_dead(store: Store, path: str) -> list[DeadLetter]:
    """The dead letters at `path`, [] if there is no object. Raises StorageUnavailable."""
    data = get(store, path)
    if data is None:
        return []
    table = read_parquet(data).read_all()
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    return [
        DeadLetter(reason, message, stream, source, batch, index, _instant(when), original)
        for reason, message, stream, source, batch, index, when, original in zip(*columns, strict=True)
    ]


def _instant(value: Any) -> datetime:
    return value if isinstance(value, datetime) else _START + timedelta(milliseconds=int(value))
