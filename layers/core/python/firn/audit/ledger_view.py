"""What follows from a ledger before anything is judged: which epochs count, where their changes went, who names whom.
Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import combinations
from typing import Final

from firn.audit.ledger import Ledger, places_of
from firn.config.model import StreamConfig
from firn.config.names import TableName, slug
from firn.log import layout
from firn.log.batches import BatchMeta
from firn.log.cuts import Cut
from firn.log.epochs import RENUMBERED, Epoch, EpochBatch

Place = TableName | str | None  # a table; "": refused; None: no rule takes it
_FEW: Final = 10  # quarantined or skipped epochs between two snapshots: as many are told apart


@dataclass(frozen=True)
class Difference:
    """Something that is not as it has to be. `code` for machines, `message` and `advice` for people. `rows`: some of
    those that it is about, by key or identity and by the change's batch and place in it."""

    code: str
    message: str
    advice: str
    table: str | None = None
    epochs: tuple[int, ...] = ()
    batches: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Keeping:
    """How long things are kept: what is older and gone has expired, what is younger and gone is missing."""

    log: timedelta = timedelta(days=14)
    dead: timedelta = timedelta(days=90)


class View:
    """One ledger, looked at.

    floor   the last epoch that is not audited: the log before it has expired, or belongs to an earlier staging area
    last    the last sealed epoch
    cut     the newest cut
    live    the epochs that count, by number; `aside`: those that are or were quarantined
    holders the live epochs of each batch; `waiting`: the batches of epochs that are held now
    """

    def __init__(self, ledger: Ledger, now: datetime, keeping: Keeping) -> None:
        self.ledger = ledger
        self.now = now
        self.keeping = keeping
        numbers = sorted(ledger.epochs)
        self.last = max(numbers, default=0)
        self.cut: Cut | None = ledger.cuts[max(ledger.cuts)] if ledger.cuts else None
        self.floor = self._floor(numbers)
        scope = {n: ledger.epochs[n] for n in numbers if n > self.floor}
        self.live = {n: epoch for n, epoch in scope.items() if n not in ledger.known.epochs}
        self.aside = {n: epoch for n, epoch in scope.items() if n in ledger.known.epochs}
        self.holders: dict[str, list[int]] = {}
        for n, epoch in self.live.items():
            for batch in epoch.batches:
                self.holders.setdefault(batch.id, []).append(n)
        held = [self.aside[n] for n in ledger.known.held_epochs() if n in self.aside]
        self.waiting = {batch.id: batch for epoch in held for batch in epoch.batches if batch.id not in self.holders}
        self._cuts = sorted(ledger.cuts)
        self._numbers = sorted(self.live)
        self._rows: dict[int, dict[Place, dict[str, int]]] = {}
        self._mixed: dict[tuple[str, str], StreamConfig] = {}

    def _floor(self, numbers: list[int]) -> int:
        renumbered = [n for n in numbers if self.ledger.epochs[n].nonce == RENUMBERED]
        before = numbers[0] - 1 if numbers else 0
        if before:  # only whole cuts: a snapshot's counts can't be divided
            before = min((n for n in self.ledger.cuts if n >= before), default=before)
        return max([before, *renumbered])

    @cached_property
    def free(self) -> dict[str, EpochBatch]:
        """The batches that are in no epoch, those of quarantined epochs that were lifted included."""
        cases = self.ledger.known.epochs
        earlier = [epoch for n, epoch in self.ledger.epochs.items() if n <= self.floor and n not in cases]
        past = {batch.id for epoch in earlier for batch in epoch.batches}
        taken = self.holders.keys() | self.waiting.keys() | past
        found = {
            batch: EpochBatch(batch, one.path, one.size, one.meta.accepted if one.meta else 0)
            for batch, one in self.ledger.staged.items()
            if batch not in taken
        }
        lifted = [epoch for n, epoch in self.ledger.epochs.items() if n in cases and cases[n].lift is not None]
        for epoch in lifted:
            for batch in epoch.batches:
                if batch.id not in taken:
                    found.setdefault(batch.id, batch)
        return found

    def meta(self, batch: str) -> BatchMeta | None:
        """The batch's footer; None if its object is gone or can't be read."""
        staged = self.ledger.staged.get(batch)
        return staged.meta if staged else None

    def cut_of(self, n: int) -> Cut | None:
        """The first cut that holds the epoch."""
        at = bisect_left(self._cuts, n)
        return self.ledger.cuts[self._cuts[at]] if at < len(self._cuts) else None

    def before(self, cut: Cut) -> Cut | None:
        """The cut before."""
        at = bisect_left(self._cuts, cut.n)
        return self.ledger.cuts[self._cuts[at - 1]] if at else None

    def had(self, cut: Cut, name: str) -> int:
        """Up to where the cuts until this one count the changes of a table that it calls quarantined. A table without a
        snapshot has no progress: what it had done is told by its quarantine alone."""
        return max(cut.progress.get(name, 0), self.ledger.known.had(name, cut.n))

    def settings(self, n: int) -> StreamConfig:
        """The configuration that a job commits the epoch under: that of the last epoch of its range, with the pipelines
        of the epoch's own. Of equal ones always the same object."""
        cut = self.cut_of(n)
        upto = self.last if cut is None else cut.n
        at = bisect_right(self._numbers, upto)
        last = self._numbers[at - 1] if at else n
        of_last, of_own = self.ledger.epochs[max(last, n)].config, self.ledger.epochs[n].config
        found, own = self.ledger.settings[of_last], self.ledger.settings[of_own]
        if found.pipelines == own.pipelines:
            return found
        return self._mixed.setdefault((of_last, of_own), replace(found, pipelines=own.pipelines))

    def rows(self, n: int) -> Mapping[Place, Mapping[str, int]]:
        """Where the changes of an epoch go: place -> source table -> rows."""
        if n not in self._rows:
            settings = self.settings(n)
            found: dict[Place, dict[str, int]] = {}
            for source, rows in self.ledger.epochs[n].tables.items():
                for place in places_of(settings, source):
                    found.setdefault(place, {})[source] = rows
            self._rows[n] = found
        return self._rows[n]

    @cached_property
    def copies(self) -> int:
        """How many changes of the live epochs count again, for each further table that they go to."""
        told = sum(sum(self.ledger.epochs[n].tables.values()) for n in self.live)
        return sum(rows for n in self.live for mine in self.rows(n).values() for rows in mine.values()) - told

    def routed(self, place: Place, among: Mapping[int, Epoch]) -> dict[int, int]:
        """The rows of each of the epochs that go to a place; epochs without any are left out."""
        counts = {n: sum(self.rows(n).get(place, {}).values()) for n in among}
        return {n: rows for n, rows in counts.items() if rows}

    def batches(self, numbers: Collection[int], place: Place | None = None, *, strays: bool = False) -> tuple[str, ...]:
        """The batches of the epochs that hold rows for the place (None: all; those with an unknown footer count in).

        strays  first those in no epoch that are older than the last of these epochs: they may have been in one
        """
        found = []
        for n in sorted(numbers):
            sources = self.rows(n).get(place, {}).keys() if place is not None else None
            for batch in self.ledger.epochs[n].batches:
                meta = self.meta(batch.id)
                if batch.events and (sources is None or meta is None or sources & meta.tables.keys()):
                    found.append(batch.id)
        end = max((self.ledger.epochs[n].time for n in numbers), default=None)
        old = [batch for batch in sorted(self.free) if strays and end is not None and layout.time_of(batch) < end]
        return (*old, *found)

    @cached_property
    def letters(self) -> dict[tuple[int, str], int]:
        """Dead letters of commits by (epoch, place as firn.commit.rejects names it)."""
        places = {place for n in (*self.live, *self.aside) for place in self.rows(n)}
        known = {place_name(TableName.parse(name)) for name in self.ledger.tables}
        known |= {place_name(place) for place in places if isinstance(place, TableName)}
        known |= {refused_name(source) for epoch in self.ledger.epochs.values() for source in epoch.tables}
        found: dict[tuple[int, str], int] = {}
        for path, letters in self.ledger.dead.items():
            commit = layout.commit_of(layout.dead_name(path))
            if commit is None:
                continue
            n, name = commit
            if name not in known:  # a further object of the same place
                name = name.rpartition("-")[0]
            found[n, name] = found.get((n, name), 0) + letters.count
        return found

    def died(self, n: int) -> bool:
        """Whether dead letters of the epoch may have expired."""
        return self.now - self.ledger.epochs[n].time > self.keeping.dead


def place_name(table: TableName) -> str:
    """The table in the name of a commit's dead letters."""
    return table.slug.replace("/", ".")


def refused_name(source: str) -> str:
    """A source table that can't be placed, in the name of a commit's dead letters."""
    return f"refused-{slug(source)}"


def some(rows: Mapping[int, int], wanted: int) -> Mapping[int, int]:
    """Of the rows by epoch those that make up `wanted`, the newest first; {} if none do."""
    newest = sorted(rows, reverse=True)[:_FEW]
    for count in range(1, len(newest) + 1):
        for chosen in combinations(newest, count):
            if sum(rows[n] for n in chosen) == wanted:
                return {n: rows[n] for n in chosen}
    return {}
