"""A mirror table's plain changes, by columns: whole rows in the order of their source, of which the newest of each key
counts. It is what most ranges are, and takes a fifth of what changes take one by one (merge/decide.py). They come
from columns.decoded.

Plain is a range without truncates, dead letters, unavailable or held values, changes without a position, and null keys,
of which the table remembers nothing newer. The rules are those of changes.incremental for such changes.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.tables.planning import LOOKED, OP, POSITION, SOURCE, TIME, ColumnPlan
from firn.tables.table_state import HELD_IDS, of_unnamed
from firn_spark.driver import column_decoder, row_lookup, values
from firn_spark.driver.delete_memory import DriverMemory
from firn_spark.driver.not_eligible import Unfit
from firn_spark.driver.write import write_columns
from firn_spark.merge import delta
from firn_spark.merge.mirror import Survey
from firn_spark.tables import deletes, fence
from firn_spark.tables.evolve import Table

_COLUMNS_AT_ONCE = 4
_PATH, _PLACE, _THERE = "_path", "_place", "_there"


@dataclass(frozen=True)
class Decided:
    """What becomes of each key.

    good    all decoded changes
    rows    of the newest change of each key, by key: its number in `good`, its key, `_op`, `_order`, and `_path` and
            `_place` of the table's row with that key
    write   which of them are written; `remove`: which remove the table's row
    """

    good: pa.Table
    rows: pa.Table
    write: pa.ChunkedArray
    remove: pa.ChunkedArray

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return int(pc.sum(pc.or_(self.write, self.remove)).as_py() or 0)


def survey(good: pa.Table, decoding: Decoding) -> Survey:
    """What firn_spark.merge.mirror.survey tells of a DataFrame."""
    gone = pc.equal(good["_op"], "d")
    required = [i for i, column in enumerate(decoding.columns) if column.required]
    low, _ = _ends(good["_ord"])
    _, newest = _ends(good["_ord"].filter(gone))
    return Survey(
        changes=len(good),
        rejected=0,
        truncates=0,
        unavailable=(),
        creates_unavailable=False,
        nulls=tuple(i for i in required if good[f"c{i}"].filter(pc.invert(gone)).null_count),
        newest_fact=newest,
        low=low,
    )


def _ends(orders: pa.ChunkedArray) -> tuple[bytes, bytes]:
    ends = pc.min_max(orders)
    return ends["min"].as_py() or b"", ends["max"].as_py() or b""


def in_order(table: Table | None, memory: DriverMemory, seen: Survey) -> bool:
    """Whether the table holds and remembers nothing that these changes would have to be folded with."""
    said = memory.said
    held = table is not None and bool(table.state.properties.get(HELD_IDS))
    return not (held or said.creates or said.newest > seen.low or said.truncated > seen.low)


def decide(
    spark: SparkSession, table: Table | None, good: pa.Table, decoding: Decoding, floor: bytes
) -> Decided | None:
    """What becomes of each key; None if a change may be one whose delete was forgotten, or where two source tables say
    the same of one key at one position. Raises Unfit."""
    last = _newest(good, decoding)
    found = _there(spark, table, last, decoding)
    beside = _beside(last, found, decoding)
    for name in (_PATH, _PLACE, _THERE):
        last = last.append_column(name, found[name].take(beside))
    exists, gone = pc.is_valid(beside), pc.equal(last["_op"], "d")
    # What is there without an order is older than all.
    newer = pc.fill_null(pc.greater(last["_order"], last[_THERE]), True)
    same = pc.fill_null(pc.equal(last["_order"], last[_THERE]), False)
    write = pc.and_(newer, pc.invert(gone))
    removes = pc.and_(exists, pc.or_(newer, pc.and_(gone, same)))
    late = pc.and_(write, pc.invert(exists))
    if decoding.several and pc.any(pc.and_(same, pc.invert(gone))).as_py():
        return None
    if floor and pc.any(pc.and_(late, pc.less_equal(last["_order"], floor))).as_py():
        return None
    return Decided(good, last, write, removes)


def _newest(good: pa.Table, decoding: Decoding) -> pa.Table:
    """The newest change of each key, by key: `_number` in `good`, c… of the key, `_op`, and `_order`: its order without
    the byte that says that it has one. The other columns are by far the most, and stay where they are."""
    names = [f"c{i}" for i in decoding.key]
    orders, numbers = good["_ord"], pa.arange(0, len(good))
    rises = pc.less if decoding.several else pc.less_equal
    rising = pc.all(rises(orders.slice(0, len(orders) - 1), orders.slice(1))).as_py()
    by = [("_ord", "ascending"), *([("_table", "ascending")] if decoding.several else [])]
    oldest_first = numbers if rising else pc.sort_indices(good, by)
    keys = good.select(names) if rising else good.select(names).take(oldest_first)
    last = keys.append_column("_at", numbers).group_by(names).aggregate([("_at", "max")])
    last = last.take(pc.sort_indices(last, [(name, "ascending") for name in names]))["_at_max"]
    chosen = last if rising else oldest_first.take(last)
    rows = good.select([*names, "_op", "_ord"]).take(chosen)
    return rows.append_column("_number", chosen).append_column("_order", column_decoder.order(rows["_ord"]))


def _there(spark: SparkSession, table: Table | None, last: pa.Table, decoding: Decoding) -> pa.Table:
    """c… of the key, `_there` (the order), `_path` and `_place` of the rows that have these keys."""
    key = [decoding.columns[i] for i in decoding.key]
    names = [*(f"c{i}" for i in decoding.key), _THERE, _PATH, _PLACE]
    parts = []
    if table is not None and len(last):
        some = [pc.unique(last[f"c{i}"]) for i in decoding.key]
        files = row_lookup.plan(spark, table, row_lookup.Wanted(key, some=some))
        parts = row_lookup.read_columns(table, files, POSITION, _ends(last["_order"])[0])
    if not parts:
        kinds = [*(values.plain_type(one.type) for one in key), pa.binary(), pa.string(), pa.int64()]
        return pa.table([pa.array([], kind) for kind in kinds], names=names)
    return pa.concat_tables(part.rename_columns(names) for part in parts).unify_dictionaries().combine_chunks()


def _beside(last: pa.Table, found: pa.Table, decoding: Decoding) -> pa.Array:
    """For each row of `last` the number of the found row that has its key, or null. Raises Unfit if there are two."""
    names = [f"c{i}" for i in decoding.key]
    keys = [last[f"c{i}"].cast(values.plain_type(decoding.columns[i].type)) for i in decoding.key]
    if len(names) == 1:  # `last` is sorted by it, and nothing else was looked for
        rows, numbers = pc.search_sorted(keys[0], found[names[0]]), pa.arange(0, len(found))
    else:
        mine = pa.table([*keys, pa.arange(0, len(last))], names=[*names, "_row"])
        both = mine.join(
            found.select(names).append_column("_number", pa.arange(0, len(found))), names, join_type="inner"
        )
        rows, numbers = both["_row"], both["_number"]
    if len(pc.unique(rows)) < len(rows):
        raise Unfit("a key has several rows")
    places = pc.inverse_permutation(_whole(rows.cast(pa.int64())), max_index=len(last) - 1)
    return _whole(numbers).take(places)


def remember(
    memory: DriverMemory,
    plan: ColumnPlan,
    good: pa.Table,
    decoding: Decoding,
    seen: Survey,
    source: str,
    looked: int | None,
    last: int,
) -> None:
    """firn_spark.merge.mirror.remember. `source`: the source table of the changes, if it is one. Raises
    fence.LostRace, fence.CommitUnknown."""
    if not seen.newest_fact:
        return
    read = good.select(
        ["_op", "_ord", "_ts", *(["_table"] if decoding.several else []), *(f"c{i}" for i in decoding.key)]
    )
    gone = read.filter(pc.equal(read["_op"], "d"))
    facts = {decoding.columns[i].name: gone[f"c{i}"] for i in decoding.key}
    facts |= {OP: gone["_op"], POSITION: column_decoder.order(gone["_ord"]), TIME: _micros(gone["_ts"])}
    before = pa.scalar(None if looked is None else str(looked), pa.string())
    facts[LOOKED] = pa.repeat(before, len(gone))
    facts[SOURCE] = gone["_table"] if decoding.several else pa.repeat(pa.scalar(source, pa.string()), len(gone))
    memory.write_columns(plan, facts, seen.newest_fact, last, datetime.now(UTC))


@dataclass(frozen=True)
class Written:
    """Files that are in no snapshot yet: of new rows, and of the places of those that go (`gone`, by data file)."""

    files: Sequence[Any]
    removed: Sequence[Any]
    gone: deletes.Places


def write(spark: SparkSession, table: Table, decided: Decided, plan: ColumnPlan) -> Written:
    """Writes what was decided. Raises fence.LostRace, StorageUnavailable, UnknownOutcome."""
    chosen = _whole(decided.rows["_number"].filter(decided.write))
    with ThreadPoolExecutor(_COLUMNS_AT_ONCE) as pool:
        taken = pool.map(lambda name: decided.good[name].take(chosen), decided.good.column_names)
        rows = dict(zip(decided.good.column_names, taken, strict=True))
    cells = {column.name: rows[f"c{i}"] for i, column in enumerate(plan.columns)}
    cells |= {POSITION: column_decoder.order(rows["_ord"]), TIME: _micros(rows["_ts"])}
    if "_table" in rows:
        unnamed = pa.scalar(of_unnamed(table.state.sources), pa.string())
        told = rows["_table"]
        cells[SOURCE] = pc.if_else(pc.fill_null(pc.equal(told, unnamed), False), pa.scalar(None, pa.string()), told)
    files = write_columns(spark, table, plan.columns, cells, len(chosen))
    gone = decided.rows.select([_PATH, _PLACE]).filter(decided.remove).combine_chunks()
    places = deletes.by_file(gone[_PATH], gone[_PLACE])
    return Written(files, deletes.write_from_driver(spark, table, places) if places else [], places)


def land(
    spark: SparkSession,
    table: Table,
    written: Written,
    snapshot: int | None,
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits what was written in one snapshot, even if no row changes. `snapshot`: the one that was looked at. Raises
    fence.LostRace, fence.CommitUnknown."""
    if not written.files and not written.removed:
        # Only stale changes: an append of nothing carries the progress.
        fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
    else:
        delta.land(spark, table, snapshot, written.files, written.removed, written.gone, properties, stream)


def _micros(milliseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(milliseconds, 1000)


def _whole(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
