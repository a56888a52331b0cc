"""What the waiting changes make of a table: its new rows, and which of the committed ones they replace or remove."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.io.pyarrow import expression_to_pyarrow

from firn.changes.decode.types import STRING, Column
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.incremental import Known, Truncates, apply, linked_keys, rank
from firn.changes.merge.ordering import plain
from firn.tables.planning import BEFORE, IDENTITY, METADATA, OP, POSITION, SOURCE, TIME
from firn.tables.routing import all_of
from firn.tables.table_state import HELD_IDS, TableState, are_several, fed_by, of_unnamed
from firn_lake.fresh.key_lookup import RowsByKey, values_in
from firn_lake.fresh.pending_table import OWN, Waiting
from firn_lake.fresh.plain_values import typed
from firn_lake.fresh.stamped_cache import Facts, rows_of
from firn_lake.reading.versions import Version
from firn_lake.schemas.arrow_types import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Result:
    """New rows by column, each with the type it has; which keys of the table they replace or remove (`key` are its
    columns); `truncates`: by source table the position up to which its rows are gone (of None: all rows);
    `unnamed`: the source table of rows that name none. `committed`: the table has rows."""

    rows: Mapping[str, Sequence[Any]]
    columns: Mapping[str, Column]
    key: Sequence[Column] = ()
    replaced: Collection[Key] = ()
    truncates: Mapping[str | None, bytes] = field(default_factory=dict)
    unnamed: str | None = None
    committed: bool = True


class Mirror:
    """What the waiting changes make of a mirror table."""

    def __init__(
        self,
        catalog: "Catalog",
        table: "Table | None",
        state: TableState | None,
        waiting: Waiting,
        version: Version,
        where: "str | BooleanExpression | None",
    ) -> None:
        self._waiting, self._version, self._where = waiting, version, where
        self._state, self._key = state, waiting.key
        self._facts = Facts(catalog, table, state) if table is not None and state is not None else None
        self._holds = state is not None and bool(state.properties.get(HELD_IDS))
        self._there = state is not None and state.snapshot_id is not None
        self._sources = fed_by(state, waiting.target.fed)
        self._unnamed = of_unnamed(self._sources)

    def result(self) -> Result:
        """Folds them. Raises UnreadableFile, StorageUnavailable."""
        waiting = self._waiting
        times: dict[bytes, int | None] = {}
        changes: list[RowChange] = []
        for row, change in waiting.decoded():
            if change is not None:
                changes.append(change)
                times[change.order] = row[decoded_rows.TS]
        truncates = waiting.truncates()
        creates = any(c.op == "c" and c.unavailable for c in changes) or (
            self._facts is not None and self._facts.creates
        )
        if not creates:
            changes = self._asked_for(changes)
        touched = {change.key for change in changes}
        several = are_several(self._sources)
        wide = self._holds or creates or several or any(change.unavailable for change in changes)
        rows = dict(self._rows(touched, wide=wide))
        if truncates and self._holds and self._there:
            rows |= {one: row for one, row in self._rows(None, wide=True) if row.held}
        low = min((change.order for change in (*changes, *truncates)), default=b"")
        facts = self._remembered(None if creates else touched, low)
        earlier = [one for one in facts if one.op == "t"]
        known = Truncates(earlier, truncates, are_several((*self._sources, *(one.source for one in earlier))))
        mine: defaultdict[Key, list[RowChange]] = defaultdict(list)
        for change in changes:
            mine[change.key].append(change)
        mixed = {one for one in {*mine, *rows} if known.meet(rows.get(one), mine.get(one, ()))} if known.newest else ()
        linked = linked_keys([*changes, *truncates], facts, mixed) if creates or mixed else set()
        rows |= dict(self._rows(linked - rows.keys(), wide=True))
        removed: Iterable[tuple[Key, Row]] = ()
        if self._facts and linked:
            removed = self._facts.removed(self._version, waiting.plan.columns, self._key, linked, self._unnamed)
        every = all_of(waiting.target, self._state, waiting.pending.settings)
        log = waiting.pending.log(every, waiting.decoding)
        before = Known(rows, tuple(facts), tuple(removed), frozenset(self._sources))
        return self._told(rows, apply(before, [*changes, *truncates], log).rows, linked, times, known)

    def _told(
        self,
        before: Mapping[Key, Row],
        after: Mapping[Key, Row],
        linked: Collection[Key],
        times: Mapping[bytes, int | None],
        truncates: Truncates,
    ) -> Result:
        floor = self._facts.floor if self._facts else b""
        changed: list[Row] = []
        replaced: set[Key] = set()
        for one in {*before, *after}:
            old, new = before.get(one), after.get(one)
            # A row that a move turns out to have brought is another one, of the same order.
            if one not in linked and old and new and (rank(old), old.held) == (rank(new), new.held):
                continue
            if old is not None:
                replaced.add(one)
            late = new is not None and old is None and floor and (plain(new.order) or b"\xff") <= floor
            if new is not None and not late:
                changed.append(new)
        columns = {column.name: column for column in self._waiting.plan.columns} | OWN
        rows: dict[str, list[Any]] = {
            column.name: [row.values.get(column.name) for row in changed] for column in self._waiting.plan.columns
        }
        rows[POSITION] = [plain(row.order) for row in changed]
        rows[TIME] = [None if (at := times.get(row.order)) is None else at * 1000 for row in changed]
        rows[SOURCE] = [None if row.source == self._unnamed else row.source for row in changed]
        newest = [(one.source if truncates.several else None, plain(one.order)) for one in truncates.newest_new]
        gone: dict[str | None, bytes] = {}
        for source, position in newest:
            if position is not None:
                gone[source] = max(position, gone.get(source, b""))
        return Result(rows, columns, self._key, replaced, gone, self._unnamed, self._there)

    def _asked_for(self, changes: list[RowChange]) -> list[RowChange]:
        """Those whose keys the filter wants, where it is about the key alone: no other row can fit it."""
        bound = self._version.bound(self._where)
        ids = {field.field_id for field in self._version.schema.fields if field.name in {c.name for c in self._key}}
        if isinstance(bound, AlwaysTrue) or not extract_field_ids(bound) <= ids or not changes:
            return changes
        schema = self._version.select([column.name for column in self._key], metadata=True)
        keys = list({change.key for change in changes})
        arrays = [
            typed([one[i] for one in keys], column.type, arrow_schema(schema).field(column.name).type)
            for i, column in enumerate(self._key)
        ]
        places = pa.array(range(len(keys)), pa.int64())
        batch = pa.RecordBatch.from_arrays(
            [*arrays, places], names=[*(column.name for column in self._key), "_firn_place"]
        )
        fitting = batch.filter(expression_to_pyarrow(bound, schema)).column("_firn_place").to_pylist()
        wanted = {keys[place] for place in fitting}
        return [change for change in changes if change.key in wanted]

    def _rows(self, keys: Collection[Key] | None, *, wide: bool) -> Iterable[tuple[Key, Row]]:
        if not self._there:
            return ()
        columns = self._waiting.plan.columns if wide else ()
        return rows_of(self._version, columns, self._key, keys, self._unnamed)

    def _remembered(self, keys: Collection[Key] | None, low: bytes) -> list[RowChange]:
        if self._facts is None:
            return []
        found = self._facts.changes(self._key, keys, low)
        # Keys that are folded again want all of them.
        again = keys is None or are_several(self._sources)
        return [*found, *self._facts.truncates()] if self._facts.truncated > (b"" if again else low) else found


def appended(state: TableState | None, waiting: Sequence[Waiting], version: Version) -> Result:
    """What the waiting changes append: those whose identity the table does not have.

    Raises UnreadableFile, StorageUnavailable.
    """
    old = state.first_identity if state is not None else ()
    mine = [
        decoded_rows.Appendable((row for row, _ in one.decoded()), one.stream, first=one.stream in old)
        for one in waiting
    ]
    names = {name for some in mine for name in some.names}
    there = state is not None and state.snapshot_id is not None
    known: set[str] = set()
    if there and names:
        identity = Column(IDENTITY, STRING)
        for batch in RowsByKey(version, [identity], []).batches({(one,) for one in names}):
            known.update(values_in(batch, [identity])[IDENTITY])
    rows = {
        name: (one, row) for one, some in zip(waiting, mine, strict=True) for name, row in some.without(known).items()
    }
    found: dict[str, list[Any]] = {}
    columns = {column.name: column for one in waiting for column in one.plan.columns} | OWN
    for name in columns:
        if name not in METADATA:
            found[name] = [decoded_rows.values_of(row, one.decoding).get(name) for one, row in rows.values()]
    found[OP] = [row[decoded_rows.OP] for _, row in rows.values()]
    found[POSITION] = [row[decoded_rows.POS] for _, row in rows.values()]
    found[TIME] = [None if row[decoded_rows.TS] is None else row[decoded_rows.TS] * 1000 for _, row in rows.values()]
    found[BEFORE] = [row[decoded_rows.BEFORE] for _, row in rows.values()]
    found[IDENTITY] = list(rows)
    return Result(found, columns, committed=there)
