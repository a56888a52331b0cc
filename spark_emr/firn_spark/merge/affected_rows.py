"""The rows that have the keys which change, found with as little reading as the keys allow (docs/adr/0010).

The filter is on key columns only: Iceberg makes partitions of it, under whatever spec a file was written, then files
and row groups. A filter on other partition columns would be wrong: a row's new values may lie in another partition.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType, StructType

from firn.changes.decode.types import Type
from firn_spark.merge.deciding import Shape, there
from firn_spark.tables.evolve import Table

FEW: Final = 20_000  # changes whose keys the driver takes, which spares a shuffle and tells each value
BROADCAST: Final = 500_000  # keys that every task gets; above that a shuffle is cheaper
_NAMED = 200  # values of a column that the filter names: of more, Iceberg compares none with a file's bounds
Way = Literal["local", "broadcast", "shuffle"]


@dataclass(frozen=True)
class Keys:
    """The keys that change.

    count  how many
    rows   they themselves, s0… by ordinal of the column
    near   a filter on k0… that their rows pass, and few others; None if their types allow none
    nulls  ordinals of the columns in which one of them is null
    few    whether `rows` are constants
    """

    count: int
    rows: DataFrame
    near: Column | None
    nulls: frozenset[int]
    few: bool

    @property
    def way(self) -> Way:
        """How the table's rows meet them."""
        return "local" if self.few else "broadcast" if self.count <= BROADCAST else "shuffle"


def keys_of(folded: DataFrame, table: Table, shape: Shape, *, few: bool) -> Keys:
    """The keys of `folded` (folding.fold_changes, persisted by the caller). One Spark job; for many changes one more
    for each key column that the table is partitioned by. `few`: they fit the driver."""
    named = folded.select(*(f.col(f"c{i}").alias(f"s{i}") for i in shape.key))
    parted = _partitioned_by(table)
    if few:
        # Not through collect(), which gives times in this process's zone.
        found = named.toArrow()
        spans = [_span_of(found.column(f"s{i}")) for i in shape.key]
        rows = named.sparkSession.createDataFrame(found, named.schema)
        return Keys(found.num_rows, rows, _near(shape, named.schema, spans, parted), _nulls(shape, spans), few=True)
    ends = [
        part
        for i in shape.key
        for part in (
            f.min(f"s{i}").alias(f"low{i}"),
            f.max(f"s{i}").alias(f"high{i}"),
            f.count(f.when(f.col(f"s{i}").isNull(), 1)).alias(f"nulls{i}"),
        )
    ]
    one = named.agg(f.count("*").alias("count"), *ends).toArrow()
    spans = []
    for i in shape.key:
        low, high, nulls = (one.column(f"{name}{i}")[0] for name in ("low", "high", "nulls"))
        values = None
        if shape.columns[i].name in parted:
            values = _few_values(named.select(f"s{i}").distinct().limit(_NAMED + 2).toArrow().column(0))
        spans.append(_Span((low, high) if _orderable(low.type) else None, nulls.as_py() > 0, values))
    count = one.column("count")[0].as_py()
    return Keys(count, named, _near(shape, named.schema, spans, parted), _nulls(shape, spans), few=False)


def found(spark: SparkSession, table: Table, shape: Shape, keys: Keys) -> DataFrame:
    """The table's rows (deciding.there) that have these keys."""
    rows = there(spark, table, shape)
    if keys.near is not None:
        rows = rows.where(keys.near)
    # A semi-join first: an outer join can't broadcast the changes, and would shuffle the whole table.
    hinted = keys.rows if keys.way == "shuffle" else f.broadcast(keys.rows)
    # Null-safe only where it matters: with plain equality, Spark joins numbers by a table made for numbers.
    equal = [(f.col(f"s{i}"), f.col(f"k{i}"), i in keys.nulls) for i in shape.key]
    on = reduce(lambda a, b: a & b, [s.eqNullSafe(k) if null else s == k for s, k, null in equal])
    rows = rows.join(hinted, on, "left_semi")
    # What is found goes through the driver only where it is small, whatever the table's values are.
    return f.broadcast(rows) if keys.few and not shape.wide else rows


@dataclass(frozen=True)
class _Span:
    """The changed values of one key column: lowest and highest (Arrow scalars; None if the type has no such order),
    whether null is among them, and the values themselves, null left out, if they are few."""

    ends: tuple[Any, Any] | None
    nulls: bool
    values: list[Any] | None


def _span_of(column: pa.ChunkedArray) -> _Span:
    ends = pc.min_max(column) if _orderable(column.type) else None
    return _Span(ends and (ends["min"], ends["max"]), column.null_count > 0, _few_values(column.unique()))


def _few_values(values: Any) -> list[Any] | None:
    return [value for value in values if value.is_valid] if len(values) <= _NAMED + 1 else None


def _nulls(shape: Shape, spans: list[_Span]) -> frozenset[int]:
    return frozenset(i for i, span in zip(shape.key, spans, strict=True) if span.nulls)


def _orderable(kind: pa.DataType) -> bool:
    """Types whose order is the same for Spark, Arrow and Iceberg's bounds (no floats: NaN and -0.0; no uuid)."""
    types = pa.types
    return any(
        test(kind) for test in (types.is_integer, types.is_decimal, types.is_date, types.is_timestamp, types.is_string)
    )


def _near(shape: Shape, schema: StructType, spans: list[_Span], parted: frozenset[str]) -> Column | None:
    parts = []
    for i, field, span in zip(shape.key, schema.fields, spans, strict=True):
        column = shape.columns[i]
        part = _near_column(f.col(f"k{i}"), column.type, field.dataType, span, column.name in parted)
        if part is not None:
            parts.append(part)
    return reduce(lambda a, b: a & b, parts) if parts else None


def _near_column(column: Column, kind: Type, spark_type: Any, span: _Span, parted: bool) -> Column | None:
    if span.ends is None or kind.name == "uuid":  # text to Spark, while Iceberg orders it as bytes
        return None
    if not span.ends[0].is_valid:
        return column.isNull()
    low, high = (_literal(end, spark_type) for end in span.ends)
    if low is None or high is None:
        return None
    part = column.between(low, high)
    named = [_literal(value, spark_type) for value in span.values or ()]
    if named and all(value is not None for value in named):
        # Iceberg 1.11 fails on IN where the partition of a text is null (CharSequenceSet.contains).
        alone = parted and kind.name == "string"
        part &= reduce(lambda a, b: a | b, [column == value for value in named]) if alone else column.isin(named)
    return part | column.isNull() if span.nulls else part


def _literal(value: Any, spark_type: Any) -> Any:
    """A constant that the optimizer knows as one: a Column, or a plain value; None if it can't be written as one."""
    kind = value.type
    try:
        if pa.types.is_date(kind):
            return f.date_from_unix_date(f.lit(value.cast(pa.int32()).as_py()))
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return f.timestamp_micros(f.lit(value.cast(pa.int64()).as_py()))
        if pa.types.is_timestamp(kind):
            return f.lit(value.as_py().isoformat(sep=" ")).cast("timestamp_ntz")
        if isinstance(spark_type, DecimalType):
            return f.lit(str(value.as_py())).cast(spark_type)
        return value.as_py()
    except (OverflowError, ValueError):  # a year that Python has no word for
        return None


def _partitioned_by(table: Table) -> frozenset[str]:
    """The columns that any of the table's partition specs is made of."""
    names = {int(field["id"]): str(field["name"]) for field in table.state.fields}
    sources = {field.sourceId() for spec in table.java.specs().values() for field in spec.fields()}
    return frozenset(names[source] for source in sources if source in names)
