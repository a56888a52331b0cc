"""What must be true of a world, whatever happened to it: no loss, nothing twice, and every table what `fold` says."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, combinations
from typing import Any, Final, NamedTuple

from arro3.io import read_parquet

from firn.changes.merge.fold import Key, RowChange, fold
from firn.config.names import TableName
from firn.ingest.replay import acknowledged
from firn.log import cuts, epochs, holds, layout
from firn.log.dead_letters.letters import read_dead
from firn.log.epochs import Epoch
from firn.log.store import get, paths
from firn.tables.outcome import COUNTS
from tests.model.memory_lake import Snapshot, Table
from tests.model.source import LOG, PARTS, TABLES, Event, plain
from tests.model.world import STREAM, World

_TOLD: Final = ("op", "order", "table", "before", "after")
Told = tuple[Any, ...]  # of one staged change: what _TOLD names


def told(event: Event) -> Told | None:
    """How a staged batch names this event; None if it can't be in one."""
    try:
        value = json.loads(event.line)
    except ValueError:
        return None
    images = (None if value[side] is None else json.dumps(value[side]) for side in ("before", "after"))
    return (value["op"], value["source"]["sequence"], f"app.{value['source']['table']}", *images)


class Held(NamedTuple):
    """The epochs in a snapshot."""

    epochs: frozenset[int]


