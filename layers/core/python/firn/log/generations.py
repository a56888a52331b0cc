"""Which generation each staged batch counts under, and what the log holds of lower ones
(docs/adr/0034-generations.md).

A batch counts under the generation that its stream had in the configuration of the first epoch that names it. Epochs
that a restored source held count under the generation that let them go on. Both are facts of the log, so every reader
of it says the same at any time.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Final

from firn.changes.redelivery import Early
from firn.config.model import StreamConfig
from firn.log import epochs, holds, published_configs
from firn.log.epochs import SKEW, Epoch
from firn.log.holds import Quarantines
from firn.log.store import Store

LOG_KEPT: Final = timedelta(days=15)  # the staged log's 14 days, and one for those who sweep it late
_MS: Final = timedelta(milliseconds=1)


class Generations:
    """The generations of one stream, as a job, a rebuild or a fresh read looks at them once. Where the stream's
    generation was never raised nothing is read. Its methods raise ConfigError, StorageUnavailable, UnreadableBatch."""

    def __init__(self, store: Store, settings: StreamConfig, last: int) -> None:
        """`settings`: the stream's in the newest configuration; `last`: the last epoch that is looked at."""
        self._store, self._settings, self._last = store, settings, last
        self._by_config: dict[str, int] = {}

    def of(self, sealed: Iterable[Epoch]) -> dict[str, int]:
        """The generation of each batch of these epochs, by batch id."""
        return {batch.id: self.of_batch(batch.id, epoch.n) for epoch in sealed for batch in epoch.batches}

    def of_batch(self, batch: str, epoch: int | None) -> int:
        """The generation of a batch that this epoch names; None: that the next one would."""
        if not self._settings.generation:
            return 0
        first = self._named_first.get(batch, epoch)
        return self._settings.generation if first is None else self._of_epoch(first)

    def until(self, generations: Iterable[int]) -> int | None:
        """The source time (ms) up to which changes of batches of these generations may have come before, under a lower
        one; None: the log holds nothing of a lower one."""
        top = max(generations, default=0)
        if not top or (before := self._before(top)) is None:
            return None
        newest = epochs.read(self._store, self._settings.name, self._last) or before
        return _ms(before) + SKEW // _MS if newest.time - before.time <= LOG_KEPT + 2 * SKEW else None

    def holding(self, found: Early, generations: Iterable[int]) -> list[Epoch]:
        """The epochs of lower generations that may hold these changes: none was there before it happened."""
        before = self._before(max(generations))
        if before is None:
            return []
        back = min(LOG_KEPT, max(timedelta(), (_ms(before) - found.oldest) * _MS))
        there = epochs.read_back(self._store, self._settings.name, before.n, back)
        return [epoch for epoch in there if not found.tables.isdisjoint(epoch.tables)]

    def _before(self, generation: int) -> Epoch | None:
        """The last epoch of a lower generation: they only rise. A binary search."""
        found: Epoch | None = None
        low, high = 1, self._last
        while low <= high:
            middle = (low + high) // 2
            epoch = epochs.read(self._store, self._settings.name, middle)
            if epoch is not None and self._of_epoch(middle) >= generation:
                high = middle - 1
            else:  # or it expired, or was never given out: the log goes on above it
                found, low = epoch or found, middle + 1
        return found

    def _of_epoch(self, n: int) -> int:
        own = self._own(n)
        for first, below, raised in self._raises:
            if n >= first and own <= below:
                own = raised
        return own

    def _own(self, n: int) -> int:
        """The stream's generation in the configuration that the epoch was sealed under."""
        epoch = epochs.read(self._store, self._settings.name, n)
        if epoch is None:
            return self._settings.generation
        if epoch.config not in self._by_config:
            known = published_configs.load(self._store, epoch.config).streams.get(self._settings.name)
            self._by_config[epoch.config] = (known or self._settings).generation
        return self._by_config[epoch.config]

    @cached_property
    def _known(self) -> Quarantines:
        return holds.read_all(self._store, self._settings.name)

    @cached_property
    def _named_first(self) -> Mapping[str, int]:
        """The first epoch of batches that quarantined epochs name: only those may be in several."""
        found: dict[str, int] = {}
        for n in sorted(self._known.epochs):
            epoch = epochs.read(self._store, self._settings.name, n)
            for batch in epoch.batches if epoch else ():
                found.setdefault(batch.id, n)
        return found

    @cached_property
    def _raises(self) -> list[tuple[int, int, int]]:
        """Of each time that a restored source held the stream until its generation was raised: the first epoch that it
        held, the generation up to which it held, the one that let it go on."""
        found = []
        for case in self._known.stream:
            held, raised, when = case.quarantine, self._settings.generation, ""
            for n in range(held.epoch, self._last + 1):
                if (own := self._own(n)) > held.generation and (epoch := self._sealed(n)) is not None:
                    raised, when = own, epoch.sealed_at
                    break
            # Released by hand it goes on as it was; a release that came after the raise is about nothing any more.
            if raised > held.generation and (case.lift is None or ("" < when < case.lift.made_at)):
                found.append((held.epoch, held.generation, raised))
        return sorted(found, key=lambda one: one[1])

    def _sealed(self, n: int) -> Epoch | None:
        return epochs.read(self._store, self._settings.name, n)


def _ms(epoch: Epoch) -> int:
    return int(epoch.time.timestamp() * 1000)
