"""Tables in memory behind the commit job's port: what Spark and Iceberg do, small enough to be broken at every call.

Everything durable is in `Catalog`, which a crash leaves as it is; a `MemoryLake` is what one job holds. Decoding,
planning, folding and dead letters are the real ones; only reading, joining and committing are written here again.

Every call on the catalog goes through `Catalog.call`, and so through `Catalog.around`: a test puts a function there
that gets the call and its effect, and may raise before it, after it (the answer is lost), or keep the effect for later
(it is applied late). See `Call` for what is called.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import count
from typing import Any, Literal, TypeVar

import pytest

from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.texts import retyped, text_of, text_of_double
from firn.changes.decode.types import BOOLEAN, LONG, STRING, Column, Type, decimal
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import is_fact
from firn.changes.merge.decoded_rows import BATCH, CODE, EPOCH, INDEX, MESSAGE, OP, ORD
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.ordering import Order
from firn.changes.redelivery import Early, Placed, early, lowest
from firn.commit.lake import place_of
from firn.commit.rejects import by_table, write_refused, write_rejects
from firn.commit.staged_changes import facts_of, raw_changes, said_by
from firn.config.maintenance import Care, Expiry
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.config.views import View
from firn.errors import TransientError, UnknownOutcome
from firn.log.epochs import Epoch, read_range
from firn.log.generations import Generations
from firn.log.holds import read_all
from firn.log.store import Store, get
from firn.maintenance.cut_coverage import Counted
from firn.maintenance.expiry import Ref, Snapshots, plan
from firn.maintenance.expiry import Snapshot as Dated
from firn.quarantine.rules import IN_TIME, TELLS_COMMIT, High, Span, span_of
from firn.sinks.file_rows import FileRows, SinkRange
from firn.tables import partition_policy
from firn.tables.batch_facts import TableFacts
from firn.tables.failures import Failure, failure
from firn.tables.outcome import Outcome
from firn.tables.routing import Target, all_of
from firn.tables.settled_plan import RowJudge, settled
from firn.tables.table_plan import Planned, with_schemas
from firn.tables.table_state import INFERRED_AS, NO_FIRST_IDENTITY, TableState, progress_in, source_properties
from firn.views.cut import ViewCut
from tests.memory_sink import MemoryFileRows
from tests.memory_table import MemoryTable
from tests.model.memory_following import follow
from tests.model.memory_views import refresh

WAREHOUSE = "memory://warehouse"
NEW = "__firn_new"  # a column with the values of another one in another type, before it has its name
T = TypeVar("T")
Values = Mapping[str, Any]
Change = dict[str, Any]
Decoded = list[Any]  # as firn.changes.merge.decoded_rows reads it
_TRIES = 5


class LostRace(Exception):
    """The stream's progress in the table is no longer what the committer read. Nothing was applied."""


@dataclass(frozen=True)
class Call:
    """One call on the catalog.

    load      the table's state is read
    create    the table is made, if it is not there
    evolve    columns are added or widened
    update    a snapshot with all rows rewritten: their values in the columns that are to have other types
    alter     columns are renamed or swapped, or the partitioning changes: compare-and-set on the newest snapshot
    remember  facts (deletes, truncates, first halves of moves) are appended beside the table, before its commit
    write     a data file is there; no snapshot knows it yet
    commit    compare-and-set on the stream's progress: the snapshot is there at once, or nothing is
    replace   the same for a snapshot with the same rows in other files
    expire    snapshots are taken out of the metadata
    list      all files of the table, live or not
    unlink    a file is removed
    """

    kind: Literal[
        "load",
        "create",
        "evolve",
        "update",
        "alter",
        "remember",
        "write",
        "commit",
        "replace",
        "expire",
        "list",
        "unlink",
    ]
    table: TableName


@dataclass(frozen=True)
class File:
    """A data file; `at`: when it was written."""

    rows: Mapping[Key, Row]
    at: datetime


@dataclass(frozen=True)
class Snapshot:
    """`rows`: by key in a mirror table, by identity in an append table. Never changes. They are what `files` hold, but
    for the places that are `gone`. `called`: first name -> name of the columns that it was made under."""

    id: int
    parent: int | None
    summary: Mapping[str, str]
    rows: Mapping[Key, Row]
    files: frozenset[str] = frozenset()
    gone: frozenset[tuple[str, Key]] = frozenset()
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    called: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> dict[Key, dict[str, Any]]:
        """The rows by key, read by the columns of that time, without those that are just being filled."""
        called = {first: name for first, name in self.called.items() if not name.endswith(NEW)}
        return {key: {name: row.values.get(first) for first, name in called.items()} for key, row in self.rows.items()}


