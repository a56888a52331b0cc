"""Tables in memory behind the commit job's port: what Spark and Iceberg do, small enough to be broken at every call.

Everything durable is in `Catalog`, which a crash leaves as it is; a `MemoryLake` is what one job holds. Decoding,
planning, folding and dead letters are the real ones; only reading, joining and committing are written here again.

Every call on the catalog goes through `Catalog.call`, and so through `Catalog.around`: a test puts a function there
that gets the call and its effect, and may raise before it, after it (the answer is lost), or keep the effect for later
(it is applied late). See `Call` for what is called.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, TypeVar

import pytest

from firn.changes import told
from firn.changes.fields import type_json
from firn.changes.fold import Key, Row, RowChange
from firn.changes.incremental import Known, apply, is_fact
from firn.changes.placing import Order
from firn.changes.redelivered import Early, Placed, early, lowest
from firn.changes.rows import Decoding
from firn.changes.told import BATCH, CODE, EPOCH, INDEX, MESSAGE, OP, ORD
from firn.changes.types import Column
from firn.errors import UnknownOutcome
from firn.jobs.counted import Counted
from firn.jobs.decoding import Planned, planned
from firn.jobs.expiry import Ref, Snapshots, plan
from firn.jobs.expiry import Snapshot as Dated
from firn.jobs.facts import TableFacts
from firn.jobs.failures import Failure, failure
from firn.jobs.lake import place_of
from firn.jobs.outcome import Outcome
from firn.jobs.progress import INFERRED_AS, NO_FIRST_IDENTITY, TableState, progress_in
from firn.jobs.quarantine import IN_TIME, TELLS_COMMIT, High, Span, span_of
from firn.jobs.rejects import by_table, write_rejects
from firn.jobs.staged import facts_told, raw_changes
from firn.jobs.targets import Target
from firn.staging.epochs import Epoch, read_range
from firn.staging.generations import Generations
from firn.staging.store import Store, get
from firn.streams.care import Care, Expiry
from firn.streams.config import StreamConfig
from firn.streams.names import TableName, slug

T = TypeVar("T")
Values = Mapping[str, Any]
Change = dict[str, Any]
Decoded = list[Any]  # as firn.changes.told reads it
_TRIES = 5


class LostRace(Exception):
    """The stream's progress in the table is no longer what the committer read. Nothing was applied."""


@dataclass(frozen=True)
class Call:
    """One call on the catalog.

    load      the table's state is read
    create    the table is made, if it is not there
    evolve    columns are added or widened, or renamed
    remember  facts (deletes, truncates, first halves of moves) are appended beside the table, before its commit
    write     a data file is there; no snapshot knows it yet
    commit    compare-and-set on the stream's progress: the snapshot is there at once, or nothing is
    replace   the same for a snapshot with the same rows in other files
    expire    snapshots are taken out of the metadata
    list      all files of the table, live or not
    unlink    a file is removed
    """

    kind: Literal["load", "create", "evolve", "remember", "write", "commit", "replace", "expire", "list", "unlink"]
    table: TableName


@dataclass(frozen=True)
class File:
    """A data file; `at`: when it was written."""

    rows: Mapping[Key, Row]
    at: datetime


