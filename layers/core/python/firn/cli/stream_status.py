"""The state of each stream, read from the log and the tables alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from firn.errors import ConfigError
from firn.staging import configs, cuts, epochs, layout
from firn.staging.dead import read_dead
from firn.staging.store import Store, get, listing
from firn.streams.config import StreamConfig

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from firn_lake.tables import TableSummary


@dataclass(frozen=True)
class StreamStatus:
    """One stream. `pending`: staged and in no epoch; `sealed`: in an epoch, in no cut. `notes` are for people."""

    stream: str
    pending_events: int
    pending_batches: int
    sealed_events: int
    sealed_epochs: int
    committed_epoch: int
    committed_at: datetime | None
    dead_letters: int
    keyless_tables: tuple[str, ...]
    without_position: bool
    notes: tuple[str, ...]


def stream_statuses(store: Store, catalog: "Catalog", now: datetime) -> list[StreamStatus]:
    """The status of every configured stream, by name; [] if no configuration is published.

    Raises StorageUnavailable, UnreadableBatch.
    """
    from firn_lake.tables import list_tables

    try:
        config = configs.load(store, configs.current_sha(store))
    except ConfigError:
        return []
    tables = list_tables(catalog)
    return [
        _status(store, config.streams[name], [one for one in tables if one.stream == name], now)
        for name in sorted(config.streams)
    ]


def _status(store: Store, settings: StreamConfig, tables: "Sequence[TableSummary]", now: datetime) -> StreamStatus:
    stream = settings.name
    committed = cuts.newest(store, stream)
    cut = cuts.read(store, stream, committed) if committed else None
    free = epochs.candidates(store, stream, now, above=committed)
    open_epochs = [epochs.read(store, stream, n) for n in epochs.numbers(store, stream, committed)]
    dead = _dead_letters(store, stream)
    keyless = tuple(one.name for one in tables if one.mode == "append" and not one.key)
    ordered = settings.order_by is not None
    positionless = not ordered and _without_position(store, stream, [batch.path for batch in free.batches])
    notes = []
    if positionless:
        notes.append(
            "its events have no position, so changes count in their order of arrival: duplicated or delayed events can "
            "make older values win (give the stream order_by, if the rows hold a version)"
        )
    if keyless:
        notes.append(
            f"no key for {', '.join(keyless)}: every change is appended, with _firn_op (write key: […] in firn.yaml "
            "for a mirror)"
        )
    if dead:
        notes.append(f"{dead:,} dead letters, with reason and original, below dead/{stream}/ in the staging store")
    return StreamStatus(
        stream=stream,
        pending_events=sum(batch.events for batch in free.batches),
        pending_batches=len(free.batches),
        sealed_events=sum(epoch.events for epoch in open_epochs if epoch),
        sealed_epochs=len(open_epochs),
        committed_epoch=committed,
        committed_at=datetime.fromisoformat(cut.made_at) if cut else None,
        dead_letters=dead,
        keyless_tables=keyless,
        without_position=positionless,
        notes=tuple(notes),
    )


def _dead_letters(store: Store, stream: str) -> int:
    return sum(len(read_dead(store, path)) for path, _ in listing(store, layout.dead_prefix(stream)))


def _without_position(store: Store, stream: str, staged: Sequence[str]) -> bool:
    """Whether the newest staged batch holds changes without order fields."""
    from arro3.io import read_parquet

    path = staged[-1] if staged else _newest_sealed(store, stream)
    data = get(store, path) if path else None
    if data is None:
        return False
    rows = read_parquet(data).read_all()
    if "order" not in rows.column_names:  # null throughout
        return bool(rows.num_rows)
    return bool(rows.column("order").null_count)


def _newest_sealed(store: Store, stream: str) -> str | None:
    sealed = epochs.numbers(store, stream)
    epoch = epochs.read(store, stream, sealed[-1]) if sealed else None
    return epoch.batches[-1].path if epoch and epoch.batches else None
