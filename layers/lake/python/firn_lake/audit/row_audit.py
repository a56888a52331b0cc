"""The rows of a stream's tables against its log (firn.audit.row_check), read by PyIceberg and without Spark.

The log is read once, for all tables; then each table once. Both are divided by a hash of the key or identity into parts
that are compared one after the other: plain changes with plain rows by the newest of each key (sure_verdicts), and what
that does not settle by the full rule. Memory: some batches and one part, a hundred megabytes or so, and what can't be
divided: all changes of one key, all truncates, and the keys that changed keys with values left out connect. On disk, in
the system's temporary folder: some hundred bytes for each change and row, with `deep` the row itself.
"""

import tempfile
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.schema import Schema

from firn.audit.expected_changes import CannotTell, DecodedChanges, TableLog, changes
from firn.audit.ledger import Ledger, Tick
from firn.audit.ledger_view import Keeping, View
from firn.audit.row_check import AppendRows, Logged, MirrorRows, RowAccount, Values
from firn.audit.sure_verdicts import SureVerdicts, linked
from firn.changes.merge.fold import Key, Row, RowChange
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn_lake.audit.spilled import Spilled
from firn_lake.audit.table_rows import TableRows
from firn_lake.fresh.delete_memory import Facts
from firn_lake.fresh.pending_table import state_of
from firn_lake.fresh.plain_values import plain, typed
from firn_lake.reading.versions import version_at
from firn_lake.refs.rollback import BACK_TO
from firn_lake.schemas.arrow_types import arrow_schema
from firn_lake.tables import epochs_of
from firn_lake.writing.stream_ownership import ancestry

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from firn.log.store import Store

