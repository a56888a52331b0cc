"""What of a stream waits for its commit: what is staged and in no epoch, and the epochs that no cut covers."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from firn.config.model import StreamConfig
from firn.config.table_sizes import TableSizes
from firn.errors import FirnError
from firn.log import backlog_gate, cuts, epochs, holds, layout
from firn.log.backlog_gate import State, WriterState
from firn.log.byte_rate import LUMPS, debt_after
from firn.log.epochs import EpochBatch
from firn.log.store import Store, modified, put
from firn.log.stored_sizes import stored_sizes

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backlog:
    """Batches in no epoch (`free`), and those (`sealed`) of the `epochs` epochs that wait.

    `first_of`: the oldest batch that may hold a change of each source table: an epoch says which tables it holds, not
    which of its batches does.
    """

    free: Sequence[EpochBatch]
    sealed: Sequence[EpochBatch]
    epochs: int
    first_of: Mapping[str, EpochBatch]

    @property
    def batches(self) -> list[EpochBatch]:
        """All of them."""
        return [*self.sealed, *self.free]

    @property
    def events(self) -> int:
        """Changes in all batches whose footers were read."""
        return sum(batch.events for batch in self.batches)

    @property
    def bytes(self) -> int:
        """Their size in the storage."""
        return sum(batch.bytes for batch in self.batches)

    @property
    def first(self) -> EpochBatch | None:
        """The oldest batch that holds a change; None if no change waits. Ids sort by the time of their receipt."""
        return min((batch for batch in self.batches if batch.events), key=_age, default=None)


def look(store: Store, stream: str, now: datetime, *, held: bool = False) -> Backlog:
    """The backlog of `stream`; `held`: with the quarantined epochs, which wait for a person and for no job.

    Raises StorageUnavailable, UnreadableBatch.
    """
    committed = cuts.newest(store, stream)
    cases = holds.read_epochs(store, stream)
    numbers = [n for n in epochs.numbers(store, stream, committed) if n not in cases]
    numbers += [n for n, case in cases.items() if held and case.lift is None]
    waiting = [epoch for n in numbers if (epoch := epochs.read(store, stream, n)) is not None]
    found = epochs.candidates(store, stream, now, above=committed)
    first_of: dict[str, EpochBatch] = {}
    for epoch in waiting:
        if with_changes := [batch for batch in epoch.batches if batch.events]:
            _keep_first(first_of, epoch.tables, min(with_changes, key=_age))
    for batch, meta in zip(found.batches, found.metas, strict=True):
        _keep_first(first_of, meta.tables, batch)
    sealed = [batch for epoch in waiting for batch in epoch.batches]
    return Backlog([*found.batches, *found.left], sealed, len(waiting), first_of)


def tell(store: Store, settings: StreamConfig, now: datetime) -> State | None:
    """Look, and write `state/{stream}.json`. -> what it says; None if it could not be written, which fails nobody."""
    try:
        found = look(store, settings.name, now)
        first = found.first
        oldest = modified(store, first.path) if first else None
        told = backlog_gate.judged(
            settings.name, len(found.batches), found.events, found.bytes, oldest, settings.backlog, now
        )
        if settings.rate or any(writer.has_quotas for writer in settings.writers.values()):
            told = _paced(store, settings, told, found, now)
        put(store, layout.state_path(settings.name), backlog_gate.encode(told))
    except FirnError as error:
        _log.warning("the state of %s is not written: %s", settings.name, error)
        return None
    return told


def _paced(store: Store, settings: StreamConfig, told: State, found: Backlog, now: datetime) -> State:
    """The state with the accounts of the stream's rate and of its writers' quotas: what was sealed since the one
    before. Raises StorageUnavailable, UnreadableBatch."""
    stream, rate = settings.name, settings.rate or 0
    before = backlog_gate.read(store, stream)
    if before is None or not (before.rate or before.counting):  # from here on
        before, counted, batches = None, max(epochs.numbers(store, stream), default=0), []
    else:
        sealed = epochs.numbers(store, stream, before.counted)
        counted = max(sealed, default=before.counted)
        batches = [batch for epoch in epochs.read_many(store, stream, sealed) for batch in epoch.batches]
    seconds = 0.0 if before is None else (now - datetime.fromisoformat(before.written_at)).total_seconds()
    debt = -float(LUMPS * rate)
    if before is not None and before.rate:
        debt = round(debt_after(before.debt, seconds, sum(batch.json for batch in batches), rate), 1)
    known = before.writers if before is not None and before.counting else {}
    stored = _over_storage(store, settings)
    writers = _writers(settings, known, seconds, _by_writer(batches), _by_writer(found.batches), stored)
    quotas = any(writer.has_quotas for writer in settings.writers.values())
    return replace(told, rate=rate, counted=counted, debt=debt if rate else 0.0, counting=quotas, writers=writers)


def _writers(
    settings: StreamConfig,
    before: Mapping[str, WriterState],
    seconds: float,
    taken: Mapping[str, int],
    waiting: Mapping[str, int],
    stored: Mapping[str, int],
) -> dict[str, WriterState]:
    """The accounts of the writers that have a quota and come near it. Pure."""
    found = {}
    for name, writer in settings.writers.items():
        full = -float(LUMPS * (writer.rate or 0))
        debt = full
        if writer.rate is not None:
            debt = before[name].debt if name in before else full
            debt = round(debt_after(debt, seconds, taken.get(name, 0), writer.rate), 1)
        over = writer.backlog is not None and waiting.get(name, 0) > writer.backlog
        if over or debt > full or name in stored:
            found[name] = WriterState(waiting.get(name, 0), debt, stored.get(name, 0))
    return found


def _over_storage(store: Store, settings: StreamConfig) -> dict[str, int]:
    """The writers over their `storage` -> what their tables take, as they were measured last.
    Raises StorageUnavailable."""
    bound = [writer for writer in settings.writers.values() if writer.storage is not None]
    if not bound:
        return {}
    tables = TableSizes(stored_sizes(store, (settings.name,)))
    found = {writer.name: tables.of(writer.stored_in) for writer in bound}
    return {one.name: found[one.name] for one in bound if one.storage is not None and found[one.name] > one.storage}


def _by_writer(batches: Iterable[EpochBatch]) -> Counter[str]:
    found: Counter[str] = Counter()
    for batch in batches:
        found.update(batch.writers)
    return found


def reopen(store: Store, settings: StreamConfig, now: datetime) -> None:
    """After a cut: tell again, if the stream was shut. An open one hears it from the next dispatch. Fails nobody."""
    try:
        before = backlog_gate.read(store, settings.name)
    except FirnError as error:
        _log.warning("whether %s is shut is not known: %s", settings.name, error)
        return
    full = {name: writer.backlog for name, writer in settings.writers.items() if writer.backlog is not None}
    if before is not None and (
        before.over or any(one.bytes > full.get(name, one.bytes) for name, one in before.writers.items())
    ):
        tell(store, settings, now)


def _keep_first(first_of: dict[str, EpochBatch], tables: Iterable[str], batch: EpochBatch) -> None:
    for table in tables:
        first_of[table] = min(first_of.get(table, batch), batch, key=_age)


def _age(batch: EpochBatch) -> str:
    return batch.id