@dataclass
class Table:
    """One table of the catalog. `facts`: (epoch, change); `removed`: rows that a delete took. Rows have their values
    under the name that a column had first (`first`), as Iceberg's files have them under its id. A column that got
    another type has another one since."""

    name: TableName
    uuid: str
    columns: tuple[Column, ...]
    first: tuple[str, ...]
    properties: Mapping[str, str]
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    current: int | None = None
    facts: list[tuple[int, RowChange]] = field(default_factory=list)
    removed: list[tuple[Key, Row]] = field(default_factory=list)
    location: str = ""  # where it lies, if not below WAREHOUSE

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
        """As firn.tables.table_state reads it from Iceberg's metadata."""
        return TableState(
            location=self.location or f"{WAREHOUSE}/{self.name.slug}",
            properties=self.properties,
            fields=tuple(
                {
                    "id": place,
                    "name": column.name,
                    "required": column.required,
                    "type": typed_json(column.type, count(1_000)),
                }
                for place, column in enumerate(self.columns, start=1)
            ),
            snapshot_id=self.current,
            ancestry=tuple(snapshot.summary for snapshot in self.ancestry()),
            uuid=self.uuid,
        )

    def is_as(self, base: "Table", alterations: int = 0) -> "Table":
        """This one, if it still is what was planned for when it was `base`, but for so many alterations. Raises
        LostRace."""
        expected = base.state().basis
        for _ in range(alterations):
            expected = expected.next()
        if self.state().basis != expected:
            raise LostRace(f"{self.name} is {self.state().basis}, not {expected}")
        return self


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
        """Creates the table. Raises LostRace if a twin was quicker: its table may be another one."""

        def make() -> None:
            if name in self.tables:
                raise LostRace(f"{name} is there")
            self.last_id += 1
            first = tuple(column.name for column in columns)
            facts = self.early.pop(name, [])
            self.tables[name] = Table(name, f"uuid-{self.last_id}", columns, first, properties, facts=facts)

        self.call("create", name, make)

    def evolve(self, base: Table, columns: tuple[Column, ...], properties: Mapping[str, str]) -> None:
        """New columns, wider types, other properties. The columns of a twin stay."""
        name = base.name

        def change() -> None:
            table = self._same(base)
            types = {column.name: column.type for column in columns}
            known = tuple(replace(one, type=types.get(one.name, one.type)) for one in table.columns)
            there = {column.name for column in (*base.columns, *known)}
            new = tuple(column for column in columns if column.name not in there)
            # A column may get another type more than once, each time through a new one.
            first = tuple(one.name + "'" * (one.name.endswith(NEW) and one.name in table.first) for one in new)
            assert not {*first} & {*table.first}, f"{name}: an old name is another column"
            table.columns = (*known, *new)
            table.first += first
            table.properties = {**table.properties, **properties}

        self.call("evolve", name, change)

    def update(self, base: Table, rows: Mapping[Key, Row]) -> int:
        """One snapshot more, with all rows of the newest one rewritten. -> its id. Raises LostRace if it is not the
        newest any more."""
        path = self.write(base.name, rows)

        def swap() -> int:
            table = self._same(base)
            if table.current != base.current:
                raise LostRace(f"{base.name}: rows came while they were rewritten")
            self._add(table, rows, {"operation": "overwrite"}, {path}, ())
            return self.last_id

        return self.call("update", base.name, swap)

    def alter(
        self,
        base: Table,
        properties: Mapping[str, str],
        names: Mapping[str, str],
        dropped: Sequence[str] = (),
        *,
        marked: bool = True,
    ) -> None:
        """Columns go (`dropped`), others get their names (old -> new), and properties are set, with a snapshot of
        nothing that marks it (`marked`), all at once. Raises LostRace if anything was committed since `base`."""

        def change() -> None:
            table = self._same(base)
            table.is_as(base)
            if marked and table.current != base.current:
                raise LostRace(f"{base.name} was committed to")
            kept = [(c, f) for c, f in zip(table.columns, table.first, strict=True) if c.name not in dropped]
            table.columns = tuple(replace(column, name=names.get(column.name, column.name)) for column, _ in kept)
            table.first = tuple(first for _, first in kept)
            table.properties = {**table.properties, **properties}
            if marked:
                head = table.snapshots[table.current] if table.current is not None else None
                mark = table.state().basis.next().summary()
                self._add(table, head.rows if head else {}, mark, head.files if head else (), head.gone if head else ())

        self.call("alter", base.name, change)

    def _same(self, base: Table) -> Table:
        """The table as it is now. Raises LostRace if it is gone, or another one of the same name."""
        table = self.tables.get(base.name)
        if table is None or table.uuid != base.uuid:
            raise LostRace(f"{base.name} was dropped")
        return table

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
        told = {**summary, **base.state().basis.summary()}

        def swap() -> None:
            table = self._same(base).is_as(base)
            if table.progress(stream) != expected:
                raise LostRace(f"{name}: the progress is {table.progress(stream)}, not {expected}")
            head = table.snapshots[table.current] if table.current is not None else None
            files = head.files if head else frozenset()
            if moved := {file for file, _ in gone} - files:
                raise LostRace(f"{name}: rows of {sorted(moved)} are elsewhere")
            self._add(
                table, (head.rows if head else {}) | new, told, files | ({path} if path else set()),
                (head.gone if head else frozenset()) | gone, without=[key for key, row in rows.items() if row is None],
            )  # fmt: skip

        self.call("commit", name, swap)

    def replace(
        self,
        base: Table,
        stream: str,
        expected: int,
        columns: tuple[Column, ...],
        rows: Mapping[Key, Row],
        summary: Mapping[str, str],
    ) -> int:
        """One snapshot of these columns and rows alone. -> its id. Raises LostRace as `commit` does."""
        path = self.write(base.name, rows)

        def swap() -> int:
            table = self._same(base)
            if table.progress(stream) != expected:
                raise LostRace(f"{base.name}: the progress is {table.progress(stream)}, not {expected}")
            table.columns, table.first = columns, tuple(column.name for column in columns)
            self._add(table, rows, summary, {path}, ())
            return self.last_id

        return self.call("commit", base.name, swap)

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
            table = self._same(base).is_as(base)
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
        """All but the newest `keep` snapshots go, but for those that maintenance/expiry.py keeps; then the files that
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
            patch.setattr("firn.maintenance.expiry.FEWEST_SNAPSHOTS", 1)
            found = plan(known, policy, _ms(self.clock()) + 10_000, must_stay=said.snapshots, counted=said.epochs)
        before = table.used

        def take() -> None:
            now = self._same(base)
            assert now.current not in found.expired, "the current snapshot"
            for one in found.expired:
                now.snapshots.pop(one, None)

        # Iceberg refuses what a branch still refers to, and takes the rest out of whatever the metadata is by then.
        current = self._same(base).current
        if found.expired and current not in found.expired:
            self.call("expire", name, take)
            for path in sorted(before - self._same(base).used):
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

    def drop(self, name: TableName) -> None:
        """By hand: the table is gone, with what is remembered beside it and all its files."""
        del self.tables[name]
        self.files.pop(name, None)

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
            self.last_id, table.current, dict(summary), left, frozenset(files), frozenset(gone), self.clock(),
            table.called,
        )  # fmt: skip
        table.current = self.last_id


class MemoryLake:
    """One job's hold on the catalog: a firn.commit.lake.Lake."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self.store = store
        self.catalog = catalog
        self.databases: tuple[str, ...] = ()  # which namespaces may be used; none: all
        self.looks_at_once = 1  # faults come in one order
        self.looked: dict[TableName, TableState | None] = {}

    @property
    def warehouse(self) -> str:
        """URL below which tables lie."""
        return WAREHOUSE

    def expect(self, settings: StreamConfig, epochs: Mapping[int, Epoch]) -> None:
        """Nothing here takes long."""

    def state(self, table: TableName) -> TableState | None:
        """The table as the catalog has it now; None if there is none. Raises PermissionError, as Glue refuses, for one
        of a namespace that may not be used."""
        if self.databases and table.namespace not in self.databases:
            raise PermissionError(f"not authorized to perform glue:GetTable on {table}")
        found = self.catalog.load(table)
        self.looked[table] = found.state() if found else None
        return self.looked[table]

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> "MemoryRange":
        """Read these epochs."""
        return MemoryRange(self, stream, settings, epochs, last)

    def follow(self, stream: str, settings: StreamConfig, pipeline: Pipeline, base: TableName) -> Outcome | None:
        """Bring the mirror that a pipeline makes to where its base is now."""
        failed = Outcome(str(pipeline.target), (pipeline.source,), mode="mirror")
        return _tried(failed, lambda: follow(self.catalog, stream, pipeline, base))

    def refresh(self, stream: str, settings: StreamConfig, view: View, at: ViewCut) -> Outcome | None:
        """Bring a view to a cut."""
        failed = Outcome(str(view.table), tuple(map(str, view.sources)), mode="view")
        return _tried(failed, lambda: refresh(self.catalog, stream, settings, view, at))

    def files(self, sink: SinkRange) -> FileRows:
        """The rows of a file sink."""
        return MemoryFileRows(self.store, sink)

    def care(self, stream: str, table: TableName, care: Care, now: datetime) -> Iterator[dict[str, Any]]:
        """The test itself cares for the tables (World.care), at any moment and not only at their turns."""
        return iter(())

    def failure(self, error: Exception) -> Failure:
        """What an exception means."""
        return failure_of(error)