class Checks:
    """Looks at a world again and again, and at everything that never changes only once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._events: dict[Told, Event] = {}
        self._learned = 0
        self._batches: dict[str, list[Told]] = {}
        self._snapshots: dict[TableName, dict[int, Held]] = {}
        self._progress: dict[TableName, int] = {}
        self._cuts: set[int] = set()

    def now(self) -> None:
        """Everything that holds at any moment."""
        self._learn()
        self._nothing_acknowledged_is_lost()
        sealed = self._each_batch_is_in_one_epoch()
        for name, table in self.world.catalog.tables.items():
            self._progress_only_rises(name, table)
            self._each_snapshot_is_the_fold_of_its_epochs(name, table, sealed)
            self._each_file_of_each_snapshot_is_there(name, table)
        self._each_cut_shows_all_tables_at_its_end(sealed)

    def at_rest(self) -> None:
        """Everything that holds when all has settled: nothing was lost on the way, or taken twice."""
        self.now()
        assert self.world.quiet(), self.world.story()
        self._tables_are_the_sources()
        self._each_broken_event_is_one_dead_letter()
        self._the_counts_balance()

    def rolled_back(self, name: TableName) -> None:
        """Somebody set the table back by hand, or dropped it: its progress may start again from there."""
        table = self.world.catalog.tables.get(name)
        self._progress[name] = table.progress(STREAM) if table else 0

    def _learn(self) -> None:
        for event in self.world.source.log[self._learned :]:
            if (name := told(event)) is not None:
                self._events[name] = event
        self._learned = len(self.world.source.log)
        for path in paths(self.world.disk, layout.staged_prefix(STREAM)):
            batch = layout.batch_of(path)
            assert batch is not None, path
            if batch not in self._batches:
                data = get(self.world.disk, path)
                assert data is not None
                table = read_parquet(data).read_all()
                there = {name: table.column(name).to_pylist() for name in table.column_names}
                columns = [there.get(name) or [None] * table.num_rows for name in _TOLD]
                self._batches[batch] = list(zip(*columns, strict=True))

    def _nothing_acknowledged_is_lost(self) -> None:
        staged = Counter(chain.from_iterable(self._batches.values()))
        letters = self._ingest_letters()
        for parcel in self.world.parcels:
            for event in parcel.events if parcel.acknowledged else ():
                name = told(event)
                if event.table is not None:
                    taken = letters[event.line] or (name is not None and staged[name])
                    assert taken, f"acknowledged, neither staged nor a dead letter: {event.line}"
        # A parcel with a name is taken once, however often it comes; one without at most as often as it was sent.
        most: Counter[Any] = Counter()
        for parcel in self.world.parcels:
            for event in parcel.events:
                for one in {told(event), event.line} - {None}:
                    most[one] += 1 if parcel.name else parcel.tries
        for name, times in (*staged.items(), *letters.items()):
            assert times <= most[name], f"staged {times} times, sent {most[name]} times: {name}"

    def _each_batch_is_in_one_epoch(self) -> dict[int, Epoch]:
        disk = self.world.disk
        numbers = epochs.numbers(disk, STREAM)
        assert numbers == list(range(1, len(numbers) + 1)), f"the numbers have gaps: {numbers}"
        sealed = {n: epoch for n in numbers if (epoch := epochs.read(disk, STREAM, n)) is not None}
        given_up = holds.read_epochs(disk, STREAM)
        held = Counter(batch.id for n, epoch in sealed.items() if n not in given_up for batch in epoch.batches)
        assert not (twice := [batch for batch, times in held.items() if times > 1]), f"in two epochs: {twice}"
        return sealed

    def _progress_only_rises(self, name: TableName, table: Table) -> None:
        steps = [int(one.summary[f"firn.epoch.{STREAM}"]) for one in reversed(table.ancestry()) if _carries(one)]
        assert steps == sorted(set(steps)), f"{name}: an epoch is in two snapshots: {steps}"
        now = table.progress(STREAM)
        assert now >= self._progress.get(name, 0), f"{name}: progress went back from {self._progress[name]} to {now}"
        self._progress[name] = now

    def _each_snapshot_is_the_fold_of_its_epochs(
        self, name: TableName, table: Table, sealed: Mapping[int, Epoch]
    ) -> None:
        seen = self._snapshots.setdefault(name, {})
        for snapshot in sorted(set(table.snapshots) - set(seen)):
            one = table.snapshots[snapshot]
            before = seen[one.parent].epochs if one.parent is not None else frozenset[int]()
            upto = int(one.summary[f"firn.epoch.{STREAM}"]) if _carries(one) else 0
            start = max(before, default=0)
            new = {n for n in sealed if start < n <= upto}
            # An epoch that was given up may have been in before it was: then it is in here, and once more later.
            given_up = holds.read_epochs(self.world.disk, STREAM).keys()
            unsure = sorted(n for n in given_up if n <= upto and n not in before)
            there = _table(name, one)
            for more in chain.from_iterable(combinations(unsure, k) for k in range(len(unsure) + 1)):
                held = before | (new - set(unsure)) | set(more)
                if self._expected(name, (sealed[n] for n in held)) == there:
                    seen[snapshot] = Held(held)
                    break
            else:
                expected = self._expected(name, (sealed[n] for n in before | new))
                raise AssertionError(
                    f"{name}, snapshot {snapshot} with epochs {sorted(before | new)} of {max(sealed)} holds\n  {there}"
                    f"\nand the fold of these epochs is\n  {expected}\n{self.world.story()}"
                )

    def _each_file_of_each_snapshot_is_there(self, name: TableName, table: Table) -> None:
        """And holds the rows that the snapshot was committed with, whatever care did since."""
        catalog = self.world.catalog
        for one in table.snapshots.values():
            holders = catalog.holders(name, one)
            there = {key: catalog.files[name][path].rows[key] for key, path in holders.items()}
            assert there == dict(one.rows), f"{name}, snapshot {one.id}: its files hold\n  {there}\nnot\n  {one.rows}"

    def _each_cut_shows_all_tables_at_its_end(self, sealed: Mapping[int, Epoch]) -> None:
        disk = self.world.disk
        for n in cuts.numbers(disk, STREAM):
            cut = cuts.read(disk, STREAM, n)
            if n in self._cuts or cut is None:
                continue
            self._cuts.add(n)
            given_up = holds.read_epochs(disk, STREAM).keys()
            for name in self.world.catalog.tables:
                if str(name) in cut.quarantined:
                    continue
                snapshot = cut.tables.get(str(name))
                held = self._snapshots[name][snapshot].epochs if snapshot is not None else frozenset[int]()
                touched = {
                    at for at, epoch in sealed.items()
                    if at <= n and at not in given_up and _sources(name) & epoch.tables.keys()
                }  # fmt: skip
                if snapshot is None:
                    assert not self._expected(name, (sealed[at] for at in touched)), f"cut {n} has no {name}"
                    continue
                assert touched <= held, f"cut {n}: {name} lacks {sorted(touched - held)}"
                assert max(held, default=0) <= n, f"cut {n}: {name} shows {sorted(held)}"

    def _tables_are_the_sources(self) -> None:
        """If all that the source told was sent. The last word: no fold, no epochs."""
        sent = {event.line for parcel in self.world.parcels for event in parcel.events}
        assert sent >= {event.line for event in self.world.source.log}, "the test did not send everything"
        for table in TABLES:
            found = self.world.catalog.tables.get(TableName("lake", table))
            rows = {key: row for (key,), row in _rows(found).items()} if found else {}
            right = {key: plain(row) for key, row in self.world.source.rows[table].items()}
            assert rows == right, f"{table} holds\n  {rows}\nand the source\n  {right}\n{self.world.story()}"

    def _each_broken_event_is_one_dead_letter(self) -> None:
        staged = Counter(chain.from_iterable(self._batches.values()))
        ingested = self._ingest_letters()
        committed: Counter[tuple[Any, ...]] = Counter()
        for path in paths(self.world.disk, layout.dead_prefix(STREAM)):
            if layout.batch_of(path) is None:
                committed.update(
                    (one.batch, one.index, one.change and one.change.order) for one in _letters(self, path)
                )
        assert set(committed.values()) <= {1}, f"a letter is there twice: {committed}"
        for event in self.world.source.log:
            name = told(event)
            if event.broken and name is None:
                assert ingested[event.line] >= 1, f"no dead letter: {event.line}"
            elif event.broken and name is not None:
                letters = sum(order == name[1] for _, _, order in committed)
                assert letters == staged[name] >= 1, f"{letters} letters, staged {staged[name]} times: {event.line}"

    def _the_counts_balance(self) -> None:
        disk = self.world.disk
        given_up = holds.read_epochs(disk, STREAM).keys()
        staged = sum(
            epoch.events for n in epochs.numbers(disk, STREAM)
            if n not in given_up and (epoch := epochs.read(disk, STREAM, n)) is not None
        )  # fmt: skip
        every = {n: cut for n in cuts.numbers(disk, STREAM) if (cut := cuts.read(disk, STREAM, n)) is not None}
        found = cuts.chain(every).values()
        for cut in found:
            for table, counts in cut.counts.items():
                parts = sum(counts[name] for name in COUNTS[1:])
                assert counts["events"] == parts, f"cut {cut.n}, {table}: {counts}"
        counted = sum(counts["events"] for cut in found for counts in cut.counts.values())
        counted += sum(cut.filtered for cut in found)
        if not self._anything_by_hand():
            assert counted == staged, f"{staged} changes were staged, the cuts tell of {counted}\n{self.world.story()}"

    def _anything_by_hand(self) -> bool:
        """Quarantines, rollbacks: an epoch may have been in a table twice, and its counts with it."""
        known = holds.read_all(self.world.disk, STREAM)
        return bool(known.epochs or known.tables)

    def _ingest_letters(self) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for path in paths(self.world.disk, layout.dead_prefix(STREAM)):
            if layout.batch_of(path) is not None and acknowledged(self.world.disk, path):
                for one in _letters(self, path):
                    found.update(
                        one.original.decode().splitlines()
                    )  # a message of which nothing can be read is one letter
        return found

    def _expected(self, name: TableName, held: Iterable[Epoch]) -> Any:
        events = [
            self._events[row] for epoch in held for batch in epoch.batches for row in self._batches[batch.id]
            if row[2] in _sources(name)
        ]  # fmt: skip
        changes: list[RowChange] = [change for event in events for change in event.changes]
        if name.table == LOG:
            distinct = {change.order: change for change in changes}
            return Counter(json.dumps(plain(change.values or {}), sort_keys=True) for change in distinct.values())
        return {key: plain(row.values) for key, row in fold({}, changes).rows.items()}


def _sources(name: TableName) -> set[str]:
    return {f"app.{part}" for part in PARTS.get(name.table, (name.table,))}


def _carries(snapshot: Snapshot) -> bool:
    return f"firn.epoch.{STREAM}" in snapshot.summary


def _letters(checks: Checks, path: str) -> list[Any]:
    return read_dead(checks.world.disk, path)


def _table(name: TableName, snapshot: Snapshot) -> Any:
    """The rows of a snapshot: by key, or where there is no key how often each is there."""
    rows = snapshot.values()
    if name.table == LOG:
        return Counter(json.dumps(plain(row), sort_keys=True) for row in rows.values())
    for key, row in rows.items():
        assert key == (row["id"],), f"the row {row} stands under the key {key}"
    return {key: plain(row) for key, row in rows.items()}


def _rows(table: Table) -> dict[Key, dict[str, Any]]:
    return {key: plain(row) for key, row in table.by_key().items()}