@dataclass(frozen=True)
class Snapshot:
    """`rows`: by key in a mirror table, by identity in an append table. Never changes. They are what `files` hold, but
    for the places that are `gone`."""

    id: int
    parent: int | None
    summary: Mapping[str, str]
    rows: Mapping[Key, Row]
    files: frozenset[str] = frozenset()
    gone: frozenset[tuple[str, Key]] = frozenset()
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Table:
    """One table of the catalog. `facts`: (epoch, change); `removed`: rows that a delete took. Rows have their values
    under the name that a column had first (`first`), as Iceberg's files have them under its id."""

    name: TableName
    columns: tuple[Column, ...]
    first: tuple[str, ...]
    properties: Mapping[str, str]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    current: int | None = None
    facts: list[tuple[int, RowChange]] = field(default_factory=list)
    removed: list[tuple[Key, Row]] = field(default_factory=list)

    def ancestry(self) -> list[Snapshot]:
        """The current snapshot and its ancestors, newest first, as far as they are not expired."""
        found: list[Snapshot] = []
        at = self.current
        while at is not None and at in self.snapshots:
            found.append(self.snapshots[at])
            at = found[-1].parent
        return found

    def progress(self, stream: str) -> int:
        """The highest epoch of the stream in the ancestry."""
        return progress_in(stream, (snapshot.summary for snapshot in self.ancestry()))

    def rows(self, snapshot: int | None = None) -> list[dict[str, Any]]:
        """The rows at a snapshot (None: the current one), with the source's columns only."""
        at = self.current if snapshot is None else snapshot
        found = () if at is None else self.snapshots[at].rows.values()
        return [self._values(row) for row in found]

    def by_key(self, snapshot: int | None = None) -> dict[Key, dict[str, Any]]:
        """The rows by key."""
        at = self.current if snapshot is None else snapshot
        found = {} if at is None else self.snapshots[at].rows
        return {key: self._values(row) for key, row in found.items()}

    def _values(self, row: Row) -> dict[str, Any]:
        return {column.name: row.values.get(first) for column, first in zip(self.columns, self.first, strict=True)}

    @property
    def called(self) -> dict[str, str]:
        """First name -> name, of the columns."""
        return {first: column.name for first, column in zip(self.first, self.columns, strict=True)}

    @property
    def used(self) -> set[str]:
        """The files of all snapshots."""
        return {path for one in self.snapshots.values() for path in one.files}

    def state(self) -> TableState:
        """As firn.jobs.progress reads it from Iceberg's metadata."""
        return TableState(
            location=f"memory://{self.name.slug}",
            properties=self.properties,
            fields=tuple(
                {"id": place, "name": column.name, "required": column.required, "type": type_json(column.type, 1_000)}
                for place, column in enumerate(self.columns, start=1)
            ),
            snapshot_id=self.current,
            ancestry=tuple(snapshot.summary for snapshot in self.ancestry()),
        )


def straight(call: Call, effect: Callable[[], T]) -> T:
    """No fault: the effect, and its answer."""
    return effect()


def fails_at(kind: str, table: TableName) -> Callable[[Call, Callable[[], Any]], Any]:
    """Calls of this kind on this table fail, in a way that does not pass by itself."""

    def around(call: Call, effect: Callable[[], Any]) -> Any:
        if (call.kind, call.table) == (kind, table):
            raise ValueError("what is this")
        return effect()

    return around


