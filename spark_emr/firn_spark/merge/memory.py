"""What a mirror table must remember beside its rows: the append-only table `{table}__deletes` (docs/adr/0011).

Its rows are facts: `_firn_op` d (a key was deleted), t (the table was truncated) and c (a create with unavailable
values, perhaps the second half of a changed key). `_firn_looked` names the table's snapshot that was looked at before a
delete was applied: there is the row that it removed. Older versions of Firn kept that row itself, as a fact k. Facts
are written before the table's own commit: early or doubled ones do no harm. What the newest snapshot's summary says
spares reading the table at all while changes come in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import Column, Type, promotable, storable
from firn.changes.merge.fold import RowChange
from firn.changes.merge.ordering import plain
from firn.changes.metadata_columns import AT, FACTS_METADATA, HELD, LOOKED, OP, POSITION, SOURCE, TIME
from firn.changes.positions import WIDTH
from firn.config import names
from firn.config.names import TableName, quoted
from firn.tables.planning import ColumnPlan, KeyChanged
from firn.tables.renames import Renames
from firn.tables.table_state import BY_NUMBER, CREATES, EPOCH, FACTS, NEWEST, TRUNCATED, floor_of
from firn_spark.arrow import spark_schema
from firn_spark.merge.folding import order_of, same_key
from firn_spark.tables import fence
from firn_spark.tables.alterations import rename
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.retype import converted, finish, retype
from firn_spark.tables.writing import write_rows

KEEP = timedelta(days=15)  # SQS keeps a message for 14
_MODE = "deletes"


@dataclass(frozen=True)
class Remembered:
    """What the facts of one table say, from their metadata alone. Orders as in `_ord`, with its first byte; "" where
    there is none: of the newest fact, of the newest truncate. `creates`: whether there are facts of op c. `floor`: the
    order up to which facts were dropped."""

    newest: bytes = b""
    truncated: bytes = b""
    creates: bool = False
    floor: bytes = b""


def name_in(properties: Mapping[str, str]) -> TableName | None:
    """Where a table with these properties has its facts, if not in `{table}__deletes`: a rebuild in place brings its
    own, in one commit with the rows."""
    return TableName.parse(properties[FACTS]) if FACTS in properties else None


def facts_beside(tables: Tables, table: Table) -> Table | None:
    """What is remembered beside this table; None if nothing is."""
    default = TableName(table.name.namespace, table.name.table + names.FACTS)
    found = tables.load(name_in(table.state.properties) or default)
    return found if found is not None and found.state.properties.get("firn.mode") == _MODE else None


class Memory:
    """The facts of one mirror table."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        of: TableName,
        stream: str,
        warehouse: str,
        name: TableName | None = None,
        *,
        numbers: bool = False,
    ) -> None:
        """`name`: the facts' own table, if it is not `{of}__deletes` (`name_in`); `numbers`: table_state.by_number."""
        self._spark = spark
        self._tables = tables
        self._stream = stream
        self._warehouse = warehouse
        self.name = name or TableName(of.namespace, of.table + names.FACTS)
        self._of = of
        self._numbers = numbers
        self._table: Table | None = None
        self.said = Remembered()

    def look(self, renames: Renames) -> None:
        """Looks at the facts' metadata as they are now, and has their columns called as `renames` says. Raises
        KeyChanged if a table of that name is not Firn's."""
        self._table = self._tables.load(self.name)
        if self._table is None:
            self.said = Remembered()
            return
        if self._table.state.properties.get("firn.mode") != _MODE:
            raise KeyChanged(
                f"{self.name} exists and is no memory of deletes; rename it, or give {self._of} another name"
            )
        self._table = finish(self._spark, self._tables, self._table)
        due = renames.due(field["name"] for field in self._table.state.fields)
        self._table = rename(self._spark, self._tables, self._table, due, {})
        state = self._table.state
        told = [s for s in state.ancestry if NEWEST in s]
        self.said = Remembered(
            newest=max((bytes.fromhex(s[NEWEST]) for s in told), default=b""),
            truncated=max((bytes.fromhex(s[TRUNCATED]) for s in told if TRUNCATED in s), default=b""),
            creates=any(CREATES in s for s in told),
            floor=floor_of(state.properties, numbers=self._numbers),
        )

    def rows(self, op: str, columns: Sequence[Column], wanted: Sequence[int]) -> DataFrame | None:
        """The facts of one op: c{i} of `wanted` (ordinals in `columns`; null where the facts lack one), `_op`, `_ord`,
        `_held`, `_looked` and `_table` (the source table; null: not known)."""
        if self._table is None:
            return None
        there = {field["name"] for field in self._table.state.fields}
        return (
            self._spark.table(self._table.sql)
            .where(f.col(OP) == op)
            .select(
                *(self._column(columns[i]).alias(f"c{i}") for i in wanted),
                f.col(OP).alias("_op"),
                f.concat(f.lit(b"\1"), POSITION).alias("_ord"),
                f.col(HELD).alias("_held"),
                (f.col(LOOKED) if LOOKED in there else f.lit(None).cast("string")).alias("_looked"),
                (f.col(SOURCE) if SOURCE in there else f.lit(None).cast("string")).alias("_table"),
            )
        )

    def truncates(self) -> list[RowChange]:
        """All truncates. One small Spark job."""
        found = self.rows("t", (), ())
        rows = [] if found is None else found.select("_ord", "_table").collect()
        return [truncate_at(bytes(row["_ord"]), row["_table"]) for row in rows]

    def _column(self, column: Column) -> Any:
        """A column of the facts, which may have got another type since they were written, or not be there."""
        own = self._types().get(column.name)
        name = quoted(column.name)
        if own is not None and changes_form(own, column.type):
            return f.expr(converted(self._spark, name, own, column.type))
        return (f.lit(None) if own is None else f.col(name)).cast(spark_type(column))

    def _types(self) -> dict[str, Type]:
        return {column.name: storable(column.type) for column in self._table.columns()[0]} if self._table else {}

    def looked(self, columns: Sequence[Column], key: Sequence[int], keys: DataFrame) -> list[int]:
        """The table's snapshots that have the rows which known deletes of these keys (c{i} of `key`) removed."""
        known = self.rows("d", columns, key)
        if known is None:
            return []
        mine = known.join(f.broadcast(keys), same_key(known, keys, key), "left_semi")
        found = mine.where(f.col("_looked").isNotNull()).select("_looked").distinct().collect()
        return sorted(int(row["_looked"]) for row in found)

    def deletes_above(
        self, low: bytes, changes: DataFrame, columns: Sequence[Column], key: Sequence[int]
    ) -> DataFrame | None:
        """Known deletes of the keys of `changes` that are newer than `low`, as changes like those; None if there can't
        be any. Changes that come in order find none, without a look at the data."""
        if self._table is None or self.said.newest <= low:
            return None
        known = self.rows("d", columns, key)
        if known is None:
            return None
        known = known.where(f.col("_ord") > f.lit(low)).drop("_held", "_looked").distinct()
        keys = changes.select(*(f"c{i}" for i in key)).distinct()
        return known.join(keys, same_key(known, keys, key), "left_semi")

    def write(
        self,
        plan: ColumnPlan,
        key: Sequence[int],
        facts: DataFrame | None,
        looked: int | None,
        truncates: Sequence[RowChange],
        newest: bytes,
        creates: bool,
        last: int,
    ) -> None:
        """Appends facts in one snapshot that carries the stream's progress, unless a run before did so.

        key        ordinals in the plan's columns
        facts      (None: none) `_op` d or c, c{i} of the key, `_ord`, `_ts`, `_table`
        looked     the snapshot that has the rows which these deletes remove; None if there was none
        truncates  the new ones, with a position; `newest`: order of the newest of all these facts
        Raises fence.LostRace, fence.CommitUnknown.
        """
        table = self._ready(plan)
        if table.state.progress(self._stream) >= last:
            return
        # Neither current_timestamp() nor a constant: Spark writes those into the code that it generates, which would
        # then be compiled again for each commit.
        text = datetime.now(UTC).isoformat(sep=" ")
        now = f.when(f.monotonically_increasing_id() >= 0, f.lit(text)).cast("timestamp")
        parts = []
        if facts is not None:
            parts.append(
                facts.select(
                    *(f.col(f"c{i}").alias(plan.columns[i].name) for i in key),
                    f.col("_op").alias(OP),
                    f.lit(None if looked is None else str(looked)).cast("string").alias(LOOKED),
                    order_of(f.col("_ord")).alias(POSITION),
                    f.timestamp_millis("_ts").alias(TIME),
                    f.col("_table").alias(SOURCE),
                    now.alias(AT),
                )
            )
        if truncates:
            named = [(plain(one.order), one.source) for one in truncates]
            frame = self._spark.createDataFrame(named, f"{POSITION} binary, {SOURCE} string")
            parts.append(frame.select(POSITION, SOURCE, f.lit("t").alias(OP), now.alias(AT)))
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        fields = [field for field in self._spark.table(table.sql).schema.fields if field.name not in rows.columns]
        rows = rows.select("*", *(f.lit(None).cast(field.dataType).alias(field.name) for field in fields))
        files = write_rows(self._spark, table, rows.coalesce(1))
        self._append(table, files, newest_of(truncates), newest, creates, last)

    def _append(
        self, table: Table, files: Sequence[Any], truncated: bytes, newest: bytes, creates: bool, last: int
    ) -> None:
        said = {NEWEST: max(newest, self.said.newest).hex()}
        if truncated or self.said.truncated:
            said[TRUNCATED] = max(truncated, self.said.truncated).hex()
        if creates or self.said.creates:
            said[CREATES] = "true"
        append = table.java.newAppend()
        for file in files:
            append.appendFile(file)
        properties = {f"{EPOCH}{self._stream}": str(last), "firn.format": "1"} | said
        fence.commit(self._spark, table, append, files, properties, self._stream)

    def _ready(self, plan: ColumnPlan) -> Table:
        if self._table is not None:
            there = {field["name"] for field in self._table.state.fields}
            missing = tuple(column for column in plan.columns if column.name not in there)
            # By its own types: where a commit had no facts, they stayed as they were.
            own = self._types()
            late = [column for column in plan.columns if own.get(column.name, column.type) != column.type]
            wider = tuple(c for c in late if promotable(own[c.name], c.type) and not changes_form(own[c.name], c.type))
            added = ColumnPlan(plan.columns, missing, wider)
            self._table = retype(self._spark, self._tables, self._table, [c for c in late if c not in wider])
            self._table = fence.unmoved(self._table, self._tables.evolve(self._table, added, FACTS_METADATA))
            if self._numbers != (self._table.state.properties.get(BY_NUMBER) == "true"):
                said = {BY_NUMBER: str(self._numbers).lower()}
                self._table = fence.unmoved(self._table, self._tables.set_properties(self._table, said))
            return self._table
        columns = [Column(column.name, column.type) for column in plan.columns]
        properties = {"firn.mode": _MODE, "firn.stream": self._stream, "firn.of": str(self._of)}
        properties |= {BY_NUMBER: "true"} if self._numbers else {}
        self._table = self._tables.create(self.name, self._warehouse, columns, FACTS_METADATA, (), properties)
        return self._table


def truncate_at(order: bytes, source: str | None) -> RowChange:
    """A truncate as the specification has it. `order`: as in `_ord`, of a change with a position."""
    return RowChange("t", (), order[1 : 1 + WIDTH], order, None, source=source)


def newest_of(truncates: Sequence[RowChange]) -> bytes:
    """The order of the newest, b"" if there is none."""
    return max((one.order for one in truncates), default=b"")


def spark_type(column: Column) -> Any:
    """The Spark type of a column."""
    import pyarrow as pa

    return spark_schema(pa.schema([("x", arrow_type(column.type))])).fields[0].dataType
