"""Changed primary keys whose new row leaves values out: rare, so the specification itself (firn.changes.fold) folds
them, on the driver.

Debezium sends such a change as a delete and a create at one position. The create's unavailable values are those of the
deleted row, which only a replay of both keys' changes can tell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.fold import UNKNOWN, Row, RowChange, fold
from firn.changes.types import Column
from firn.jobs.planning import POSITION
from firn.streams.names import quoted
from firn_spark.columns import arrow_type, spark_schema
from firn_spark.folding import Truncate, same_key


@dataclass(frozen=True)
class Moved:
    """`keys`: all keys that such moves connect (columns c… of the key). `rows`: what becomes of them, with the columns
    of folding.fold_changes."""

    keys: DataFrame
    rows: DataFrame


def find_moves(changes: DataFrame, key: Sequence[int]) -> list[tuple[bytes, tuple[Any, ...], tuple[Any, ...]]]:
    """(position, old key, new key) of each create with unavailable values that has a delete at its position."""
    names = [f"c{i}" for i in key]
    creates = changes.where((f.col("_op") == "c") & f.col("_unavail").isNotNull() & f.col("_pos").isNotNull())
    deletes = changes.where((f.col("_op") == "d") & f.col("_pos").isNotNull())
    deletes = deletes.select(f.col("_pos").alias("p"), *(f.col(name).alias(f"old_{name}") for name in names)).distinct()
    paired = creates.select("_pos", *names).distinct().join(f.broadcast(deletes), f.col("_pos") == f.col("p"))
    width = len(names)
    rows = [tuple(row) for row in paired.select("_pos", *(f"old_{name}" for name in names), *names).collect()]
    found = [(bytes(row[0]), row[1 : 1 + width], row[1 + width :]) for row in rows]
    return [move for move in found if move[1] != move[2]]


def fold_moves(
    spark: SparkSession,
    target: str,
    changes: DataFrame,
    columns: Sequence[Column],
    key: Sequence[int],
    moves: Iterable[tuple[bytes, tuple[Any, ...], tuple[Any, ...]]],
    truncate: Truncate | None,
) -> Moved:
    """Folds all changes of the moved keys with the specification, from the rows that the table `target` has of them.

    `changes` has `_unavail` only where values really are unavailable.
    """
    schema = pa.schema([(f"c{i}", arrow_type(column.type)) for i, column in enumerate(columns)])
    key_schema = spark_schema(pa.schema([schema.field(i) for i in key]))
    both = list(dict.fromkeys(one for _, old, new in moves for one in (old, new)))
    keys = spark.createDataFrame(both, key_schema)
    mine = changes.join(f.broadcast(keys), same_key(changes, keys, key), "left_semi")
    raw = [row.asDict() for row in mine.collect()]
    known = [_row_change(row, len(columns), key) for row in raw]
    times = {change.position: row["_ts"] for change, row in zip(known, raw, strict=True)}
    if truncate is not None:
        known.append(RowChange("t", (), None, truncate.position, _specified(truncate.order), None))
    state = fold(_rows_of(spark, target, columns, key, keys), known)

    out: list[tuple[Any, ...]] = []
    for one in both:
        row, tombstone = state.rows.get(one), state.tombstones.get(one)
        if row is not None:
            values = tuple(row.values.get(f"c{i}") for i in range(len(columns)))
            out.append((*values, "u", row.position or None, times.get(row.position), None, None))
        elif tombstone is not None:
            values = tuple(one[key.index(i)] if i in key else None for i in range(len(columns)))
            out.append(
                (*values, "d", tombstone.position or None, times.get(tombstone.position), None, tombstone.position)
            )
    meta: list[tuple[str, pa.DataType]] = [
        ("_op", pa.string()), ("_pos", pa.binary()), ("_ts", pa.int64()), ("_kept", pa.list_(pa.int32())),
        ("_gone", pa.binary()),
    ]  # fmt: skip
    return Moved(keys, spark.createDataFrame(out, spark_schema(pa.schema(list(schema) + meta))))


def _row_change(row: Mapping[str, Any], width: int, key: Sequence[int]) -> RowChange:
    return RowChange(
        op=row["_op"],
        key=tuple(row[f"c{i}"] for i in key),
        old_key=None,
        position=None if row["_pos"] is None else bytes(row["_pos"]),
        order=_specified(row["_ord"]),
        values=None if row["_op"] == "d" else {f"c{i}": row[f"c{i}"] for i in range(width)},
        unavailable=frozenset(f"c{i}" for i in row["_unavail"] or ()),
    )


def _specified(order: bytes) -> bytes:
    """The order as the specification knows it: without the byte that tells positions from arrival order."""
    return bytes(order[1:])


def _rows_of(
    spark: SparkSession, target: str, columns: Sequence[Column], key: Sequence[int], keys: DataFrame
) -> dict[tuple[Any, ...], Row]:
    """The target's rows of these keys."""
    table = spark.table(target).select(
        *(f.col(quoted(column.name)).alias(f"c{i}") for i, column in enumerate(columns)), f.col(POSITION).alias("_pos")
    )
    found = table.join(f.broadcast(keys), same_key(table, keys, key), "left_semi").collect()
    rows = {}
    for row in found:
        values = {f"c{i}": row[f"c{i}"] for i in range(len(columns))}
        position = UNKNOWN if row["_pos"] is None else bytes(row["_pos"])
        rows[tuple(row[f"c{i}"] for i in key)] = Row(values, position)
    return rows