class Catalog:
    """All tables, shared by all jobs. `around(call, effect)` stands between a job and each of its calls."""

    def __init__(self) -> None:
        self.tables: dict[TableName, Table] = {}
        self.early: dict[TableName, list[tuple[int, RowChange]]] = {}  # truncates of tables that are not there yet
        self.around: Callable[[Call, Callable[[], Any]], Any] = straight
        self.clock: Callable[[], datetime] = lambda: datetime(2026, 1, 1, tzinfo=UTC)
        self.files: dict[TableName, dict[str, File]] = {}
        self.last_id = 0
        self.last_file = 0

    def call(self, kind: Any, table: TableName, effect: Callable[[], T]) -> T:
        """The one way to the tables."""
        return self.around(Call(kind, table), effect)  # type: ignore[no-any-return]

    def load(self, name: TableName) -> Table | None:
        """A copy of the table as it is now: later changes of the catalog don't show in it."""

        def look() -> Table | None:
            table = self.tables.get(name)
            if table is None:
                return None
            return replace(table, snapshots=dict(table.snapshots), facts=list(table.facts), removed=list(table.removed))

        return self.call("load", name, look)

    def create(self, name: TableName, columns: tuple[Column, ...], properties: Mapping[str, str]) -> None:
        """Creates the table; a twin that was quicker is as good."""

        def make() -> None:
            if name not in self.tables:
                first = tuple(column.name for column in columns)
                self.tables[name] = Table(name, columns, first, properties, facts=self.early.pop(name, []))

        self.call("create", name, make)

    def evolve(self, base: Table, columns: tuple[Column, ...], properties: Mapping[str, str]) -> None:
        """The columns from now on, as `base` has them widened and with new ones after them. Those of a twin stay."""
        name = base.name

        def change() -> None:
            table = self.tables[name]
            wider = {first: column.type for first, column in zip(base.first, columns, strict=False)}
            known = tuple(
                replace(c, type=wider.get(f, c.type)) for f, c in zip(table.first, table.columns, strict=True)
            )
            there = {column.name for column in known}
            new = tuple(column for column in columns[len(base.columns) :] if column.name not in there)
            assert not {column.name for column in new} & set(table.first), f"{name}: an old name is another column"
            table.columns = (*known, *new)
            table.first += tuple(column.name for column in new)
            table.properties = {**table.properties, **properties}

        self.call("evolve", name, change)

    def rename(self, base: Table, names: Mapping[str, str], properties: Mapping[str, str]) -> None:
        """Other names for columns (old -> new), and what the table remembers of it. Raises LostRace."""

        def change() -> None:
            table = self.tables[base.name]
            if table.columns != base.columns:
                raise LostRace(f"{base.name}: its columns are others by now")
            table.columns = tuple(replace(one, name=names.get(one.name, one.name)) for one in table.columns)
            table.properties = {**table.properties, **properties}

        self.call("evolve", base.name, change)

    def remember(self, name: TableName, facts: list[tuple[int, RowChange]], removed: list[tuple[Key, Row]]) -> None:
        """Appends facts. Doubled ones do no harm."""

        def append() -> None:
            if name in self.tables:
                self.tables[name].facts.extend(facts)
                self.tables[name].removed.extend(removed)
            else:
                self.early.setdefault(name, []).extend(facts)

        self.call("remember", name, append)

    def write(self, name: TableName, rows: Mapping[Key, Row]) -> str:
        """A data file, in no snapshot. -> its path"""

        def put() -> str:
            self.last_file += 1
            path = f"file-{self.last_file}"
            self.files.setdefault(name, {})[path] = File(rows, self.clock())
            return path

        return self.call("write", name, put)

    def commit(
        self, base: Table, stream: str, expected: int, rows: Mapping[Key, Row | None], summary: Mapping[str, str]
    ) -> None:
        """One snapshot more, with `rows` put in place (None: removed) of those of `base`, as the committer read it.

        The new snapshot stands on the table as it is now, as in Iceberg: if the stream's progress in its ancestry is
        still the expected one, and the rows to be removed are still where they were. Raises LostRace.
        """
        name = base.name
        new = {key: row for key, row in rows.items() if row is not None}
        path = self.write(name, new) if new else None
        try:
            holders = self.holders(name, base.snapshots[base.current]) if base.current is not None else {}
        except FileNotFoundError as error:  # the snapshot expired since it was read
            raise LostRace(str(error)) from error
        gone = {(holders[key], key) for key in rows if key in holders}

        def swap() -> None:
            table = self.tables[name]
            if table.progress(stream) != expected:
                raise LostRace(f"{name}: the progress is {table.progress(stream)}, not {expected}")
            head = table.snapshots[table.current] if table.current is not None else None
            files = head.files if head else frozenset()
            if moved := {file for file, _ in gone} - files:
                raise LostRace(f"{name}: rows of {sorted(moved)} are elsewhere")
            self._add(
                table, (head.rows if head else {}) | new, summary, files | ({path} if path else set()),
                (head.gone if head else frozenset()) | gone, without=[key for key, row in rows.items() if row is None],
            )  # fmt: skip

        self.call("commit", name, swap)

    def holders(self, name: TableName, snapshot: Snapshot) -> dict[Key, str]:
        """Which file holds each live row. Raises FileNotFoundError: then nobody can read the snapshot."""
        found: dict[Key, str] = {}
        there = self.files.get(name, {})
        for path in snapshot.files:
            if path not in there:
                raise FileNotFoundError(f"{name}, snapshot {snapshot.id}: {path} is gone")
            for key in there[path].rows:
                if (path, key) not in snapshot.gone:
                    assert key not in found, f"{name}, snapshot {snapshot.id}: {key} is in {found[key]} and in {path}"
                    found[key] = path
        return found

    def compact(self, name: TableName, most: int = 99) -> None:
        """Up to `most` live files become one, without the rows that are gone. Maintenance never writes progress.

        Lands only if the files are still live, and nothing more of them was removed. Raises LostRace.
        """
        base = self.load(name)
        if base is None or base.current is None:
            return
        head = base.snapshots[base.current]
        old = frozenset(sorted(head.files)[:most])
        try:
            holders = self.holders(name, head)
        except FileNotFoundError as error:
            raise LostRace(str(error)) from error
        kept = {key: self.files[name][path].rows[key] for key, path in holders.items() if path in old}
        path = self.write(name, kept) if kept else None

        def swap() -> None:
            table = self.tables[name]
            now = table.snapshots[table.current] if table.current is not None else None
            if now is None or not old <= now.files:
                raise LostRace(f"{name}: some of the files are no longer there")
            if {one for one in now.gone if one[0] in old} != {one for one in head.gone if one[0] in old}:
                raise LostRace(f"{name}: more rows of the files are gone")
            left = frozenset(one for one in now.gone if one[0] not in old)
            files = (now.files - old) | ({path} if path else set())
            self._add(table, now.rows, {"operation": "replace"}, files, left)

        self.call("replace", name, swap)

    def expire(self, name: TableName, keep: int = 1, said: Counted | None = None) -> None:
        """All but the newest `keep` snapshots go, but for those that firn.jobs.expiry has to keep; then the files that
        only they had. `said`: what the cuts say of the table."""
        base = self.load(name)
        if base is None:
            return
        table = base
        policy = Expiry(keep_seconds=1, at_least=keep, at_most=keep)
        known = Snapshots(
            {one.id: Dated(one.id, one.parent, _ms(one.at), one.summary) for one in table.snapshots.values()},
            () if table.current is None else (Ref("main", "branch", table.current),),
        )
        said = said or Counted()
        with pytest.MonkeyPatch.context() as patch:
            # Histories here are short: nothing would ever expire.
            patch.setattr("firn.jobs.expiry.FEWEST_SNAPSHOTS", 1)
            found = plan(known, policy, _ms(self.clock()) + 10_000, must_stay=said.snapshots, counted=said.epochs)
        before = table.used

        def take() -> None:
            now = self.tables[name]
            assert now.current not in found.expired, "the current snapshot"
            for one in found.expired:
                now.snapshots.pop(one, None)

        # Iceberg refuses what a branch still refers to, and takes the rest out of whatever the metadata is by then.
        current = self.tables[name].current
        if found.expired and current not in found.expired:
            self.call("expire", name, take)
            for path in sorted(before - self.tables[name].used):
                self.unlink(name, path)

    def remove_orphans(self, name: TableName, age: timedelta) -> None:
        """Files that no snapshot knows, if they are older than `age`."""
        listed = self.call("list", name, lambda: dict(self.files.get(name, {})))
        table = self.load(name)
        if table is None:
            return
        for path, file in sorted(listed.items()):
            if path not in table.used and self.clock() - file.at > age:
                self.unlink(name, path)

    def unlink(self, name: TableName, path: str) -> None:
        """Removes a file; one that is gone already is as good."""
        self.call("unlink", name, lambda: self.files[name].pop(path, None))

    # What happens to tables beside Firn. It is the test's own hand: no fault meets it.

    def rollback(self, name: TableName, snapshot: int | None) -> None:
        """By hand: the table is again as it was at one of its snapshots (None: before the first)."""
        assert snapshot is None or snapshot in self.tables[name].snapshots
        self.tables[name].current = snapshot

    def _add(
        self,
        table: Table,
        rows: Mapping[Key, Row],
        summary: Mapping[str, str],
        files: Iterable[str],
        gone: Iterable[tuple[str, Key]],
        without: Iterable[Key] = (),
    ) -> None:
        self.last_id += 1
        left = dict(rows)
        for key in without:
            left.pop(key, None)
        table.snapshots[self.last_id] = Snapshot(
            self.last_id, table.current, dict(summary), left, frozenset(files), frozenset(gone), self.clock()
        )
        table.current = self.last_id


