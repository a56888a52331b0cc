"""What the waiting changes make of a table: its new rows, and which of the committed ones they replace or remove."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.io.pyarrow import expression_to_pyarrow

from firn.changes.decode.types import STRING, Column
from firn.changes.merge import decoded_rows
from firn.changes.merge.decide import decide, look, may_move
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.ordering import plain
from firn.changes.metadata_columns import BEFORE, IDENTITY, METADATA, OP, POSITION, SOURCE, STREAM, TIME, TRANSACTION
from firn.tables.routing import all_of
from firn.tables.table_state import HELD_IDS, TableState, fed_by, of_unnamed
from firn_lake.fresh.delete_memory import Facts
from firn_lake.fresh.key_lookup import RowsByKey, values_in
from firn_lake.fresh.pending_table import OWN, Fed, Waiting
from firn_lake.fresh.plain_values import typed
from firn_lake.fresh.stored_rows import Stored, StoredTable
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


def mirrored(
    catalog: "Catalog",
    table: "Table | None",
    state: TableState | None,
    waiting: Waiting,
    version: Version,
    where: "str | BooleanExpression | None",
    *,
    stored: "Callable[[Sequence[Column], str | None], Stored] | None" = None,
    keep: Callable[[Row], bool] | None = None,
) -> Result:
    """What the waiting changes make of a mirror table. `stored`: how its rows are looked up, of the columns of its key
    and the source table of rows that name none, if it is several tables (`table` is the one that leads); `keep`: which
    of the new rows there are. Raises UnreadableFile, StorageUnavailable."""
    unnamed = of_unnamed(fed_by(state, waiting.target.fed))
    rows_there = (stored or partial(StoredTable, table, version))(waiting.key, unnamed)
    ground = _Ground(Facts(catalog, table, state), state, waiting, rows_there)
    times: dict[bytes, int | None] = {}
    changes: list[RowChange] = []
    for row, change in waiting.decoded():
        if change is not None:
            changes.append(change)
            times[change.order] = row[decoded_rows.TS]
    truncates = waiting.truncates()
    if not may_move(ground, changes):
        changes = _asked_for(changes, waiting.key, version, where)
        if not truncates and not ground.newest_truncate:
            rows_there.expect(changes)
    ground.touched = {change.key for change in changes}
    before = look(ground, changes, truncates, ground.sources)
    decided = decide(before, changes, ground.floor)
    new = [row for row in decided.writes.values() if keep is None or keep(row)]
    columns = {column.name: column for column in waiting.plan.columns}
    rows: dict[str, list[Any]] = {name: [row.values.get(name) for row in new] for name in columns}
    rows[POSITION] = [plain(row.order) for row in new]
    rows[TIME] = [None if (at := times.get(row.order)) is None else at * 1000 for row in new]
    rows[SOURCE] = [None if row.source == ground.unnamed else row.source for row in new]
    gone: dict[str | None, bytes] = {}
    for one in before.truncates.newest_new:
        source, position = one.source if before.truncates.several else None, plain(one.order)
        if position is not None:
            gone[source] = max(position, gone.get(source, b""))
    return Result(rows, columns | OWN, waiting.key, set(decided.removes), gone, ground.unnamed, ground.there)


class _Ground:
    """A table and its facts (decide.Ground), as PyIceberg reads them. `touched`: the keys of the new changes."""

    def __init__(self, facts: Facts, state: TableState | None, waiting: Waiting, stored: Stored) -> None:
        self._facts, self._stored = facts, stored
        self._key, self._columns = waiting.key, waiting.plan.columns
        self.newest_truncate, self.creates, self.floor = self._facts.truncated, self._facts.creates, self._facts.floor
        self.holds = state is not None and bool(state.properties.get(HELD_IDS))
        self.there = state is not None and state.snapshot_id is not None
        self.sources = fed_by(state, waiting.target.fed)
        self.unnamed = stored.unnamed
        self.touched: Collection[Key] = ()
        self.truncates = self._facts.truncates
        self.log = waiting.pending.log(all_of(waiting.target, state, waiting.pending.settings), waiting.decoding)

    def rows(self, keys: Collection[Key] | None, columns: Collection[str] | None) -> Mapping[Key, Row]:
        """As decide.Ground says. What a truncate only removes is left out: `Result.truncates` says that."""
        if not self.there:
            return {}
        read = [column for column in self._columns if columns is None or column.name in columns]
        found = self._stored.rows(read, self.touched if keys is None else keys)
        if keys is None and self.holds:
            every = self._stored.rows(read, None)
            return {**{key: row for key, row in every if row.held}, **dict(found)}
        return dict(found)

    def facts(self, keys: Collection[Key], low: bytes) -> Sequence[RowChange]:
        """As decide.Ground says."""
        return self._facts.changes(self._key, keys, low)

    def halves(self, positions: Collection[bytes]) -> Sequence[RowChange]:
        """As decide.Ground says."""
        return self._facts.halves(self._key, positions)

    def removed(self, keys: Collection[Key]) -> Iterable[tuple[Key, Row]]:
        """As decide.Ground says."""
        return self._facts.removed(self._stored, self._columns, keys)


def _asked_for(
    changes: list[RowChange], key: Sequence[Column], version: Version, where: "str | BooleanExpression | None"
) -> list[RowChange]:
    """Those whose keys the filter wants, where it is about the key alone: no other row can fit it."""
    bound = version.bound(where)
    ids = {field.field_id for field in version.schema.fields if field.name in {column.name for column in key}}
    if isinstance(bound, AlwaysTrue) or not extract_field_ids(bound) <= ids or not changes:
        return changes
    schema = version.select([column.name for column in key], metadata=True)
    keys = list({change.key for change in changes})
    arrays = [
        typed([one[i] for one in keys], column.type, arrow_schema(schema).field(column.name).type)
        for i, column in enumerate(key)
    ]
    places = pa.array(range(len(keys)), pa.int64())
    batch = pa.RecordBatch.from_arrays([*arrays, places], names=[*(column.name for column in key), "_firn_place"])
    fitting = batch.filter(expression_to_pyarrow(bound, schema)).column("_firn_place").to_pylist()
    wanted = {keys[place] for place in fitting}
    return [change for change in changes if change.key in wanted]


def appended(state: TableState | None, waiting: Sequence[Waiting], version: Version) -> Result:
    """What the waiting changes append: those whose identity the table does not have.

    Raises UnreadableFile, StorageUnavailable.
    """
    old = state.first_identity if state is not None else ()
    plain = [one for one in waiting if not one.feeds]
    mine = [
        decoded_rows.Appendable((row for row, _ in one.decoded()), one.stream, first=one.stream in old) for one in plain
    ]
    through = _through_sql([one for one in waiting if one.feeds])
    names = {*through, *(name for some in mine for name in some.names)}
    there = state is not None and state.snapshot_id is not None
    known: set[str] = set()
    if there and names:
        identity = Column(IDENTITY, STRING)
        for batch in RowsByKey(version, [identity], []).batches({(one,) for one in names}):
            known.update(values_in(batch, [identity])[IDENTITY])
    rows: dict[str, Fed] = {}
    for one, some in zip(plain, mine, strict=True):
        for name, row in some.without(known).items():
            rows.setdefault(name, Fed(row, decoded_rows.values_of(row, one.decoding), one))
    for name, fed in through.items():
        if name not in known:
            rows.setdefault(name, fed)
    changes = [one.change for one in rows.values()]
    found: dict[str, list[Any]] = {}
    columns = {column.name: column for one in waiting for column in one.plan.columns} | OWN
    for name in columns:
        if name not in METADATA:
            found[name] = [one.values.get(name) for one in rows.values()]
    found[OP] = [row[decoded_rows.OP] for row in changes]
    found[POSITION] = [row[decoded_rows.POS] for row in changes]
    found[TIME] = [None if row[decoded_rows.TS] is None else row[decoded_rows.TS] * 1000 for row in changes]
    found[BEFORE] = [row[decoded_rows.BEFORE] for row in changes]
    found[IDENTITY] = list(rows)
    for name in frozenset[str]().union(*(one.asked for one in waiting)):
        found[name] = [_asked(name, one) if name in one.of.asked else None for one in rows.values()]
    return Result(found, columns, committed=there)


def _asked(name: str, row: Fed) -> str | None:
    """What a row has in a column of ASKED_METADATA."""
    change, of = row.change, row.of
    if name == TRANSACTION:
        return of.transactions.get((change[decoded_rows.BATCH], change[decoded_rows.INDEX]))
    return of.stream if name == STREAM else str(change[decoded_rows.TABLE])


def _through_sql(waiting: Sequence[Waiting]) -> dict[str, Fed]:
    """The rows that changes become in pipelines, by identity."""
    if not waiting:
        return {}
    from firn_lake.fresh.through_sql import fed  # with DuckDB, which most tables can do without

    found: dict[str, Fed] = {}
    for one in waiting:
        for name, row in fed(one).items():
            found.setdefault(name, row)
    return found
