"""Many changes of a key to one, in Spark: the same rules as firn.changes.merge.fold, without its obviousness."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from firn.changes.merge.fold import UNKNOWN
from firn.changes.merge.ordering import plain

NOTHING = UNKNOWN


def fold_changes(
    changes: DataFrame,
    width: int,
    key: Sequence[int],
    unavailable: Sequence[int],
    truncate: bytes | None,
    *,
    several: bool = False,
) -> DataFrame:
    """One row a key: the newest change by `_ord`, with the gaps that older ones can fill filled.

    changes      decoded changes (rows.META and c0…c{width-1}); `_unavail` only where values really are unavailable
    unavailable  ordinals that are unavailable in any change; [] spares the work
    truncate     `_ord` of the newest truncate that is known; what is older is left out
    several      whether several source tables feed the table: of two that say the same, the greater name decides
    -> c0…; `_op`: d, or another for a row; `_order`, `_ts`, `_table`: of the change that decides (`_order` null without
       a position);
       h{i} for the unavailable ordinals: null if the value is of that change, else the order of the change that it is
       from, NOTHING if no change here has it; `_gone`: the order of the newest delete of the key, NOTHING for one
       without position, or the truncate if that is newer.
    """
    if truncate is not None:
        changes = changes.where(f.col("_ord") > f.lit(truncate))
    keys = [f"c{i}" for i in key]
    others = [f"c{i}" for i in range(width) if i not in key]
    is_delete = f.col("_op") == "d"
    by = f.struct("_ord", "_table") if several else "_ord"
    newest = f.max_by(f.struct("_op", "_ts", "_ord", "_table", "_unavail", *others), by).alias("w")
    filled = [
        f.max_by(
            f.struct(f.col("_ord").alias("ord"), f.col(f"c{i}").alias("value")),
            f.when(~is_delete & ~_holds("_unavail", i), f.col("_ord")),
        ).alias(f"f{i}")
        for i in unavailable
    ]
    folded = changes.groupBy(*keys).agg(newest, f.max(f.when(is_delete, f.col("_ord"))).alias("d"), *filled)

    # An older value counts if no delete of the row came after it.
    fills = {i: f.col(f"f{i}.ord").isNotNull() & _not_below(f"f{i}.ord", "d") for i in unavailable}
    columns = [
        f.col(f"c{i}")
        if i in key
        else f.when(_holds("w._unavail", i) & fills[i], f.col(f"f{i}.value")).otherwise(f.col(f"w.c{i}")).alias(f"c{i}")
        if i in fills
        else f.col(f"w.c{i}").alias(f"c{i}")
        for i in range(width)
    ]
    held = [
        # What a change without position told counts as loaded.
        f.when(
            _holds("w._unavail", i),
            f.coalesce(f.when(fills[i], order_of(f.col(f"f{i}.ord"))), f.lit(NOTHING)),
        ).alias(f"h{i}")
        for i in unavailable
    ]
    deleted = f.when(f.col("d").isNotNull(), f.coalesce(order_of(f.col("d")), f.lit(NOTHING)))
    gone = deleted if truncate is None else f.greatest(deleted, f.lit(plain(truncate) or NOTHING))
    return folded.select(
        *columns,
        f.col("w._op").alias("_op"),
        order_of(f.col("w._ord")).alias("_order"),
        f.col("w._ts").alias("_ts"),
        f.col("w._table").alias("_table"),
        *held,
        gone.alias("_gone"),
    )


def order_of(total: Column) -> Column:
    """`plain` of a column: the order (changes.positions.order_key) in `_ord`; null for one of arrival."""
    return f.when(f.substring(total, 1, 1) == f.lit(b"\1"), f.substring(total, 2, 1_000))


def _holds(array: str, ordinal: int) -> Column:
    """Whether the array of ordinals, which may be null, holds `ordinal`."""
    return f.coalesce(f.array_contains(array, f.lit(ordinal)), f.lit(False))


def _not_below(order: str, delete: str) -> Column:
    return f.col(delete).isNull() | (f.col(order) > f.col(delete))


def same_key(left: DataFrame, right: DataFrame, key: Sequence[int]) -> Column:
    """Null-safe equality of the key columns c… of two DataFrames."""
    return reduce(lambda a, b: a & b, [left[f"c{i}"].eqNullSafe(right[f"c{i}"]) for i in key])
