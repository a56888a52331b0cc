"""What becomes of each key in a table that several source tables feed, once truncates met it: by the rules themselves
(firn.changes.merge.decide), a key at a time, on the executors.

Values never come to Python: a change's values are the number of its entry, and what is decided says from which entry
each column is taken.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from firn.changes.merge.decide import Before, decide, in_order
from firn.changes.merge.fold import Key, Row, RowChange
from firn.changes.merge.key_rows import Truncates
from firn.changes.merge.ordering import plain, stored_held, total
from firn.changes.positions import WIDTH
from firn_spark.arrow import map_in_arrow
from firn_spark.merge import key_changes
from firn_spark.merge.deciding import Shape, same, source_of, there
from firn_spark.merge.deciding import decide as decide_rows
from firn_spark.merge.folding import same_key
from firn_spark.merge.memory import Memory
from firn_spark.merge.mirror import Survey
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table

_KEY: Key = ()  # all entries of a group have the same
_NEW, _ROW, _DELETE, _LOG = "new", "row", "delete", "log"
_TOLD = ("_kind", "_op", "_ord", "_unavail", "_table", "_held")


@contextmanager
def decided_by_key(
    spark: SparkSession,
    table: Table,
    good: DataFrame,
    memory: Memory,
    shape: Shape,
    truncates: Truncates,
    seen: Survey,
    log: key_changes.Log,
) -> Iterator[DataFrame]:
    """What deciding.decide gives, by the rules themselves. Good inside the `with` only.

    good   the good decoded changes; `seen`: what was surveyed of them
    log    decoded changes of some keys that the staged log still holds
    """
    rows = there(spark, table, shape, wide=True)
    key_schema = pa.schema([_field(shape, i) for i in shape.key])
    others = []
    entries, emptied = _entries(rows, good, memory, shape, truncates, seen.low)
    if seen.creates_unavailable or memory.said.creates:
        met = _grouped(entries, shape, _needing(shape, truncates, every=True), key_schema).toArrow()
        mixed = set(zip(*(met.column(name).to_pylist() for name in met.column_names), strict=True))
        linked = key_changes.find(good, memory, shape, seen.creates_unavailable, truncates.new, mixed)
        if linked:
            moved = key_changes.fold_again(spark, table, good, memory, shape, linked, log, truncates, shape.unnamed)
            named = f.broadcast(moved.keys.select(*(f.col(f"c{i}").alias(f"s{i}") for i in shape.key)))
            on = same("s", "k", shape.key)
            others.append(decide_rows(moved.rows, rows.join(named, on, "left_semi"), shape, None))
            rows = rows.join(named, on, "left_anti")
            good = good.join(f.broadcast(moved.keys), same_key(good, moved.keys, shape.key), "left_anti")
            entries, emptied = _entries(rows, good, memory, shape, truncates, seen.low)
    if emptied is not None:
        others.append(emptied)
    needed = _grouped(entries, shape, _needing(shape, truncates), key_schema).persist()
    try:
        if needed.head() is not None:
            entries = entries.unionByName(_changes(log(needed), _LOG, shape), allowMissingColumns=True)
        decided = _grouped(entries, shape, _deciding(shape, truncates), _schema(rows, shape))
        decided = decided.withColumn("_source", source_of(f.col("_source"), shape))
        yield reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), [decided, *others])
    finally:
        needed.unpersist()


def _entries(
    rows: DataFrame, good: DataFrame, memory: Memory, shape: Shape, truncates: Truncates, low: bytes
) -> tuple[DataFrame, DataFrame | None]:
    """All that is known of the keys to decide, and what becomes of the rows that a truncate alone decides."""
    keys = good.select(*(f.col(f"c{i}").alias(f"s{i}") for i in shape.key)).distinct()
    on = same("s", "k", shape.key)
    parts = [_changes(good, _NEW, shape), _rows(rows.join(keys, on, "left_semi"), shape)]
    deletes = memory.deletes_above(low, good, shape.columns, shape.key) if low else None
    if deletes is not None:
        parts.append(deletes.withColumns({"_kind": f.lit(_DELETE), "_ts": f.lit(None).cast("timestamp")}))
    emptied = None
    if truncates.new:
        left = rows.join(keys, on, "left_anti")
        first = plain(min(one.order for one in truncates.new)) or b""
        late = f.col("t_held").isNotNull() & f.coalesce(f.col("t_pos") > f.lit(first), f.lit(False))
        parts.append(_rows(left.where(late), shape))
        emptied = _emptied(left.where(~late), truncates, shape)
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts), emptied


def _field(shape: Shape, i: int) -> pa.Field:
    return pa.field(f"c{i}", arrow_type(shape.columns[i].type))


def _schema(rows: DataFrame, shape: Shape) -> pa.Schema:
    """Of decided rows; `rows`: as `there` gives them."""
    extras = to_arrow_schema(rows.select(*(f"x{i}" for i in range(len(shape.extras)))).schema)
    own = {
        "_order": pa.binary(), "_ts": pa.timestamp("us", "UTC"), "_held": pa.map_(pa.int32(), pa.binary()),
        "_source": pa.string(), "_write": pa.bool_(), "_remove": pa.bool_(), "t_file": pa.string(),
        "t_row": pa.int64(), "_told": pa.bool_(), "_late": pa.bool_(),
    }  # fmt: skip
    return pa.schema([*(_field(shape, i) for i in range(len(shape.columns))), *extras, *own.items()])


def _changes(changes: DataFrame, kind: str, shape: Shape) -> DataFrame:
    return changes.select(
        *(f"c{i}" for i in range(len(shape.columns))),
        f.lit(kind).alias("_kind"), "_op", "_ord", f.timestamp_millis("_ts").alias("_ts"), "_unavail", "_table",
    )  # fmt: skip


def _rows(rows: DataFrame, shape: Shape) -> DataFrame:
    values = (f.col(f"k{i}" if i in shape.key else f"t{i}").alias(f"c{i}") for i in range(len(shape.columns)))
    return rows.select(
        *values, *(f"x{i}" for i in range(len(shape.extras))), f.lit(_ROW).alias("_kind"),
        f.concat(f.lit(b"\1"), "t_pos").alias("_ord"), f.col("t_ts").alias("_ts"), f.col("t_source").alias("_table"),
        f.col("t_held").alias("_held"), "t_file", "t_row",
    )  # fmt: skip


def _emptied(rows: DataFrame, truncates: Truncates, shape: Shape) -> DataFrame:
    """The rows that the new truncates remove, of keys without a new change."""
    met = f.lit(False)
    for one in truncates.newest_new:
        position = plain(one.order)
        older = f.lit(False) if position is None else f.coalesce(f.col("t_pos") < f.lit(position), f.lit(False))
        its = f.lit(one.source is None) | f.coalesce(f.col("t_source") == f.lit(one.source), f.lit(True))
        met |= its & (f.col("t_pos").isNull() | older)
    gone = rows.where(met)
    return gone.select(
        *(f.col(f"k{i}").alias(f"c{i}") for i in shape.key), "t_file", "t_row",
        f.lit(False).alias("_write"), f.lit(True).alias("_remove"), f.lit(False).alias("_told"),
        f.lit(False).alias("_late"),
    )  # fmt: skip


def _grouped(entries: DataFrame, shape: Shape, function: Any, schema: pa.Schema) -> DataFrame:
    """`function` of each group of entries with the same key: given a struct array of the entries of several groups, and
    where each begins and ends."""
    groups = entries.groupBy(*(f.col(f"c{i}").alias(f"g{i}") for i in shape.key))
    collected = groups.agg(f.collect_list(f.struct(*entries.columns)).alias("entries")).select("entries")

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lists = batch.column(0)
            ends = lists.offsets.to_pylist()
            flat = lists.values
            if len(flat):
                yield function(flat, list(pairwise(ends))).cast(schema)

    return map_in_arrow(collected, work, schema)


class _Group:
    """The entries of one key, as the rules know them."""

    def __init__(
        self, told: Sequence[Sequence[Any]], start: int, end: int, shape: Shape, columns: Sequence[str]
    ) -> None:
        kinds, ops, orders, gaps, sources, helds = told
        self.row: Row | None = None
        self.places: dict[bytes, int] = {}  # the entry that an order is told by
        self.spare: list[int] = []  # entries of rows that are there twice
        self.at: int | None = None
        self.changes: dict[str, list[RowChange]] = {_NEW: [], _DELETE: [], _LOG: []}
        ordinals = {field: f"c{i}" for i, field in shape.held_ids.items()}
        for n in range(start, end):
            order = bytes(orders[n] or b"")
            if kinds[n] == _ROW:
                held = {ordinals[one]: total(bytes(at)) for one, at in helds[n] or () if one in ordinals}
                row = Row(dict.fromkeys(columns, n), total(order[1:]), held, sources[n])
                if self.at is not None:
                    self.spare.append(n)
                    continue
                self.row, self.at = row, n
                self.places.setdefault(row.order, n)
                continue
            op = ops[n]
            values = None if op == "d" else dict.fromkeys(columns, n)
            unavailable = frozenset(f"c{i}" for i in gaps[n] or () if op == "u" and i not in shape.key)
            position = order[1 : 1 + WIDTH] if order[:1] == b"\1" else None
            change = RowChange(op, _KEY, position, order, values, unavailable, sources[n])
            self.changes[kinds[n]].append(change)
            self.places[order] = n

    def before(self, truncates: Truncates) -> Before:
        rows = {} if self.row is None else {_KEY: self.row}
        deletes, late = self.changes[_DELETE], list(self.changes[_LOG])
        if not self.in_order(truncates):
            late += truncates.earlier
        meets = truncates.meet(self.row, self.changes[_NEW])
        linked = {_KEY} if meets else set[Key]()
        return Before(rows, deletes, truncates, linked, list(rows.items()) if meets else (), late)

    def is_alive(self, truncates: Truncates) -> bool:
        """Whether the row that is there goes on, with the columns that changes say nothing of."""
        if self.row is None:
            return False
        deletes = [*self.changes[_DELETE], *(one for one in self.changes[_NEW] if one.op == "d")]
        gone = max([one.order for one in deletes] + [truncates.gone(self.row, ())])
        return gone <= self.row.order

    def in_order(self, truncates: Truncates) -> bool:
        live = [] if self.row is None else [self.row]
        facts = [*self.changes[_DELETE], *truncates.earlier]
        return in_order([*self.changes[_NEW], *truncates.new], live, facts)


def _groups(flat: pa.StructArray, spans: Sequence[tuple[int, int]], shape: Shape) -> Iterator[tuple[int, _Group]]:
    told = [flat.field(name).to_pylist() for name in _TOLD]
    columns = [f"c{i}" for i in range(len(shape.columns))]
    for start, end in spans:
        yield start, _Group(told, start, end, shape, columns)


def _needing(shape: Shape, truncates: Truncates, *, every: bool = False) -> Any:
    """The keys to fold again that only the log tells; `every`: all keys to fold again."""

    def needing(flat: pa.StructArray, spans: Sequence[tuple[int, int]]) -> pa.RecordBatch:
        found = [
            start
            for start, group in _groups(flat, spans, shape)
            if group.before(truncates).linked and (every or not group.in_order(truncates))
        ]
        keys = pa.array(found, pa.int64())
        return pa.RecordBatch.from_pydict({f"c{i}": flat.field(f"c{i}").take(keys) for i in shape.key})

    return needing


def _deciding(shape: Shape, truncates: Truncates) -> Any:
    """What becomes of each key."""

    def deciding(flat: pa.StructArray, spans: Sequence[tuple[int, int]]) -> pa.RecordBatch:
        taken: dict[str, list[int | None]] = {f"c{i}": [] for i in range(len(shape.columns))}
        own: dict[str, list[Any]] = {name: [] for name in ("_order", "_held", "_source", "_write", "_remove", "_told",
                                                           "_late")}  # fmt: skip
        times: list[int | None] = []
        rows: list[int | None] = []
        extra: list[int | None] = []

        def say(values: Mapping[str, int | None], time: int | None, row: int | None, *told: Any) -> None:
            for name, entries in taken.items():
                entries.append(values.get(name))
            times.append(time)
            rows.append(row)
            for entries_of, one in zip(own.values(), told, strict=True):
                entries_of.append(one)

        for start, group in _groups(flat, spans, shape):
            before = group.before(truncates)
            decided = decide(before, group.changes[_NEW], b"")
            new, removed = decided.writes.get(_KEY), bool(decided.removes)
            keys = dict.fromkeys((f"c{i}" for i in shape.key), start)
            late = new is not None and group.row is None and not before.linked
            extra.append(group.at if group.is_alive(truncates) else None)
            if new is None:
                say(keys, None, group.at, None, None, None, False, removed, bool(decided.told), False)
            else:
                order = plain(new.order)
                ids = {f"c{i}": number for i, number in shape.held_ids.items()}
                held = stored_held(order or b"", {ids[name]: at for name, at in new.held.items() if name in ids})
                values, time = {**new.values, **keys}, group.places.get(new.order)
                say(values, time, group.at, order, held, new.source, True, removed, bool(decided.told), late)
            for spare in group.spare:
                extra.append(None)
                say(keys, None, spare, None, None, None, False, True, False, False)

        found: dict[str, Any] = {name: flat.field(name).take(pa.array(at, pa.int64())) for name, at in taken.items()}
        at_row = pa.array(rows, pa.int64())
        kept = pa.array(extra, pa.int64())
        found |= {f"x{i}": flat.field(f"x{i}").take(kept) for i in range(len(shape.extras))}
        found |= {"t_file": flat.field("t_file").take(at_row), "t_row": flat.field("t_row").take(at_row)}
        found["_ts"] = flat.field("_ts").take(pa.array(times, pa.int64()))
        found |= {name: pa.array(values, _OWN[name]) for name, values in own.items()}
        names = [*taken, *(f"x{i}" for i in range(len(shape.extras))), *_ORDER]
        return pa.RecordBatch.from_arrays([found[name] for name in names], names=names)

    return deciding


_ORDER = ("_order", "_ts", "_held", "_source", "_write", "_remove", "t_file", "t_row", "_told", "_late")
_OWN = {
    "_order": pa.binary(), "_held": pa.map_(pa.int32(), pa.binary()), "_source": pa.string(), "_write": pa.bool_(),
    "_remove": pa.bool_(), "_told": pa.bool_(), "_late": pa.bool_(),
}  # fmt: skip
