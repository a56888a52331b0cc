"""Changed primary keys whose new row leaves values out: rare, so the specification itself (changes/merge/fold.py) folds
them, on the driver.

Debezium sends such a change as a delete and a create at one position. The create's unavailable values are those of the
deleted row. If all that concerns the two keys comes in order, the table's rows and the new changes tell it. If not (the
halves came in different epochs, or a change of the old key or a truncate came late), the keys are folded again from the
staged log.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.types import Column as TableColumn
from firn.changes.merge.decide import in_order
from firn.changes.merge.fold import UNKNOWN, Key, Row, RowChange
from firn.changes.merge.key_rows import Truncates, linked_keys, refolded
from firn.changes.merge.ordering import plain, total
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, TIME
from firn.changes.positions import WIDTH
from firn.config.names import quoted
from firn_spark.arrow import spark_schema
from firn_spark.merge.deciding import Shape, folded_schema
from firn_spark.merge.earlier import rows_at
from firn_spark.merge.folding import NOTHING, same_key
from firn_spark.merge.memory import Memory, spark_type
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table

# All decoded changes of some keys (columns c… of the key) that the staged log still holds, up to this range's end.
Log = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Moved:
    """`keys`: all keys that such moves connect (columns c… of the key). `rows`: what becomes of them, with the columns
    of folding.fold_changes and `_whole`."""

    keys: DataFrame
    rows: DataFrame


def find(
    changes: DataFrame,
    memory: Memory,
    shape: Shape,
    creates: bool,
    truncates: Collection[RowChange],
    mixed: Collection[Key] = (),
) -> set[Key]:
    """The keys to fold again (changes.merge.key_rows.linked_keys); nothing is read if there never was such a create.

    changes    the range's decoded changes, `_unavail` as decoded
    creates    whether creates among them leave values out
    truncates  those that are new in this range
    """
    if not (creates or memory.said.creates):
        return set(mixed)
    small = changes.select("_op", "_ord", "_unavail", "_table", *(f"c{i}" for i in shape.key))
    gaps = small.where((f.col("_op") == "c") & f.col("_unavail").isNotNull())
    new = _changes(gaps, shape) if creates else []
    known = _facts(memory.rows("c", shape.columns, shape.key), shape) if memory.said.creates else []
    positions = sorted({change.position for change in (*new, *known) if change.position})
    if not positions:
        return set(mixed)
    at = f.substring("_ord", 2, WIDTH).isin(*(f.lit(position) for position in positions))
    new += _changes(small.where((f.col("_op") == "d") & at), shape)
    deletes = memory.rows("d", shape.columns, shape.key)
    known += _facts(None if deletes is None else deletes.where(at), shape)
    old_keys = list({change.key for change in (*new, *known) if change.op == "d"})
    if old_keys:
        keys = _keys(changes, shape, old_keys)
        mine = small.join(f.broadcast(keys), same_key(small, keys, shape.key), "left_semi")
        new += [replace(change, unavailable=frozenset()) for change in _changes(mine.where("_op <> 'c'"), shape)]
        new += [
            replace(c, unavailable=frozenset()) for c in _changes(mine.where("_op = 'c' AND _unavail IS NULL"), shape)
        ]
    return linked_keys([*new, *truncates], known, mixed)


def fold_again(
    spark: SparkSession,
    table: Table,
    changes: DataFrame,
    memory: Memory,
    shape: Shape,
    linked: Collection[Key],
    log: Log,
    truncates: Truncates,
    unnamed: str | None,
) -> Moved:
    """The rows of the linked keys, from all that is known of them. `truncates`: all that are known; `unnamed`: the
    source table of rows that name none."""
    keys = _keys(changes, shape, linked)
    mine = changes.join(f.broadcast(keys), same_key(changes, keys, shape.key), "left_semi")
    new = _full(mine, shape)
    live, times = _rows_of(spark.table(table.sql), keys, shape, unnamed)
    times |= {change.order: ts for change, ts in new}
    deletes = _facts(memory.rows("d", shape.columns, shape.key), shape, keys)
    said = [change for change, _ in new]
    if not in_order([*said, *truncates.new], [row for _, row in live], [*deletes, *truncates.earlier]):
        late = _full(log(keys), shape)
        said += [*(change for change, _ in late), *truncates.earlier]
        times |= {change.order: ts for change, ts in late}
        live += _removed(spark, table, memory, keys, shape, unnamed)
    said += [*deletes, *truncates.new]
    return Moved(keys, _as_rows(spark, refolded(live, said), linked, said, times, shape))


def _keys(like: DataFrame, shape: Shape, keys: Collection[Key]) -> DataFrame:
    schema = pa.schema([(f"c{i}", arrow_type(shape.columns[i].type)) for i in shape.key])
    return like.sparkSession.createDataFrame(list(keys), spark_schema(schema))


def _key(row: Mapping[str, Any], shape: Shape) -> Key:
    return tuple(_hashable(row[f"c{i}"]) for i in shape.key)


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return math.nan  # one object is one key; Spark takes no other kind of float
    return bytes(value) if isinstance(value, bytearray) else value


def _changes(found: DataFrame, shape: Shape) -> list[RowChange]:
    """Changes of which only op, order and key matter; creates among them leave values out."""
    return [_fact(row, shape) for row in _rows(found) if row["_ord"][:1] == b"\1"]


def _rows(found: DataFrame) -> list[dict[str, Any]]:
    """The rows on the driver, by way of Arrow: collect() gives times in this process's zone, which repeats an hour each
    autumn, and fails for the first day of year 1."""
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def _facts(found: DataFrame | None, shape: Shape, keys: DataFrame | None = None) -> list[RowChange]:
    if found is None:
        return []
    if keys is not None:
        found = found.join(f.broadcast(keys), same_key(found, keys, shape.key), "left_semi")
    return _changes(found, shape)


def _fact(row: Mapping[str, Any], shape: Shape) -> RowChange:
    order = bytes(row["_ord"])
    unavailable = frozenset({"?"}) if row["_op"] == "c" else frozenset[str]()
    return RowChange(row["_op"], _key(row, shape), order[1 : 1 + WIDTH], order, None, unavailable, row["_table"])


def _full(changes: DataFrame, shape: Shape) -> list[tuple[RowChange, int | None]]:
    """(change, its time in ms) of decoded changes."""
    found = []
    for row in _rows(changes):
        position = None if row["_pos"] is None else bytes(row["_pos"])
        values = None if row["_op"] == "d" else {f"c{i}": row[f"c{i}"] for i in range(len(shape.columns))}
        unavailable = frozenset(f"c{i}" for i in row["_unavail"] or ())
        order = bytes(row["_ord"])
        change = RowChange(row["_op"], _key(row, shape), position, order, values, unavailable, row["_table"])
        found.append((change, row["_ts"]))
    return found


def _rows_of(
    rows: DataFrame, keys: DataFrame, shape: Shape, unnamed: str | None
) -> tuple[list[tuple[Key, Row]], dict[bytes, int | None]]:
    """The rows of the keys among those of the table as it is or was, and the time (ms) of the change that each order
    stands for."""
    held = f.col(HELD) if HELD in rows.columns else f.lit(None).cast("map<int,binary>")
    source = f.col(SOURCE) if SOURCE in rows.columns else f.lit(None).cast("string")
    named = rows.select(
        *(_column(rows, column).alias(f"c{i}") for i, column in enumerate(shape.columns)),
        f.col(POSITION).alias("_pos"),
        held.alias("_held"),
        f.unix_millis(TIME).alias("_ts"),
        source.alias("_table"),
    )
    found = _rows(named.join(f.broadcast(keys), same_key(named, keys, shape.key), "left_semi"))
    live = [_row(row, shape, unnamed) for row in found]
    return live, {row.order: one["_ts"] for (_, row), one in zip(live, found, strict=True)}


def _column(rows: DataFrame, column: TableColumn) -> Column:
    """A column that the table may not have had yet, or with another type, or another name."""
    name = next((name for name in (column.name, *column.earlier) if name in rows.columns), None)
    there = f.lit(None) if name is None else f.col(quoted(name))
    return there.cast(spark_type(column))


def _removed(
    spark: SparkSession, table: Table, memory: Memory, keys: DataFrame, shape: Shape, unnamed: str | None
) -> list[tuple[Key, Row]]:
    """The rows of the keys that deletes removed, out of the snapshots before them. What expired is gone."""
    rows: list[tuple[Key, Row]] = []
    kept = memory.rows("k", shape.columns, range(len(shape.columns)))
    if kept is not None:
        found = _rows(kept.join(f.broadcast(keys), same_key(kept, keys, shape.key), "left_semi"))
        rows += [_row(row | {"_pos": row["_ord"][1:]}, shape, unnamed) for row in found]
    for snapshot in memory.looked(shape.columns, shape.key, keys):
        if table.java.snapshot(snapshot) is not None:
            rows += _rows_of(rows_at(spark, table, snapshot, shape.columns), keys, shape, unnamed)[0]
    return rows


def _row(row: Mapping[str, Any], shape: Shape, unnamed: str | None) -> tuple[Key, Row]:
    ordinals = {field: i for i, field in shape.held_ids.items()}
    held = {f"c{ordinals[field]}": total(bytes(order)) for field, order in row["_held"] or () if field in ordinals}
    values = {f"c{i}": row[f"c{i}"] for i in range(len(shape.columns))}
    position = None if row["_pos"] is None else bytes(row["_pos"])
    return _key(row, shape), Row(values, total(position), held, row["_table"] or unnamed)


def _as_rows(
    spark: SparkSession,
    rows: Mapping[Key, Row],
    linked: Collection[Key],
    said: Sequence[RowChange],
    times: Mapping[bytes, int | None],
    shape: Shape,
) -> DataFrame:
    deleted: dict[Key, bytes] = {}
    for change in said:
        if change.op == "d":
            deleted[change.key] = max(change.order, deleted.get(change.key, UNKNOWN))
    out: list[tuple[Any, ...]] = []
    for key in linked:
        row, gone = rows.get(key), plain(deleted.get(key))
        if row is not None:
            values = [row.values.get(f"c{i}") for i in range(len(shape.columns))]
            orders = (row.held.get(f"c{i}") for i in shape.gaps)
            held = [None if order is None else plain(order) or NOTHING for order in orders]
            out.append((*values, "u", plain(row.order), times.get(row.order), row.source, *held, gone, True))
        else:
            values = [key[shape.key.index(i)] if i in shape.key else None for i in range(len(shape.columns))]
            out.append((*values, "d", gone, None, None, *(None for _ in shape.gaps), gone, True))
    return spark.createDataFrame(out, folded_schema(shape))
