"""What became of a batch: staged, sealed in epoch n, committed in these snapshots. Read from the log alone."""

from typing import Literal

import msgspec

from firn.staging import cuts, epochs, layout, quarantine
from firn.staging.batch import read_meta
from firn.staging.store import Store


class BatchStatus(msgspec.Struct, frozen=True):
    """The answer of `GET /v1/batches/{id}`. `snapshots`: every table of the cut that holds the batch, or None."""

    batch_id: str
    stream: str
    state: Literal["staged", "sealed", "committed"]
    received_at: str
    accepted: int
    rejected: int
    ignored: dict[str, int]
    dead_letters: int
    tables: dict[str, int]  # source table -> rows
    epoch: int | None = None
    cut: int | None = None
    snapshots: dict[str, int] | None = None


def batch_status(store: Store, batch: str) -> BatchStatus | None:
    """The batch's state, None if no such batch is staged. Raises StorageUnavailable, UnreadableBatch."""
    if not layout.is_batch_id(batch):
        return None
    meta = read_meta(store, layout.staged_path(batch))
    if meta is None:
        return None
    epoch = epochs.epoch_of(store, batch)
    held = epoch is not None and epoch.n in quarantine.read_epochs(store, epoch.stream)  # cuts go past it
    cut = None if epoch is None or held else cuts.covering(store, epoch.stream, epoch.n)
    return BatchStatus(
        batch_id=batch,
        stream=meta.stream,
        state="staged" if epoch is None else "sealed" if cut is None else "committed",
        received_at=meta.received_at,
        accepted=meta.accepted,
        rejected=meta.rejected,
        ignored=meta.ignored,
        dead_letters=meta.rejected,
        tables=meta.tables,
        epoch=None if epoch is None else epoch.n,
        cut=None if cut is None else cut.n,
        snapshots=None if cut is None else cut.tables,
    )