_Told = TypeVar("_Told", Outcome, Outcome | None)


def _tried(failed: Outcome, once: Callable[[], _Told]) -> _Told:
    """What `once` gives, tried again where another writer was quicker; else `failed`, with the failure in it."""
    try:
        for left in reversed(range(_TRIES)):
            try:
                return once()
            except LostRace:
                if not left:
                    raise
    except Exception as error:  # noqa: BLE001 (as the port says)
        found = failure_of(error)
        failed.status, failed.error, failed.failure = "failed", found.text, found.kind
    return failed


class MemoryRange:
    """The changes of some epochs: a firn.commit.lake.Range."""

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
        self._seen = {name: state.progress(stream) for name, state in lake.looked.items() if state is not None}

    @cached_property
    def facts(self) -> Mapping[str, TableFacts]:
        """What the changes say about their tables, by source table."""
        return _facts_told(self._changes)

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
        return _tried(Outcome(str(target.name), target.sources), lambda: self._once(target.above(above), above))

    def refuse(self, places: Mapping[str, TableName | str], code: str, message: str) -> Mapping[str, Mapping[str, int]]:
        """Dead letters for all changes of source tables that no table takes."""
        rows = [self._letter(change, code, message) for change in self._changes if change["table"] in places]
        return by_table(write_refused(self._lake.store, self._stream, places, self._epochs, rows))

    def close(self) -> None:
        """Nothing is held but memory."""

    def _once(self, target: Target, above: int) -> Outcome:
        table = self._catalog.load(target.name)
        if table:
            table = self._finished(table)
        progress = table.progress(self._stream) if table else 0
        if progress < self._seen.setdefault(target.name, progress):
            raise TransientError(f"{target.name} was set back or made again while a job was at it")
        outcome = Outcome(str(target.name), target.sources, progress=progress, events=target.events(progress))
        if outcome.events == 0:
            outcome.status, outcome.snapshot_id = "skipped", table.current if table else None
            return outcome
        floor = max(progress, above)
        mine = [one for one in self._changes if one["table"] in target.sources and one["epoch"] > floor]
        judge, exact = RowJudge(_by_batch(mine)), floor < min(self._epochs)
        state = table.state() if table else None
        plan = settled(target.above(progress), self._settings, state, judge, exact=exact)
        if table and not (plan.renames.properties().items() <= table.properties.items() and not plan.due):
            inferred = {plan.due.get(name, name): kind for name, kind in table.state().inferred.items()}
            remembered = {**plan.renames.properties(), INFERRED_AS: json.dumps(inferred)}
            self._catalog.alter(table, remembered, plan.due, marked=bool(plan.due))
            table = self._loaded(table, alterations=bool(plan.due))
        outcome.mode, decoding = plan.mode.name, plan.decoding
        good, bad = decoded_rows.decoded(mine, decoding, mirror=outcome.mode == "mirror")
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
        if table.progress(self._stream) != progress:
            raise LostRace(f"{table.name} moved while its columns were made ready")
        if outcome.mode == "mirror":
            rows = self._merged(table, good, mine, decoding, target)
            kept = min(
                len({decoded_rows.key_of(row, decoding) for row in good}),
                outcome.events - outcome.ignored - outcome.dead,
            )
        else:
            rows = self._appended(table, good, decoding)
            kept = len(rows)
        outcome.merged = kept
        outcome.superseded = outcome.events - outcome.ignored - outcome.dead - outcome.merged
        summary = outcome.summary(self._stream, self._epochs, self._last, counted=not target.back)
        self._catalog.commit(table, self._stream, progress, rows, summary)
        after = self._catalog.load(target.name)
        outcome.snapshot_id = after.current if after else None
        return outcome

    def _ready(self, target: Target, table: Table | None, plan: Planned) -> Table:
        columns, inferred = plan.columns.columns, {INFERRED_AS: json.dumps(plan.columns.inferred)}
        wanted = plan.renames.rule(target.rule).partition_by
        fed: dict[str, str] = {}
        if plan.mode.keyed:
            fed = source_properties(table.state() if table else None, target.fed)
        if table is None:
            properties = {"firn.key": json.dumps(plan.key), "firn.mode": plan.mode.name, "firn.stream": self._stream}
            properties |= NO_FIRST_IDENTITY if not plan.mode.keyed else {}
            properties |= partition_policy.asked(wanted) if wanted else {}
            self._catalog.create(target.name, columns, properties | inferred | plan.renames.properties() | fed)
            return self._created(target.name)
        fed |= table.state().identities if not plan.mode.keyed else {}
        table = self._retyped(table, plan.columns.retyped)
        types = {column.name: str(column.type) for column in table.columns}
        if (
            any(types.get(one.name) != str(one.type) for one in columns)
            or table.state().inferred != plan.columns.inferred
            or not fed.items() <= table.properties.items()
        ):
            self._catalog.evolve(table, columns, inferred | fed)
            table = self._loaded(table)
        if table.state().key() is not None and partition_policy.differs(wanted, table.properties, lambda: ()):
            self._catalog.alter(table, partition_policy.asked(wanted), {})
            table = self._loaded(table, alterations=1)
        return table

    def _retyped(self, table: Table, columns: Sequence[Column]) -> Table:
        """The table with these columns in their new types, by the steps of firn_spark.tables.retype."""
        if not columns:
            return table
        there = {column.name: column.type for column in table.columns}
        new = [replace(one, name=one.name + NEW) for one in columns if one.name + NEW not in there]
        if new:
            self._catalog.evolve(table, tuple(new), {})
            table = self._loaded(table)
        first = {name: first for first, name in table.called.items()}
        moved = {first[one.name]: first[one.name + NEW] for one in columns}
        kinds = {first[one.name]: retyped(there[one.name], one.type) for one in columns}
        if table.current is not None:
            types = there | {one.name: one.type for one in columns}
            key_types = [types[name] for name in table.state().key() or ()]
            rows = {
                _keyed(key, key_types): _converted(row, moved, kinds)
                for key, row in table.snapshots[table.current].rows.items()
            }
            updated = self._catalog.update(table, rows)
            table = self._loaded(table)
            if table.current != updated:
                raise LostRace(f"{table.name}: rows came after the update")  # and the next try finishes it
        names = {one.name + NEW: one.name for one in columns}
        self._catalog.alter(table, {}, names, tuple(names.values()))
        return self._loaded(table, alterations=1)

    def _finished(self, table: Table) -> Table:
        """What a job that died left half-way."""
        begun = [one for one in table.columns if one.name.endswith(NEW)]
        return self._retyped(table, [replace(one, name=one.name.removesuffix(NEW)) for one in begun])

    def _created(self, name: TableName) -> Table:
        found = self._catalog.load(name)
        if found is None:
            raise LostRace(f"{name} was dropped")
        return found

    def _loaded(self, before: Table, alterations: int = 0) -> Table:
        return self._created(before.name).is_as(before, alterations)

    def _merged(
        self, table: Table, good: list[Decoded], mine: list[Change], decoding: Decoding, target: Target
    ) -> dict[Key, Row | None]:
        """What the changes make of the table's rows; facts are written first."""
        changes = [(row[EPOCH], decoded_rows.row_change(row, decoding)) for row in good]
        changes += _truncates(mine)
        called, first = table.called, {name: first for first, name in table.called.items()}
        rows = table.snapshots[table.current].rows if table.current is not None else {}

        def log(keys: Any) -> list[RowChange]:
            whole, held = all_of(target, table.state(), self._settings), read_all(self._lake.store, self._stream)
            sealed = read_range(self._lake.store, self._stream, 1, self._last)
            staged = self._read(epoch for epoch in sealed if not held.leaves_out(str(target.name), epoch.n))
            every = with_schemas(decoding, whole, _facts_told(staged))
            said, _ = decoded_rows.decoded([one for one in staged if one["table"] in whole.sources], every, mirror=True)
            return [change for change in (decoded_rows.row_change(row, every) for row in said) if change.key in keys]

        types = [decoding.columns[i].type for i in decoding.key]
        facts = [_change(fact, called) for epoch, fact in table.facts if epoch <= self._last]
        known = MemoryTable(
            {key: _row(row, called) for key, row in rows.items()},
            frozenset(table.state().sources),
            [replace(fact, key=_keyed(fact.key, types)) for fact in facts],
            [(_keyed(key, types), _row(row, called)) for key, row in table.removed],
            log,
        )
        batch = [change for _, change in changes]
        decided = known.decided(batch)
        new = [(epoch, _change(change, first)) for epoch, change in changes if is_fact(change)]
        taken = [(key, _row(row, first)) for key, row in known.taken(batch)]
        if new or taken:
            self._catalog.remember(target.name, new, taken)
        return dict.fromkeys(decided.removes) | {key: _row(row, first) for key, row in decided.writes.items()}

    def _appended(self, table: Table, good: list[Decoded], decoding: Decoding) -> dict[Key, Row | None]:
        """The changes whose identity the table does not hold yet."""
        there = table.snapshots[table.current].rows if table.current is not None else {}
        first = {name: first for first, name in table.called.items()}
        mine = decoded_rows.Appendable(good, self._stream, first=self._stream in table.state().first_identity)
        new = mine.without({name for (name,) in there})
        return {(name,): _row(Row(decoded_rows.values_of(row, decoding), row[ORD]), first) for name, row in new.items()}

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


