"""Folded changes against the rows that the table has: which rows go, and which are written. changes.merge.key_rows
for all keys at once: of two values of a column the one of the higher order stands, and none from before a delete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from firn.changes.decode.types import Column as TableColumn
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, TIME
from firn.config.names import quoted
from firn_spark.arrow import spark_schema
from firn_spark.merge.folding import NOTHING
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table


@dataclass(frozen=True)
class Shape:
    """What the statements of one table need to know.

    columns   the table's columns, c0… in order; `key`: ordinals of the key
    gaps      ordinals that changes leave unavailable or that rows may hold
    held_ids  the field id of each of `gaps` in the table
    extras    columns that Firn has no type for (of an adopted table): kept in rows that stay, null in new ones
    several   whether rows say of which source table they are; `unnamed`: that of rows which don't, None: not known
    """

    columns: Sequence[TableColumn]
    key: Sequence[int]
    gaps: Sequence[int]
    held_ids: Mapping[int, int]
    extras: Sequence[str]
    several: bool = False
    unnamed: str | None = None

    @property
    def wide(self) -> bool:
        """Whether the values of the rows that are there matter, not only where they are."""
        return bool(self.gaps or self.extras)


def there(spark: SparkSession, table: Table, shape: Shape, *, wide: bool | None = None) -> DataFrame:
    """The table's rows: k0… (the key), t_pos, t_file, t_row (where it is), t_source if `shape.several`, and if `wide`
    (None: `shape.wide`) all values as t0…, the extras as x0…, t_ts and t_held."""
    rows = spark.table(table.sql)
    at = [
        f.col(POSITION).alias("t_pos"), f.col("_file").alias("t_file"), f.col("_pos").alias("t_row"),
        *(f.col(quoted(shape.columns[i].name)).alias(f"k{i}") for i in shape.key),
    ]  # fmt: skip
    if shape.several:
        at.append(f.coalesce(f.col(SOURCE), f.lit(shape.unnamed)).alias("t_source"))
    if shape.wide if wide is None else wide:
        held = HELD in {field["name"] for field in table.state.fields}
        at += [f.col(quoted(column.name)).alias(f"t{i}") for i, column in enumerate(shape.columns)]
        at += [f.col(quoted(name)).alias(f"x{i}") for i, name in enumerate(shape.extras)]
        at += [
            f.col(TIME).alias("t_ts"),
            (f.col(HELD) if held else f.lit(None).cast("map<int,binary>")).alias("t_held"),
        ]
    return rows.select(*at)


def decide(folded: DataFrame, rows: DataFrame, shape: Shape, truncate: bytes | None) -> DataFrame:
    """What becomes of each key that changes and of each row that a truncate removes.

    folded    folding.fold_changes, with `_whole`: the row replaces what is there, whatever its order
    rows      `there`, of the keys that change (affected_rows.found); all rows if there is a truncate
    truncate  order of a truncate that is new in this range
    -> c0… and x0… (what to write), `_order`, `_ts` (timestamp), `_held` (map of field id to order), `_source`,
       `_write`, `_remove` (booleans), t_file, t_row (of the row that is there), `_told` (whether a change decided it),
       `_late` (a row is made that was not there: see the floor)
    """
    both = folded.join(rows, same("c", "k", shape.key), "left" if truncate is None else "full")

    exists = f.col("t_file").isNotNull()
    told = f.col("_op").isNotNull()
    gone = f.col("_gone") if truncate is None else f.coalesce(f.col("_gone"), f.lit(truncate))
    at = f.coalesce(f.col("t_pos"), f.lit(NOTHING))
    whole = f.coalesce(f.col("_whole"), f.lit(False))
    alive = exists & ~whole & (gone.isNull() | (at > gone))
    live = told & (f.col("_op") != "d")
    after = f.coalesce(f.col("_order") > f.col("t_pos"), f.lit(False))
    if shape.several:
        after |= f.coalesce(
            (f.col("_order") == f.col("t_pos")) & (f.coalesce("_table", f.lit("")) > f.coalesce("t_source", f.lit(""))),
            f.lit(False),
        )
    newer = live & (f.col("t_pos").isNull() | after)
    both = both.withColumns({"_alive": alive, "_live": live, "_newer": newer, "_at": at, "_since": gone})

    columns, orders, changed = _merged(shape)
    write = f.col("_live") & (~f.col("_alive") | f.col("_newer"))
    if changed:
        write = write | (f.col("_alive") & reduce(lambda a, b: a | b, changed))
    order = f.when(~f.col("_alive") | f.col("_newer"), f.col("_order")).otherwise(f.col("t_pos"))
    result = both.withColumns({"_write": write, "_remove": exists & (write | ~f.col("_alive")), "_result": order})
    return result.select(
        *columns,
        *(f.when(f.col("_alive"), f.col(f"x{i}")).alias(f"x{i}") for i in range(len(shape.extras))),
        f.col("_result").alias("_order"),
        _time(shape).alias("_ts"),
        _held(shape, orders).alias("_held"),
        source_of(f.when(~f.col("_alive") | f.col("_newer"), f.col("_table")).otherwise(
            f.col("t_source") if shape.several else f.lit(None)), shape).alias("_source"),
        "_write", "_remove", "t_file", "t_row", told.alias("_told"),
        (f.col("_live") & ~exists & ~whole).alias("_late"),
    )  # fmt: skip


def source_of(source: Column, shape: Shape) -> Column:
    """The source table of a row as the table has it: null for that of unnamed rows."""
    return f.when(~source.eqNullSafe(f.lit(shape.unnamed)), source)


def same(one: str, other: str, key: Sequence[int]) -> Column:
    """Null-safe equality of the key columns that begin with `one` and with `other`."""
    return reduce(lambda a, b: a & b, [f.col(f"{one}{i}").eqNullSafe(f.col(f"{other}{i}")) for i in key])


def _merged(shape: Shape) -> tuple[list[Column], dict[int, Column], list[Column]]:
    """(values, orders of the gaps' values, for each gap whether a row that stays gets another value or loses one)."""
    columns: list[Column] = []
    orders: dict[int, Column] = {}
    changed: list[Column] = []
    taken = ~f.col("_alive") | f.col("_newer")  # the changes' row, not the one that is there
    for i in range(len(shape.columns)):
        mine = f.col(f"c{i}")
        if i in shape.key:
            columns.append(f.coalesce(mine, f.col(f"k{i}")).alias(f"c{i}"))
        elif i not in shape.gaps:
            columns.append((f.when(taken, mine).otherwise(f.col(f"t{i}")) if shape.wide else mine).alias(f"c{i}"))
        else:
            own = f.col(f"h{i}")  # null: of the deciding change itself
            held = f.element_at("t_held", f.lit(shape.held_ids[i]))
            lost = f.coalesce(held <= f.col("_since"), f.lit(False))
            theirs = f.when(lost, f.lit(NOTHING)).otherwise(f.coalesce(held, f.col("_at")))
            value = f.when(~lost, f.col(f"t{i}"))
            from_row = f.col("_alive") & f.when(f.col("_newer"), own.isNotNull() & (theirs >= own)).otherwise(
                ~f.col("_live") | held.isNull() | (theirs >= f.coalesce(own, f.col("_order"), f.lit(NOTHING)))
            )
            columns.append(f.when(from_row, value).otherwise(mine).alias(f"c{i}"))
            orders[i] = f.when(from_row, theirs).otherwise(f.coalesce(own, f.col("_order")))
            emptied = f.coalesce(lost & (held > f.lit(NOTHING)), f.lit(False))
            changed.append(~f.col("_newer") & (~from_row | emptied))
    return columns, orders, changed


def _held(shape: Shape, orders: Mapping[int, Column]) -> Column:
    """Field id -> order, of the columns whose value is not the row's own; null if there is none."""
    if not orders:
        return f.lit(None).cast("map<int,binary>")
    entries = f.array_compact(
        f.array(
            *(
                f.when(order < f.col("_result"), f.struct(f.lit(shape.held_ids[i]).alias("k"), order.alias("v")))
                for i, order in orders.items()
            )
        )
    )
    return f.when(f.size(entries) > 0, f.map_from_entries(entries))


def _time(shape: Shape) -> Column:
    mine = f.timestamp_millis("_ts")
    return f.when(~f.col("_alive") | f.col("_newer"), mine).otherwise(f.col("t_ts")) if shape.wide else mine


def folded_schema(shape: Shape) -> StructType:
    """The schema of folded changes (folding.fold_changes), with `_whole`."""
    fields = [(f"c{i}", arrow_type(column.type)) for i, column in enumerate(shape.columns)]
    meta = [("_op", pa.string()), ("_order", pa.binary()), ("_ts", pa.int64()), ("_table", pa.string())]
    gaps = [(f"h{i}", pa.binary()) for i in shape.gaps]
    last = [("_gone", pa.binary()), ("_whole", pa.bool_())]
    return spark_schema(pa.schema([*fields, *meta, *gaps, *last]))