WHOLE_UP_TO: Final = 100_000  # rows: of larger tables a deep audit takes a sample, if nobody says how much
USUAL_SAMPLE: Final = 10_000  # rows
_LOG, _TABLE, _PLAIN_LOG, _PLAIN_TABLE = range(4)
Record = TypeVar("Record", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Depth:
    """How much of the rows is compared.

    deep    all values, not only which change made each row
    rows    of about so many rows of each table; None: WHOLE_UP_TO and USUAL_SAMPLE say it
    share   of this share of them, in place of `rows`
    seed    which rows those are
    one_by_one  each key by the full rule, none by its plain changes alone: the same is found, in ten times as long
    """

    deep: bool = False
    rows: int | None = None
    share: float | None = None
    seed: int = 0
    one_by_one: bool = False

    def of(self, rows: int) -> float:
        """The share of a table with so many rows."""
        if not self.deep:
            return 1.0
        if self.share is not None:
            return min(self.share, 1.0)
        wanted = (rows if rows <= WHOLE_UP_TO else USUAL_SAMPLE) if self.rows is None else self.rows
        return min(1.0, wanted / max(rows, 1))


class Sampling:
    """Which names are looked at: the same of the log and of the table."""

    def __init__(self, share: float, seed: int) -> None:
        self.share = share
        self._salt = seed.to_bytes(8, "big")

    def of(self, records: list[Record]) -> list[Record]:
        """Those of the records, which begin with their name, that are."""
        return records if self.share >= 1 else [one for one in records if self.takes(one[0])]

    def takes(self, name: Hashable) -> bool:
        """Whether this key, or identity, is."""
        if self.share >= 1:
            return True
        digest = blake2b(repr(_alike(name)).encode(), digest_size=8, salt=self._salt).digest()
        return int.from_bytes(digest) < self.share * 2**64


def _alike(name: Any) -> Any:
    """A name as all that are equal to it are written: a zero of a key has no sign."""
    if isinstance(name, tuple):
        return tuple(map(_alike, name))
    return abs(name) if isinstance(name, float | Decimal) and not name else name


class _Table:
    """One table, being audited."""

    def __init__(
        self, catalog: "Catalog", table: "Table", log: TableLog, depth: Depth, folder: Path, events: int
    ) -> None:
        self._catalog, self._iceberg, self.log, self._deep = catalog, table, log, depth.deep
        self.version = version_at(table, None)
        self._rows = log.state.records
        self._sampling = Sampling(depth.of(self._rows), depth.seed)
        mode = "mirror" if log.mirror else "append"
        share = self._sampling.share
        self.found = RowAccount(str(log.name), mode, self.version.id, deep=depth.deep, share=share)
        self._folder, self._name = folder, log.name.slug.replace("/", ".")
        self._records = int((events + self._rows) * share)
        self._spilled = Spilled(folder, self._name, self._records, sides=4)
        self._rows_there = TableRows(self.version, log)
        self._others = False

    def take(self, some: DecodedChanges) -> None:
        """Changes of the log."""
        self._spilled.put_all(_PLAIN_LOG, self._sampling.of(some.plain))
        for one in some.logged:
            self._others = self._others or one.other is not None
            if self._sampling.takes(one.name):
                self._spilled.put(one.name, _LOG, one)

    def judge(self, tick: Tick) -> RowAccount:
        """Reads the table, and compares."""
        log, found = self.log, self.found
        found.whole = log.whole
        done = 0
        for mine, others in self._rows_there:
            self._spilled.put_all(_PLAIN_TABLE, mine if self._others else self._sampling.of(mine))
            for name, row in others:
                if name is None or self._others or self._sampling.takes(name):
                    self._spilled.put(name, _TABLE, (name, row))
            done += len(mine) + len(others)
            tick(found.table, done, max(self._rows, done))
        self._note()
        values = self._values() if self._deep else None
        sure = SureVerdicts(found, log.names, mirror=log.mirror, values=values, truncates=log.truncates)
        if log.mirror:
            self._judge_mirror(sure, values)
        else:
            self._judge_append(sure, values)
        return found

    def _parts(
        self, sure: SureVerdicts, apart: Collection[Key]
    ) -> Iterator[tuple[list[Logged], list[tuple[Any, Any]]]]:
        """What the full rule has to judge: what is not plain, and of what is plain all that is not surely right.
        `apart`: names that are not settled before."""
        for logged, rows, plain_log, plain_rows in self._spilled.parts():
            yield sure.unsettled(plain_log, plain_rows, apart, logged, rows)

    def _judge_mirror(self, sure: SureVerdicts, values: Values | None) -> None:
        log = self.log
        whole_log = self._sampling.share >= 1
        groups = self._linked() if self._deep else set()
        mirror = MirrorRows(
            self.found, whole=log.whole, truncates=log.truncates, refused=log.refused, facts=self._facts, values=values,
            moved=groups if not (whole_log and log.whole) else (),
        )  # fmt: skip
        aside: tuple[list[Logged], list[tuple[Key, Row]]] = ([], [])
        for logged, rows in self._parts(sure, groups):
            if groups:
                aside[0].extend(one for one in logged if one.name in groups)
                aside[1].extend(one for one in rows if one[0] in groups)
                logged = [one for one in logged if one.name not in groups]
                rows = [one for one in rows if one[0] not in groups]
            mirror.judge(logged, rows)
        mirror.judge(*aside)

    def _judge_append(self, sure: SureVerdicts, values: Values | None) -> None:
        # A sample is of first names: whether a row by its other name is of the sample is not known.
        whole = self.log.whole and not (self._others and self._sampling.share < 1)
        append = AppendRows(self.found, whole=whole, values=values)
        again = Spilled(self._folder, self._name + ".again", self._records)
        for logged, rows in self._parts(sure, set()):
            absent, unknown = append.judge(logged, rows, others=self._others)
            for one in absent:
                again.put(one.name, _LOG, one)
            for identity, row in unknown:
                again.put(identity, _TABLE, (identity, row))
        for logged, rows in again.parts():
            append.judge(logged, rows)

    def _note(self) -> None:
        found, log = self.found, self.log
        if log.others:
            found.notes.append(
                f"{found.table} is fed by {', '.join(sorted(log.others))} too: rows that this log does not know are "
                "not judged"
            )
        elif not log.whole:
            found.notes.append(
                f"the log does not reach back to the beginning of {found.table}: older rows are not judged"
            )

    def _linked(self) -> set[Key]:
        """The keys that are folded together."""
        moving = self.log.moving
        if not moving:
            return set()
        return set().union(*(linked(moving, logged, plain_log) for logged, _, plain_log, _ in self._spilled.parts()))

    def _values(self) -> Values:
        kinds = {column.name: column.type for column in self.log.columns}
        stored_names = [column.name for column in self._rows_there.stored_columns()]
        # A table of changes that say nothing has no column but Firn's own.
        arrow = arrow_schema(self.version.select(stored_names, metadata=True) if stored_names else Schema())

        def stored(column: str, values: Any) -> Any:
            if column not in kinds:
                return values
            try:
                into = arrow.field(self._rows_there.stored_name(column)).type
                return plain(typed(values, kinds[column], into), kinds[column])
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                return values  # one that does not fit: it can't be what the table holds

        defaults = {column.name: column.default for column in self.log.columns if column.default is not None}
        return Values(self.log.names, _retyped(self._iceberg), stored, defaults)

    def _facts(self, keys: Collection[Key]) -> Iterable[RowChange]:
        """Deletes and truncates that the table remembers, as far as the log may be younger than they are."""
        facts = Facts(self._catalog, self._iceberg, self.log.state)
        found = [one for one in facts.changes(self.log.key, keys, b"") if one.op == "d"]
        return [*found, *facts.truncates()]


def audit_rows(
    store: "Store",
    catalog: "Catalog",
    ledger: Ledger,
    tables: Mapping[str, "Table"],
    now: datetime,
    keeping: Keeping,
    depth: Depth,
    current: StreamConfig | None = None,
    tick: Tick = lambda *_: None,
) -> list[RowAccount]:
    """Each of the tables, against the log that `ledger` was read from. `tables`: by name, as `ledger` saw them;
    `current`: the stream as it is configured now.

    Raises UnreadableFile, StorageUnavailable, UnreadableBatch.
    """
    view = View(ledger, now, keeping)
    found: dict[str, RowAccount] = {}
    with tempfile.TemporaryDirectory(prefix="firn-audit-") as folder:
        audited: dict[TableName, _Table] = {}
        for name, table in sorted(tables.items()):
            try:
                out = _rolled_back(table, ledger.stream)
                log = TableLog(view, TableName.parse(name), state_of(table), current, deep=depth.deep, out=out)
            except CannotTell as error:
                found[name] = RowAccount(name, notes=[f"the rows of {name} are not judged: {error}"])
                continue
            events = sum(view.routed(log.name, {**view.live, **view.aside}).values())
            audited[log.name] = _Table(catalog, table, log, depth, Path(folder), events)
        logs = [one.log for one in audited.values()]
        for log, some in changes(store, view, logs, tick, one_by_one=depth.one_by_one):
            audited[log.name].take(some)
        for target, one in audited.items():
            found[str(target)] = one.judge(tick)
    return [found[name] for name in sorted(found)]


def _rolled_back(table: "Table", stream: str) -> set[int]:
    """The epochs whose rows a rollback took out of main again, which kept its progress (docs/adr/0024-rollback.md)."""
    history = list(ancestry(table.metadata, table.metadata.current_snapshot_id))
    found: set[int] = set()
    for place, one in enumerate(history):
        to = one.summary.additional_properties.get(BACK_TO) if one.summary else None
        if to is not None:
            low = max((epochs_of(old).get(stream, 0) for old in ancestry(table.metadata, int(to))), default=0)
            high = max((epochs_of(old).get(stream, 0) for old in history[place + 1 :]), default=0)
            found |= set(range(low + 1, high + 1))
    return found


def _retyped(table: "Table") -> set[str]:
    """Columns that got another field id, or another type than Iceberg promotes to, since the table was made."""
    known: dict[str, Counter[int]] = {}
    for schema in table.metadata.schemas:
        for one in schema.fields:
            known.setdefault(one.name, Counter())[one.field_id] += 1
    return {name for name, ids in known.items() if len(ids) > 1}
