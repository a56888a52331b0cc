"""One mirror table in one job: decode, fold, merge."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.rows import Decoding
from firn_spark.folding import Truncate, fold_changes, same_key
from firn_spark.merge import MirrorChanges
from firn_spark.moves import find_moves, fold_moves


@dataclass(frozen=True)
class Survey:
    """What one pass over decoded changes tells: how many there are and how many are rejected, which ordinals updates
    leave unavailable, whether creates do too, and which required columns hold a null."""

    changes: int
    rejected: int
    unavailable: tuple[int, ...]
    creates_unavailable: bool
    nulls: tuple[int, ...]


def survey(decoded: DataFrame, required: Sequence[int]) -> Survey:
    """One Spark job over `decoded` (persisted by the caller); `required`: ordinals to look for nulls in."""
    good = f.col("_code").isNull()
    gaps = good & f.col("_unavail").isNotNull()
    row = decoded.agg(
        f.count("*").alias("changes"),
        f.count(f.when(~good, 1)).alias("rejected"),
        f.array_distinct(f.flatten(f.collect_set(f.when(gaps & (f.col("_op") == "u"), f.col("_unavail"))))).alias(
            "gaps"
        ),
        f.count(f.when(gaps & (f.col("_op") == "c"), 1)).alias("creates"),
        *(f.max(good & (f.col("_op") != "d") & f.col(f"c{i}").isNull()).alias(f"n{i}") for i in required),
    ).collect()[0]
    return Survey(
        changes=row["changes"],
        rejected=row["rejected"],
        unavailable=tuple(sorted(row["gaps"] or ())),
        creates_unavailable=row["creates"] > 0,
        nulls=tuple(i for i in required if row[f"n{i}"]),
    )


def newest_truncate(raw: DataFrame) -> Truncate | None:
    """The newest truncate among raw changes."""
    found = raw.where((f.col("op") == "t") & f.col("fault").isNull()).agg(f.max(f.struct("ord", "pos"))).collect()[0][0]
    if found is None:
        return None
    return Truncate(bytes(found["ord"]), None if found["pos"] is None else bytes(found["pos"]))


def folded(
    spark: SparkSession, target: str, decoded: DataFrame, decoding: Decoding, seen: Survey, truncate: Truncate | None
) -> MirrorChanges:
    """The decoded changes as one change a key, ready for the engine."""
    columns, key = decoding.columns, decoding.key
    changes = decoded.where(f.col("_code").isNull())
    moves = find_moves(changes, key) if seen.creates_unavailable else []
    moved = fold_moves(spark, target, changes, columns, key, moves, truncate) if moves else None
    if moved is not None:
        changes = changes.join(f.broadcast(moved.keys), same_key(changes, moved.keys, key), "left_anti")
    # A create or a read holds real values, whatever they look like, unless it is the second half of a move.
    really = f.when(f.col("_op") == "u", f.col("_unavail"))
    rows = fold_changes(changes.withColumn("_unavail", really), len(columns), key, seen.unavailable, truncate)
    if moved is not None:
        rows = rows.unionByName(moved.rows)
    return MirrorChanges(rows, columns, key, seen.unavailable, truncate)
