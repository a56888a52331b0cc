"""Many changes of a key to one, in Spark: the same rules as firn.changes.fold, without its obviousness."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


@dataclass(frozen=True)
class Truncate:
    """The newest truncate of a table within the range: `order` is its place in the total order, `position` its
    position (None in a stream without positions)."""

    order: bytes
    position: bytes | None


def fold_changes(
    changes: DataFrame, width: int, key: Sequence[int], unavailable: Sequence[int], truncate: Truncate | None
) -> DataFrame:
    """One row a key: the newest change by `_ord`, with the gaps that older ones can fill filled.

    changes      decoded changes (decode.META and c0…c{width-1}); `_unavail` only where values really are unavailable
    unavailable  ordinals that are unavailable in any change; [] spares the work
    -> c0…, `_op`, `_pos`, `_ts`; `_kept`: ordinals still unavailable, for which the target's value stands; `_gone`: the
       position of the newest delete or truncate among the key's changes, before which no target value counts.
    """
    if truncate is not None:
        changes = changes.where(f.col("_ord") > f.lit(truncate.order))
    keys = [f"c{i}" for i in key]
    others = [f"c{i}" for i in range(width) if i not in key]
    is_delete = f.col("_op") == "d"
    newest = f.max_by(f.struct("_op", "_pos", "_ts", "_ord", "_unavail", *others), "_ord").alias("w")
    filled = [
        f.max_by(
            f.struct(f.col("_ord").alias("ord"), f.col(f"c{i}").alias("value")),
            f.when(~is_delete & ~_holds("_unavail", i), f.col("_ord")),
        ).alias(f"f{i}")
        for i in unavailable
    ]
    deleted = f.max_by(
        f.struct(f.col("_ord").alias("ord"), f.col("_pos").alias("pos")), f.when(is_delete, f.col("_ord"))
    )
    folded = changes.groupBy(*keys).agg(newest, deleted.alias("d"), *filled)

    # An older value counts if no delete of the row came after it.
    fills = {i: f.col(f"f{i}.ord").isNotNull() & _not_below(f"f{i}.ord", "d.ord") for i in unavailable}
    columns = [
        f.col(f"c{i}")
        if i in key
        else f.when(_holds("w._unavail", i) & fills[i], f.col(f"f{i}.value")).otherwise(f.col(f"w.c{i}")).alias(f"c{i}")
        if i in fills
        else f.col(f"w.c{i}").alias(f"c{i}")
        for i in range(width)
    ]
    kept = [f.when(_holds("w._unavail", i) & ~fills[i], f.lit(i)) for i in unavailable]
    left = f.array_compact(f.array(*kept)) if kept else f.array().cast("array<int>")
    gone = f.col("d.pos")
    if truncate is not None and truncate.position is not None:
        gone = f.greatest(gone, f.lit(truncate.position))
    return folded.select(
        *columns,
        f.col("w._op").alias("_op"),
        f.col("w._pos").alias("_pos"),
        f.col("w._ts").alias("_ts"),
        left.alias("_kept"),
        gone.alias("_gone"),
    )


def _holds(array: str, ordinal: int) -> Column:
    """Whether the array of ordinals, which may be null, holds `ordinal`."""
    return f.coalesce(f.array_contains(array, f.lit(ordinal)), f.lit(False))


def _not_below(order: str, delete: str) -> Column:
    return f.col(delete).isNull() | (f.col(order) > f.col(delete))


def same_key(left: DataFrame, right: DataFrame, key: Sequence[int]) -> Column:
    """Null-safe equality of the key columns c… of two DataFrames."""
    return reduce(lambda a, b: a & b, [left[f"c{i}"].eqNullSafe(right[f"c{i}"]) for i in key])
