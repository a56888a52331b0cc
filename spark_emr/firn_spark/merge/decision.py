"""What becomes of each key of a mirror table: of most by columns (columnar_merge), of the others one by one
(changes.merge.decide), in one commit.

One by one are decided the keys whose newest change is not plain, that a move with unavailable values may reach, or of
which the table or its memory tells more than what is new: a late change costs what its key costs, not the range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.changes.merge import decide, decoded_rows
from firn.changes.merge.fold import RowChange
from firn.changes.merge.ordering import plain as order_of
from firn.commit.staged_changes import Change
from firn_spark.files import adopted_columns, copy_on_write
from firn_spark.files.row_lineage import with_lineage
from firn_spark.files.write import Layout, data_files, layout_of, rows_of, write_rows
from firn_spark.merge import columnar_merge as by_columns
from firn_spark.merge import mirror_commit as by_rows
from firn_spark.merge.delete_memory import DeleteMemory
from firn_spark.merge.key_lookup import Emptied, Found, Lookup, PlainLookup
from firn_spark.merge.shape import Shape
from firn_spark.merge.survey import Survey
from firn_spark.not_eligible import TooMany
from firn_spark.staged.columnar import typed
from firn_spark.staged.decode import decoded_schema
from firn_spark.tables import deletes
from firn_spark.tables.evolve import Table

MOST_ODD = 20_000  # changes of a table that are decoded one by one: a dict each
MOST_ROWS = 50_000  # that are decided one by one
_MOST_REWRITTEN = 1024 * 1024 * 1024  # bytes of files that one process writes again
Row = list[Any]  # changes.merge.decoded_rows


class Changes:
    """The changes of a range for one table, decoded. `whole`, `gaps`: by columns (columnar_merge.halves); `odd`: the
    others as they were staged; of these `good` and `bad`, decoded one by one. `source`: the source table of those that
    tell none."""

    def __init__(self, plain: pa.Table, odd: Sequence[Change], decoding: Decoding, source: str) -> None:
        self.source = source
        self.whole, self.gaps = by_columns.halves(plain)
        self.odd = odd
        self.decoding = decoding
        self.good, self.bad = decoded(odd, decoding, mirror=True)
        self.truncates = decoded_rows.truncates(odd, decoding.names)

    def emptied(self, remembered: bytes) -> bytes:
        """The order up to which truncates, new ones or the newest that is `remembered`, remove everything of a table
        that one source table feeds; b"" for nothing."""
        return max([remembered, *(one.order for one in self.truncates)])

    @cached_property
    def seen(self) -> Survey:
        """What one pass over them tells."""
        others = by_rows.survey(self.good, self.bad, self.decoding)
        parts = (by_columns.survey(part, self.decoding) for part in (self.whole, self.gaps))
        return reduce(by_rows.together, parts, others)


def decoded(changes: Sequence[Mapping[str, Any]], decoding: Decoding, *, mirror: bool) -> tuple[list[Row], list[Row]]:
    """decoded_rows.decoded, where what can't be written is rejected as by the executors."""
    schema = decoded_schema(decoding, ())  # what is beside the columns came out of Arrow
    return decoded_rows.decoded(changes, decoding, mirror=mirror, fit=lambda rows: typed(rows, schema))


@dataclass(frozen=True)
class DecidedRows:
    """What was decided one by one, of `changes`; `found`: what was looked up for that; `times`: of the changes' orders,
    in ms."""

    decided: decide.Decided
    found: Found
    times: Mapping[bytes, int | None]
    changes: Sequence[RowChange]

    def cells(self, sources: Sequence[str | None], shape: Shape, layout: Layout) -> dict[str, Any]:
        """The rows to write by name, for rows_of. `sources`: the table's (table_state). Raises LostRace,
        StorageUnavailable."""
        found: dict[str, Any] = by_rows.cells(sources, self.decided, shape, self.found, self.times)
        if shape.extras:
            lasting = adopted_columns.lasting(self.found.before, self.changes)
            keys = (key for key, _ in by_rows.in_order(self.decided))
            places = [self.found.places.get(key) if key in lasting else None for key in keys]
            fields = [field for field in layout.fields if field.name in shape.extras]
            found |= adopted_columns.values_at(layout.home, places, fields)
        return found

    def gone(self) -> deletes.Places:
        """The places of the rows that go."""
        return by_rows.gone(self.decided, self.found)


