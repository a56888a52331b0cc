"""How long what is not committed has waited, by stream and by table."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from firn.config.model import StreamConfig
from firn.log import epochs
from firn.log.backlog import Backlog
from firn.log.cuts import Cut
from firn.log.epochs import EpochBatch
from firn.log.store import Store, modified
from firn.tables.routing import targets_of


def age(store: Store, batch: EpochBatch | None, now: datetime) -> float | None:
    """Seconds since the storage took it; None without a batch, or if its object is gone. The only place where this
    machine's clock stands in for the storage's: what is not committed has no second moment there."""
    taken = modified(store, batch.path) if batch else None
    return max(0.0, (now - taken).total_seconds()) if taken else None


def ages(store: Store, settings: StreamConfig, found: Backlog, cut: Cut | None, now: datetime) -> dict[str, float]:
    """The age of the oldest uncommitted change of each table that has one, by the table's name (namespace.table)."""
    known = {table: age(store, batch, now) for table, batch in sorted(oldest(store, settings, found, cut).items())}
    return {table: seconds for table, seconds in known.items() if seconds is not None}


def oldest(store: Store, settings: StreamConfig, found: Backlog, cut: Cut | None) -> dict[str, EpochBatch]:
    """The oldest batch that may hold an uncommitted change of each table that has one."""
    first: dict[str, EpochBatch] = {}
    for table, batch in (*_by_target(settings, found.first_of), *_left_behind(store, settings, cut)):
        first[table] = min(first.get(table, batch), batch, key=lambda one: one.id)
    return first


def _by_target(settings: StreamConfig, by_source: Mapping[str, EpochBatch]) -> Iterator[tuple[str, EpochBatch]]:
    for source, batch in by_source.items():
        for target in targets_of(settings, source):  # none if it is filtered or refused
            yield str(target), batch


def _left_behind(store: Store, settings: StreamConfig, cut: Cut | None) -> Iterator[tuple[str, EpochBatch]]:
    """The quarantined tables that the cut went past, each with the oldest batch of the first epoch that it lacks."""
    if cut is None:
        return
    for table in cut.quarantined:
        for n in range(1 + cut.progress.get(table, 0), cut.n + 1):
            epoch = epochs.read(store, settings.name, n)
            changes = [batch for batch in epoch.batches if batch.events] if epoch else []
            if epoch and changes:
                oldest = min(changes, key=lambda one: one.id)
                mine = [name for name, _ in _by_target(settings, dict.fromkeys(epoch.tables, oldest)) if name == table]
                if mine:
                    yield table, oldest
                    break
