"""A mirror table's plain changes, by columns: whole rows in the order of their source, of which the newest of each key
counts. It is what most ranges are, and takes a fifth of what changes take one by one (driver.deciding).

Plain is a range without truncates, dead letters, unavailable or held values, changes without a position, and null keys,
of which the table remembers nothing newer. The rules are those of changes.incremental for such changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from firn.changes.rows import READ, Decoding, MirrorDecoder
from firn.jobs.planning import LOOKED, OP, POSITION, TIME, ColumnPlan
from firn_spark import deletes, delta, fence
from firn_spark.decode import decoded, decoded_schema
from firn_spark.driver import lookup, values
from firn_spark.driver.facts import DriverMemory
from firn_spark.driver.unfit import Unfit
from firn_spark.driver.write import write_columns
from firn_spark.evolve import HELD_IDS, Table
from firn_spark.mirror import Survey

_PLACED = b"\1"  # how `_ord` begins for a change with a position
_PATH, _PLACE, _THERE = "_path", "_place", "_there"


@dataclass(frozen=True)
class Decided:
    """The newest change of each key (`rows`, decoded columns and `_order`), which of them are written (`write`), and
    which remove a row of the table, that is at `_path` and `_place` (`remove`)."""

    rows: pa.Table
    write: pa.ChunkedArray
    remove: pa.ChunkedArray

    @property
    def told(self) -> int:
        """How many keys a change decided."""
        return int(pc.sum(pc.or_(self.write, self.remove)).as_py() or 0)


def decode(changes: pa.Table, decoding: Decoding) -> pa.Table | None:
    """The decoded changes; None if one of them is not plain."""
    if pc.any(pc.equal(changes["op"], "t")).as_py() or not _can_be_looked_up(decoding):
        return None
    batches = changes.select(READ).combine_chunks().to_batches()
    found = pa.Table.from_batches(decoded(batches, decoding, MirrorDecoder), decoded_schema(decoding))
    ordered = pc.equal(pc.binary_slice(found["_ord"], 0, 1), _PLACED)
    odd = [found["_code"], found["_unavail"]]
    whole = [found["_pos"], *(found[f"c{i}"] for i in decoding.key)]
    plain = all(one.null_count == len(one) for one in odd) and all(one.null_count == 0 for one in whole)
    return found if plain and pc.all(ordered).as_py() else None


def _can_be_looked_up(decoding: Decoding) -> bool:
    return bool(decoding.key) and all(decoding.columns[i].type.name in lookup.RANGED for i in decoding.key)


def survey(good: pa.Table, decoding: Decoding) -> Survey:
    """What firn_spark.mirror.survey tells of a DataFrame."""
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
    """What becomes of each key; None if a change may be one whose delete was forgotten. Raises Unfit."""
    last = _newest(good, decoding.key)
    found = _there(spark, table, last, decoding)
    if found is None:
        nothing = pa.chunked_array([pa.array([False] * len(last))])
        last = last.append_column(_PATH, pa.nulls(len(last), pa.string()))
        last = last.append_column(_PLACE, pa.nulls(len(last), pa.int64()))
        write = pc.not_equal(last["_op"], "d")
        exists, removes = nothing, nothing
    else:
        keys = [f"c{i}" for i in decoding.key]
        rows = len(last)
        # Apart from the columns, for join takes no lists; in the order of `_row` both stand side by side again.
        last = last.append_column("_row", pa.array(range(rows)))
        plain = [last[f"c{i}"].cast(values.plain_type(decoding.columns[i].type)) for i in decoding.key]
        both = pa.table([*plain, last["_row"]], names=[*keys, "_row"]).join(found, keys, join_type="left outer")
        if len(both) > rows:
            raise Unfit("a key has several rows")
        both = both.sort_by("_row")
        for name in (_PATH, _PLACE, _THERE):
            last = last.append_column(name, both[name])
        exists, gone = pc.is_valid(last[_PATH]), pc.equal(last["_op"], "d")
        # What is there without an order is older than all.
        newer = pc.fill_null(pc.greater(last["_order"], last[_THERE]), True)
        same = pc.fill_null(pc.equal(last["_order"], last[_THERE]), False)
        write = pc.and_(newer, pc.invert(gone))
        removes = pc.and_(exists, pc.or_(newer, pc.and_(gone, same)))
    late = pc.and_(write, pc.invert(exists))
    if floor and pc.any(pc.and_(late, pc.less_equal(last["_order"], floor))).as_py():
        return None
    return Decided(last, write, removes)


def _newest(good: pa.Table, key: Sequence[int]) -> pa.Table:
    """The newest change of each key, with its order without the byte that says that it has one."""
    good = good.append_column("_order", _order(good["_ord"]))
    good = good.take(pc.sort_indices(good, [("_ord", "ascending")]))
    numbered = good.select([f"c{i}" for i in key]).append_column("_n", pa.array(range(len(good))))
    last = numbered.group_by([f"c{i}" for i in key]).aggregate([("_n", "max")])
    return good.take(last["_n_max"])


def _there(spark: SparkSession, table: Table | None, last: pa.Table, decoding: Decoding) -> pa.Table | None:
    """c… of the key, `_there` (the order), `_path` and `_place` of the rows that have these keys; None without any."""
    if table is None or not len(last):
        return None
    key = [decoding.columns[i] for i in decoding.key]
    some = [pc.unique(last[f"c{i}"]) for i in decoding.key]
    files = lookup.plan(spark, table, lookup.Wanted(key, some=some))
    low, _ = _ends(last["_order"])
    parts = lookup.read_columns(table, files, POSITION, low)
    names = [*(f"c{i}" for i in decoding.key), _THERE, _PATH, _PLACE]
    return pa.concat_tables(part.rename_columns(names) for part in parts) if parts else None


def remember(
    memory: DriverMemory,
    plan: ColumnPlan,
    good: pa.Table,
    decoding: Decoding,
    seen: Survey,
    looked: int | None,
    last: int,
) -> None:
    """firn_spark.mirror.remember. Raises fence.LostRace, fence.CommitUnknown."""
    if not seen.newest_fact:
        return
    gone = good.filter(pc.equal(good["_op"], "d"))
    columns = {decoding.columns[i].name: gone[f"c{i}"] for i in decoding.key}
    columns |= {OP: gone["_op"], POSITION: _order(gone["_ord"]), TIME: _micros(gone["_ts"])}
    before = pa.scalar(None if looked is None else str(looked), pa.string())
    columns[LOOKED] = pa.repeat(before, len(gone))
    memory.write_columns(plan, columns, seen.newest_fact, last, datetime.now(UTC))


def apply(
    spark: SparkSession,
    table: Table,
    decided: Decided,
    plan: ColumnPlan,
    snapshot: int | None,
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Commits what was decided in one snapshot, even if no row changes. `snapshot`: the one that was looked at. Raises
    fence.LostRace, fence.CommitUnknown."""
    rows = decided.rows.filter(decided.write)
    columns = {column.name: rows[f"c{i}"] for i, column in enumerate(plan.columns)}
    columns |= {POSITION: rows["_order"], TIME: _micros(rows["_ts"])}
    files = write_columns(spark, table, plan.columns, columns, len(rows))
    gone = decided.rows.filter(decided.remove)
    places = deletes.by_file(*_aligned(gone[_PATH], gone[_PLACE]))
    removed = deletes.write_from_driver(spark, table, places) if places else []
    if not files and not removed:
        # Only stale changes: an append of nothing carries the progress.
        fence.commit(spark, table, table.java.newAppend(), (), properties, stream)
    else:
        delta.land(spark, table, snapshot, files, removed, places, properties, stream)


def _order(totals: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without the byte that says that there is one. With an end: pyarrow 26 fails without."""
    return pc.binary_slice(totals, 1, 1_000)


def _micros(milliseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(milliseconds, 1000)


def _aligned(*columns: pa.ChunkedArray) -> Iterable[pa.ChunkedArray]:
    return [pa.chunked_array([column.combine_chunks()], column.type) for column in columns]