@dataclass(frozen=True)
class Decision:
    """`columns`: what was decided by columns, of the changes `whole`; None for nothing; `rows`: one by one; `emptied`:
    the places of the rows that go with a truncate, whatever is decided of their keys."""

    whole: pa.Table
    columns: by_columns.DecidedColumns | None
    rows: DecidedRows
    emptied: deletes.Places

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return self.rows.decided.told + (self.columns.told if self.columns else 0)

    @property
    def way(self) -> str:
        """How it was decided, for the log."""
        return way_of(columns=self.columns is not None, rows=bool(self.rows.times))

    def write(self, spark: SparkSession, table: Table, shape: Shape, *, old: bool) -> by_rows.Written:
        """Writes what was decided, both halves together. `table`: with all columns that it needs; `old`: whether files
        that lose rows are written again. Raises fence.LostRace, StorageUnavailable, UnknownOutcome, Unfit."""
        places = deletes.together((self.emptied, self.rows.gone()))
        arrays: dict[str, Any] = {}
        if self.columns is not None:
            arrays = by_columns.cells(table.state.sources, self.whole, self.columns, shape.columns)
            places = deletes.together((places, by_columns.gone(self.columns)))
        layout = layout_of(table)
        told = self.rows.cells(table.state.sources, shape, layout)
        rows = rows_of(layout, [*shape.columns, *by_rows.METADATA], arrays, told)
        if old and places:
            again = copy_on_write.old_files(spark, table, places, _MOST_REWRITTEN)
            files = copy_on_write.rewritten(with_lineage(layout, table), again.files, rows)
            return by_rows.Written(data_files(spark, table, files), again.removed, places, again.java)
        return by_rows.joined(spark, table, lambda: write_rows(layout, rows), places)


def decide_keys(
    changes: Changes, memory: DeleteMemory, lookup: Lookup, *, one_by_one: bool, most: int = MOST_ROWS
) -> Decision:
    """What becomes of the keys that the changes may concern, all of them decided `one_by_one` or as few as may be.
    Raises what the look-ups raise, and Unfit if more than `most` changes are decided one by one."""
    decoding, floor = changes.decoding, memory.said.floor
    emptied = changes.emptied(memory.said.truncated)
    gone = lookup.emptied(decoding, changes.truncates)
    rows, columns = changes.good, None
    if one_by_one:
        plain = by_columns.together(changes.whole, changes.gaps)
        rows = [*rows, *by_columns.rows_of(plain, decoding, changes.source)]
    elif len(changes.whole) or len(changes.gaps):
        last = by_columns.newest(changes.whole, decoding, emptied)
        moves = moves_of(changes, memory)
        rows = _open(changes, last, moves.among(decoding, changes.whole, changes.gaps))
        apart = Apart(keys_in(rows, gone, decoding), moves)
        columns, left = decide_plain(last, changes.whole, changes.gaps, decoding, floor, emptied, apart, lookup)
        rows = [*rows, *by_columns.rows_of(left, decoding, changes.source)]
    check_odd(len(rows), most)
    decided = decide_rows(rows, changes.truncates, decoding, floor, lookup, gone)
    return Decision(changes.whole, columns, decided, gone.places)


def check_odd(changes: int, most: int) -> None:
    """Raises TooMany for more than so many changes that are not plain."""
    if changes > most:
        raise TooMany(f"more than {most} changes that are not plain")


def way_of(*, columns: bool, rows: bool) -> str:
    """How keys were decided, for the log."""
    if not columns:
        return "rows"
    return "both" if rows else "columns"


def decide_rows(
    rows: Sequence[Row],
    truncates: Sequence[RowChange],
    decoding: Decoding,
    floor: bytes,
    lookup: Lookup,
    emptied: Emptied,
) -> DecidedRows:
    """Decides decoded changes one by one. `emptied`: what Lookup says of the truncates. Raises what the look-ups
    raise."""
    changes = [decoded_rows.row_change(row, decoding) for row in rows]
    found = lookup.before(decoding, changes, truncates, emptied)
    times = {row[decoded_rows.ORD]: row[decoded_rows.TS] for row in rows}
    return DecidedRows(decide.decide(found.before, changes, floor), found, times, changes)


@dataclass(frozen=True)
class Moves:
    """Moves with unavailable values, of which a half is new or remembered: their positions, and the keys of their
    halves, but for those that are plain."""

    positions: frozenset[bytes]
    keys: pa.Table

    def among(self, decoding: Decoding, *parts: pa.Table) -> pa.Table:
        """The keys that they may connect: those of these plain changes, too."""
        return pa.concat_tables([self.keys, *(by_columns.at(part, self.positions, decoding) for part in parts)])


@dataclass(frozen=True)
class Apart:
    """The keys that are decided one by one whatever the table says: `keys`, and those that `moves` connect."""

    keys: pa.Table
    moves: Moves


def moves_of(changes: Changes, memory: DeleteMemory) -> Moves:
    """The moves that reach these changes. Raises Unfit."""
    decoding = changes.decoding
    if not (memory.said.creates or changes.seen.creates_unavailable):
        return Moves(frozenset(), by_columns.keys_of((), decoding))
    new = [decoded_rows.row_change(row, decoding) for row in changes.good]
    known = memory.halves([decoding.columns[i] for i in decoding.key], decide.made_at(new))
    halves = [*known, *new]
    moves = decide.made_at(halves)
    return Moves(moves, by_columns.keys_of({one.key for one in halves if one.position in moves}, decoding))


