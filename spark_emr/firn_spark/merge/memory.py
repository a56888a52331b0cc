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

from firn.changes.placing import plain
from firn.changes.types import Column
from firn.jobs.planning import AT, FACTS_METADATA, HELD, LOOKED, OP, POSITION, TIME, ColumnPlan, KeyChanged
from firn.jobs.progress import CREATES, EPOCH, FACTS, FLOOR, NEWEST, TRUNCATED
from firn.jobs.renaming import Renames
from firn.streams import names
from firn.streams.names import TableName, quoted
from firn_spark.arrow import spark_schema
from firn_spark.merge.folding import order_of, same_key
from firn_spark.tables import fence
from firn_spark.tables.alterations import rename
from firn_spark.tables.columns import arrow_type
from firn_spark.tables.evolve import Table, Tables
from firn_spark.tables.retype import finish, retype
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
    ) -> None:
        """`name`: the facts' own table, if it is not `{of}__deletes` (`name_in`)."""
        self._spark = spark
        self._tables = tables
        self._stream = stream
        self._warehouse = warehouse
        self.name = name or TableName(of.namespace, of.table + names.FACTS)
        self._of = of
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
            floor=bytes.fromhex(state.properties.get(FLOOR, "")),
        )

    def rows(self, op: str, columns: Sequence[Column], wanted: Sequence[int]) -> DataFrame | None:
        """The facts of one op: c{i} of `wanted` (ordinals in `columns`; null where the facts lack one), `_op`, `_ord`,
        `_held` and `_looked`."""
        if self._table is None:
            return None
        there = {field["name"] for field in self._table.state.fields}
        return (
            self._spark.table(self._table.sql)
            .where(f.col(OP) == op)
            .select(
                *(
                    # A column may have got another type since these facts were written.
                    (f.col(quoted(columns[i].name)) if columns[i].name in there else f.lit(None))
                    .cast(spark_type(columns[i]))
                    .alias(f"c{i}")
                    for i in wanted
                ),
                f.col(OP).alias("_op"),
                f.concat(f.lit(b"\1"), POSITION).alias("_ord"),
                f.col(HELD).alias("_held"),
                (f.col(LOOKED) if LOOKED in there else f.lit(None).cast("string")).alias("_looked"),
            )
        )

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
        facts: DataFrame | None,
        looked: int | None,
        truncated: bytes,
        newest: bytes,
        creates: bool,
        last: int,
    ) -> None:
        """Appends facts in one snapshot that carries the stream's progress, unless a run before did so.

        facts      (None: none) `_op` d or c, key columns c{i} named as in the table, `_ord`, `_ts`
        looked     the snapshot that has the rows which these deletes remove; None if there was none
        truncated  `_ord` of a new truncate, "" if there is none; `newest`: of the newest of all these facts
        Raises fence.LostRace, fence.CommitUnknown.
        """
        table = self._ready(plan)
        if table.state.progress(self._stream) >= last:
            return
        names = [column.name for column in plan.columns]
        # Neither current_timestamp() nor a constant: Spark writes those into the code that it generates, which would
        # then be compiled anew for each commit.
        text = datetime.now(UTC).isoformat(sep=" ")
        now = f.when(f.monotonically_increasing_id() >= 0, f.lit(text)).cast("timestamp")
        parts = []
        if facts is not None:
            parts.append(
                facts.select(
                    *(f.col(quoted(name)) for name in facts.columns if name in names),
                    f.col("_op").alias(OP),
                    f.lit(None if looked is None else str(looked)).cast("string").alias(LOOKED),
                    order_of(f.col("_ord")).alias(POSITION),
                    f.timestamp_millis("_ts").alias(TIME),
                    now.alias(AT),
                )
            )
        if plain(truncated):
            one = f.lit(plain(truncated)).alias(POSITION)
            parts.append(self._spark.range(1).select(f.lit("t").alias(OP), one, now.alias(AT)))
        rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
        fields = [field for field in self._spark.table(table.sql).schema.fields if field.name not in rows.columns]
        rows = rows.select("*", *(f.lit(None).cast(field.dataType).alias(field.name) for field in fields))
        files = write_rows(self._spark, table, rows.coalesce(1))
        self._append(table, files, truncated, newest, creates, last)

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
            wider = tuple(column for column in plan.widened if column.name in there)
            added = ColumnPlan(plan.columns, missing, wider)
            self._table = retype(self._spark, self._tables, self._table, plan.retyped)
            self._table = fence.unmoved(self._table, self._tables.evolve(self._table, added, FACTS_METADATA))
            return self._table
        columns = [Column(column.name, column.type) for column in plan.columns]
        properties = {"firn.mode": _MODE, "firn.stream": self._stream, "firn.of": str(self._of)}
        self._table = self._tables.create(self.name, self._warehouse, columns, FACTS_METADATA, (), properties)
        return self._table


def spark_type(column: Column) -> Any:
    """The Spark type of a column."""
    import pyarrow as pa

    return spark_schema(pa.schema([("x", arrow_type(column.type))])).fields[0].dataType