class MemoryLake:
    """One job's hold on the catalog: a firn.jobs.lake.Lake."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self.store = store
        self.catalog = catalog

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """Nothing here takes long."""

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none."""
        found = self.catalog.load(table)
        return found.state() if found else None

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> "MemoryRange":
        """Read these epochs."""
        return MemoryRange(self, stream, settings, epochs, last)

    def care(self, stream: str, table: TableName, care: Care, now: datetime) -> Iterator[dict[str, Any]]:
        """The test itself cares for the tables (World.care), at any moment and not only at their turns."""
        return iter(())

    def failure(self, error: Exception) -> Failure:
        """What an exception means."""
        return failure_of(error)


class MemoryRange:
    """The changes of some epochs: a firn.jobs.lake.Range."""

    def __init__(
        self, lake: MemoryLake, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int
    ) -> None:
        self._lake = lake
        self._catalog = lake.catalog
        self._stream = stream
        self._settings = settings
        self._epochs = epochs
        self._last = last
        self._log = Generations(lake.store, settings, last)
        self._changes = self._read(epochs.values())

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table."""
        return facts_told(self._changes)

    def span(self, high: High | None) -> Span:
        """What the changes say about their source's time."""
        told = [
            one
            for one in self._changes
            if one["op"] != "r" and one["order"] is not None and one["connector"] in IN_TIME
        ]
        told = [one for one in told if None not in (one["pos"], one["ts"])]
        by_commit = [one for one in told if one["order"].startswith(TELLS_COMMIT)]
        found = span_of(((one["pos"], one["ts"]) for one in by_commit), high)
        return replace(found, bare=len(by_commit) < len(told))

    def commit_all(self, targets: Sequence[tuple[Target, int]]) -> Iterator[Outcome]:
        for target, above in targets:
            yield self.commit(target, above)

    def commit(self, target: Target, above: int = 0) -> Outcome:
        """Bring one table up to the range's last epoch. Never raises an Exception."""
        outcome = Outcome(str(target.name), target.sources)
        try:
            for left in reversed(range(_TRIES)):
                try:
                    return self._once(target.above(above), above)
                except LostRace:
                    if not left:
                        raise
        except Exception as error:  # noqa: BLE001 (as the port says)
            found = failure_of(error)
            outcome.status, outcome.error, outcome.failure = "failed", found.text, found.kind
        return outcome

    def refuse(self, table: str, code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of a source table that can't be placed."""
        rows = [self._letter(change, code, message) for change in self._changes if change["table"] == table]
        return by_table(write_rejects(self._lake.store, self._stream, f"refused-{slug(table)}", self._epochs, rows))

    def close(self) -> None:
        """Nothing is held but memory."""

    def _once(self, target: Target, above: int) -> Outcome:
        table = self._catalog.load(target.name)
        progress = table.progress(self._stream) if table else 0
        outcome = Outcome(str(target.name), target.sources, progress=progress, events=target.events(progress))
        if outcome.events == 0:
            outcome.status, outcome.snapshot_id = "skipped", table.current if table else None
            return outcome
        plan = planned(target.above(progress), self._settings, table.state() if table else None)
        if table and not (plan.renames.properties().items() <= table.properties.items() and not plan.due):
            self._catalog.rename(table, plan.due, plan.renames.properties())
            table = self._loaded(target.name)
        outcome.mode, decoding = plan.mode, plan.decoding
        floor = max(progress, above)
        mine = [one for one in self._changes if one["table"] in target.sources and one["epoch"] > floor]
        good, bad = told.decoded(mine, decoding, mirror=outcome.mode == "mirror")
        letters = {(one["batch"], one["index"]): one for one in mine}
        write_rejects(
            self._lake.store, self._stream, target.name, self._epochs,
            [self._letter(letters[row[BATCH], row[INDEX]], row[CODE], row[MESSAGE]) for row in bad],
        )  # fmt: skip
        outcome.dead = len(bad)
        if outcome.mode == "mirror":
            outcome.ignored = target.events(progress, "t") - sum(row[OP] == "t" for row in bad)
            outcome.ignored += 0 if decoding.snapshot_reads else target.events(progress, "r")
        if table is None and not good:
            outcome.status, outcome.ignored = "empty", outcome.events - outcome.dead
            if outcome.mode == "mirror" and (truncates := _truncates(mine)):
                self._catalog.remember(target.name, truncates, [])
            return outcome
        table = self._ready(target, table, plan)
        if outcome.mode == "mirror":
            rows = self._merged(table, good, mine, decoding, target)
            kept = min(
                len({told.key_of(row, decoding) for row in good}), outcome.events - outcome.ignored - outcome.dead
            )
        else:
            rows = self._appended(table, good, decoding)
            kept = len(rows)
        outcome.merged = kept
        outcome.superseded = outcome.events - outcome.ignored - outcome.dead - outcome.merged
        summary = outcome.summary(self._stream, self._epochs, self._last)
        self._catalog.commit(table, self._stream, progress, rows, summary)
        after = self._catalog.load(target.name)
        outcome.snapshot_id = after.current if after else None
        return outcome

    def _ready(self, target: Target, table: Table | None, plan: Planned) -> Table:
        columns, inferred = plan.columns.columns, {INFERRED_AS: json.dumps(plan.columns.inferred)}
        if table is None:
            properties = {"firn.key": json.dumps(plan.key), "firn.mode": plan.mode, "firn.stream": self._stream}
            properties |= NO_FIRST_IDENTITY if plan.mode == "append" else {}
            self._catalog.create(target.name, columns, properties | inferred | plan.renames.properties())
            return self._loaded(target.name)
        told_of = table.state().identities if plan.mode == "append" else {}
        same = _types(table.columns) == _types(columns) and table.state().inferred == plan.columns.inferred
        if not (same and told_of.items() <= table.properties.items()):
            self._catalog.evolve(table, columns, inferred | told_of)
        else:
            return table
        return self._loaded(target.name)

    def _loaded(self, name: TableName) -> Table:
        found = self._catalog.load(name)
        if found is None:
            raise LostRace(f"{name} was dropped")
        return found

    def _merged(
        self, table: Table, good: list[Decoded], mine: list[Change], decoding: Decoding, target: Target
    ) -> dict[Key, Row | None]:
        """What the changes make of the table's rows, by the incremental rule; facts are written first."""
        changes = [(row[EPOCH], told.row_change(row, decoding)) for row in good]
        changes += _truncates(mine)
        called, first = table.called, {name: first for first, name in table.called.items()}
        rows = table.snapshots[table.current].rows if table.current is not None else {}
        there = {key: _row(row, called) for key, row in rows.items()}
        facts = tuple(_change(fact, called) for epoch, fact in table.facts if epoch <= self._last)
        known = Known(there, facts, tuple((key, _row(row, called)) for key, row in table.removed))

        def log(keys: Any) -> list[RowChange]:
            staged = self._read(read_range(self._lake.store, self._stream, 1, self._last))
            said, _ = told.decoded([one for one in staged if one["table"] in target.sources], decoding, mirror=True)
            return [change for change in (told.row_change(row, decoding) for row in said) if change.key in keys]

        after = apply(known, [change for _, change in changes], log)
        new = [(epoch, _change(change, first)) for epoch, change in changes if is_fact(change)]
        removed = [(key, _row(row, first)) for key, row in after.removed[len(known.removed) :]]
        if new or removed:
            self._catalog.remember(target.name, new, removed)
        gone: dict[Key, Row | None] = {key: None for key in there if key not in after.rows}
        return gone | {key: _row(row, first) for key, row in after.rows.items() if there.get(key) != row}

    def _appended(self, table: Table, good: list[Decoded], decoding: Decoding) -> dict[Key, Row | None]:
        """The changes whose identity the table does not hold yet."""
        there = table.snapshots[table.current].rows if table.current is not None else {}
        first = {name: first for first, name in table.called.items()}
        mine = told.Appendable(good, self._stream, first=self._stream in table.state().first_identity)
        new = mine.without({name for (name,) in there})
        return {(name,): _row(Row(told.values_of(row, decoding), row[ORD]), first) for name, row in new.items()}

    def _letter(self, change: Change, code: str, message: str) -> Change:
        return change | {"_code": code, "_message": message}

    def _read(self, epochs: Iterable[Epoch]) -> list[Change]:
        return staged_changes(self._lake.store, self._log, list(epochs), self._settings.order)


def staged_changes(store: Store, log: Generations, epochs: Sequence[Epoch], by: Order) -> list[Change]:
    """The rows of the epochs' staged objects, with their positions: what Spark's raw DataFrame holds. `by`: the
    stream's."""
    generations = log.of(epochs)

    def read(some: Iterable[Epoch], kept: Mapping[bytes, int]) -> Iterator[Change]:
        own = log.of(some)
        for epoch in some:
            for number, batch in enumerate(epoch.batches):
                body = get(store, batch.path)
                if body is None:
                    raise FileNotFoundError(f"{batch.path} of epoch {epoch.n} is missing: never skip it")
                order = replace(by, generation=own[batch.id], kept=kept)
                yield from raw_changes(body, epoch.n, batch.id, place_of(epoch.n, number), order)

    found = list(read(epochs, {}))
    until = log.until(generations.values())
    again = Early() if until is None else early(placed_of(found), until)
    older = log.holding(again, generations.values()) if again.names else []
    kept = lowest(again.names, placed_of(read(older, {})))
    return list(read(epochs, kept)) if kept else found


def placed_of(changes: Iterable[Change]) -> Iterator[Placed]:
    """As firn.changes.redelivered looks at them."""
    return ((one["table"], one["ord"], one["ts"]) for one in changes)


def failure_of(error: Exception) -> Failure:
    """LostRace after all tries, and an unknown outcome, pass."""
    return Failure("transient", str(error)) if isinstance(error, LostRace | UnknownOutcome) else failure(error)


def _row(row: Row, names: Mapping[str, str]) -> Row:
    """The row with its values under other names."""
    return replace(row, values=_under(row.values, names), held=_under(row.held, names))


def _change(change: RowChange, names: Mapping[str, str]) -> RowChange:
    values = None if change.values is None else _under(change.values, names)
    return replace(change, values=values, unavailable=frozenset(names.get(one, one) for one in change.unavailable))


def _under(values: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(name, name): value for name, value in values.items()}


def _types(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in columns]


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def _truncates(changes: Iterable[Change]) -> list[tuple[int, RowChange]]:
    return [(one["epoch"], found) for one in changes for found in told.truncates([one])]