def keys_in(rows: Sequence[Row], emptied: Emptied, decoding: Decoding) -> pa.Table:
    """The keys of decoded rows, and of those that may lose values by a truncate, each once."""
    keys = {decoded_rows.key_of(row, decoding) for row in rows}
    return by_columns.keys_of(keys.union(emptied.others), decoding)


def decide_plain(
    last: pa.Table,
    whole: pa.Table,
    gaps: pa.Table,
    decoding: Decoding,
    floor: bytes,
    emptied: bytes,
    apart: Apart,
    lookup: PlainLookup,
) -> tuple[by_columns.DecidedColumns, pa.Table]:
    """Decides plain changes (columnar_merge.halves), `last` the newest of each key of the whole ones. -> what was
    decided, and the ones that are left to be decided one by one, both halves together. Raises what the look-ups raise,
    and Unfit."""
    moving = apart.moves.among(decoding, whole, gaps)
    gaps = by_columns.that_count(gaps, last, moving, emptied)
    known = lookup.newer(by_columns.orders(last, decoding), decoding)
    one_by_one = [apart.keys, moving, known, gaps.select(known.column_names)]
    columns = by_columns.decide(lookup, last, decoding, floor, pa.concat_tables(one_by_one))
    # Of a key that no move reaches, all that counts of its whole changes is the newest.
    left = whole.take(pa.concat_arrays([columns.apart, by_columns.numbers_of(whole, moving)]).unique())
    return columns, by_columns.together(left, gaps)


@dataclass(frozen=True)
class SliceDecision:
    """`columns`: what was decided by columns, of the changes `whole`; `rows`: one by one; `left`: the changes that
    somebody else has to decide (columnar_merge.together)."""

    whole: pa.Table
    columns: by_columns.DecidedColumns
    rows: DecidedRows
    left: pa.Table


@dataclass(frozen=True)
class SliceRules:
    """What the slices of a table are decided by. Goes to the executors.

    source      of changes that tell none
    floor       as decide.decide takes it
    emptied     the order up to which truncates remove everything; `truncates`: the new ones
    one_by_one  whether all keys are decided one by one
    apart       the keys that are left to somebody else
    """

    decoding: Decoding
    source: str
    floor: bytes
    emptied: bytes
    truncates: Sequence[RowChange]
    one_by_one: bool
    apart: Apart


def decide_slice(plain: pa.Table, rules: SliceRules, lookup: Lookup) -> SliceDecision:
    """Decides the plain changes (column_decoder.split) of a slice of the keys: all but those of the keys in
    `rules.apart`, of those that would be too old, and of those that are to be folded again. Raises as decide_plain."""
    decoding, apart = rules.decoding, rules.apart
    whole, gaps = by_columns.halves(plain)
    some = (whole.slice(0, 0), gaps.slice(0, 0)) if rules.one_by_one else (whole, gaps)
    last = by_columns.newest(some[0], decoding, rules.emptied)
    columns, left = decide_plain(last, *some, decoding, rules.floor, rules.emptied, apart, lookup)
    if rules.one_by_one:
        left = by_columns.together(whole, gaps)
    others = by_columns.among(left, pa.concat_tables([apart.keys, apart.moves.among(decoding, whole, gaps)]))
    mine, left = left.filter(pc.invert(others)), left.filter(others)
    decided = _by_rows(mine, rules, lookup)
    if not_mine := {*decided.decided.too_old, *decided.found.before.linked}:
        others = by_columns.among(mine, by_columns.keys_of(not_mine, decoding))
        left = pa.concat_tables([left, mine.filter(others)])
        decided = _by_rows(mine.filter(pc.invert(others)), rules, lookup)
    return SliceDecision(whole, columns, decided, left)


def _by_rows(mine: pa.Table, rules: SliceRules, lookup: Lookup) -> DecidedRows:
    rows = by_columns.rows_of(mine, rules.decoding, rules.source)
    return decide_rows(rows, rules.truncates, rules.decoding, rules.floor, lookup, Emptied({}, ()))


def _open(changes: Changes, last: pa.Table, moving: pa.Table) -> list[Row]:
    """The changes that are not plain and that no newer whole row or delete of their key makes nothing of."""
    decoding = changes.decoding
    keys = [decoded_rows.key_of(row, decoding) for row in changes.good]
    newest = by_columns.orders_by_key(last, by_columns.keys_of(set(keys), decoding), decoding)
    for key in by_columns.tuples(moving, decoding):
        newest.pop(key, None)
    some = zip(changes.good, keys, strict=True)
    return [row for row, key in some if key not in newest or (order_of(row[decoded_rows.ORD]) or b"") >= newest[key]]