def _facts_told(changes: Sequence[dict[str, Any]]) -> Mapping[str, TableFacts]:
    """What raw changes say about their tables, by source table. Those that can't be asked get a fault."""
    said = [
        fact | {"epoch": rows[0]["epoch"], "batch": rows[0]["batch"]}
        for rows in _by_batch(changes)
        for fact in said_by(rows)
    ]
    return facts_of(Counter((one["table"], one["epoch"], one["op"]) for one in changes), said)


def _by_batch(changes: Sequence[Change]) -> list[list[Change]]:
    batches: dict[tuple[int, str], list[Change]] = {}
    for one in changes:
        batches.setdefault((one["epoch"], one["batch"]), []).append(one)
    return list(batches.values())


def placed_of(changes: Iterable[Change]) -> Iterator[Placed]:
    """As firn.changes.redelivery looks at them."""
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


def _converted(row: Row, moved: Mapping[str, str], kinds: Mapping[str, Callable[[Any], Any]]) -> Row:
    """The row with its values in their new types under other first names too, and what it holds under those alone.
    `kinds`: what makes such a value of an old one, by old first name."""
    values = {old: row.values.get(old) for old in moved}
    told = {moved[old]: None if value is None else kinds[old](value) for old, value in values.items()}
    return replace(row, values={**row.values, **told}, held=_under(row.held, moved))


def _keyed(key: Key, types: Sequence[Type]) -> Key:
    """The key with what is text by now as text."""
    if len(key) != len(types):  # a truncate's, or a name of its own in an append table
        return key
    return tuple(_text(value) if kind == STRING else value for value, kind in zip(key, types, strict=True))


def _text(value: Any) -> Any:
    match value:
        case bool():
            return text_of(BOOLEAN)(value)
        case int():
            return text_of(LONG)(value)
        case float():
            return text_of_double(value)
        case Decimal():
            return text_of(decimal(38, 0))(value)
    return value


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def _truncates(changes: Iterable[Change]) -> list[tuple[int, RowChange]]:
    return [(one["epoch"], found) for one in changes for found in decoded_rows.truncates([one], {})]
