"""What changed between two snapshots, for Spark: also where deletes are merged on read, which Iceberg's own changelog
refuses.

As firn_lake does it (docs/adr/0023-changes-from-files.md), by files: those that both snapshots have with the same
deletes are left out; the rows of the others are matched, and what is equal on both sides cancels out. Here a file that
lost some rows is read as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from firn.changes.metadata_columns import METADATA
from firn.config.names import CHANGES, quoted
from firn.errors import TerminalError
from firn.tables.snapshot_history import AsOf
from firn_spark.sources.moments import Snapshot, Timeline
from firn_spark.sources.reading import NoSuchColumn, opened
from firn_spark.tables.evolve import Table
from firn_spark.tables.rewriting import rows_of

INSERT, UPDATE, DELETE = "insert", "update", "delete"
CHANGE, BEFORE, SNAPSHOT, COMMITTED = "_change", "_before", "_snapshot", "_committed_at"
_WIDER: Final = {("int", "long"): "long", ("long", "int"): "long", ("float", "double"): "double",
                 ("double", "float"): "double"}  # fmt: skip
_SPARK: Final = {"long": "bigint", "double": "double"}


class BadColumn(TerminalError):
    """A column of the table can't be in its changes."""


@contextmanager
def changes(
    spark: SparkSession,
    table: str,
    from_: AsOf,
    to: AsOf = None,
    steps: bool = False,
    columns: Sequence[str] | None = None,
    metadata: bool = False,
) -> Iterator[DataFrame]:
    """The changes of `table` from one moment (None: the empty table) to another (None: now). Good inside the `with`
    only, which holds the list of files that Spark reads.

    Columns: `_change` (insert, update, delete), with `steps` `_snapshot` and `_committed_at`, the table's as `to` has
    them, and `_before`, a struct of the same: the row as it was, null for an insert. Of a delete the columns are the
    row as it was. Net, or with `steps` each snapshot's own, in no promised order. Matched by the table's key; without
    one equal rows are counted, and there are no updates.

    Raises NoSuchTable, NoSuchMoment, NoSuchColumn, BadColumn; NotOneLine with `steps`.
    """
    found, timeline = opened(spark, table)
    before, after = timeline.at(from_) if from_ is not None else None, timeline.at(to)
    shape = _Shape(found, timeline, before, after, timeline.is_branch(to), columns, metadata)
    with ExitStack() as held:
        if not steps:
            yield _between(spark, found, before, after, shape, held)
            return
        parts = []
        for one in timeline.line(before, after):
            if one.operation != "replace":  # it only wrote rows again
                part = _between(spark, found, before, one, shape, held)
                time = f.timestamp_millis(f.lit(one.time_ms))
                labels = f.lit(one.id).alias(SNAPSHOT), time.alias(COMMITTED)
                parts.append(part.select(CHANGE, *labels, *shape.names_sql, BEFORE))
            before = one
        if not parts:
            none = _between(spark, found, after, after, shape, held)
            labels = f.lit(0).cast("bigint").alias(SNAPSHOT), f.lit(None).cast("timestamp").alias(COMMITTED)
            parts = [none.select(CHANGE, *labels, *shape.names_sql, BEFORE)]
        yield reduce(DataFrame.unionByName, parts)


class _Shape:
    """The columns of the changes: those of `after`, by field id, in types that the rows of both fit."""

    def __init__(
        self,
        table: Table,
        timeline: Timeline,
        before: Snapshot | None,
        after: Snapshot | None,
        today: bool,
        columns: Sequence[str] | None,
        metadata: bool,
    ) -> None:
        fields = {field["name"]: field for field in timeline.schema(None if today else after)}
        now = {field["id"]: field for field in timeline.schema(None)}
        key = _key(table, fields, now)
        chosen = [name for name in fields if metadata or name not in METADATA] if columns is None else columns
        for name in chosen:
            if name not in fields:
                raise NoSuchColumn(f"{table.name} has no column {name!r} then; it has {', '.join(fields)}")
        self.names = [*key, *(name for name in chosen if name not in key)] if columns is not None else list(chosen)
        self.key = key
        taken = sorted(name for name in self.names if name.lower() in CHANGES)  # Spark knows no case
        if taken:
            raise BadColumn(
                f"{table.name} has a column {taken[0]!r}, which changes have too: name the columns that you want"
            )
        lost = [name for name in self.names if fields[name]["id"] not in now]
        if lost:
            raise NoSuchColumn(
                f"column {lost[0]!r} of {table.name} was dropped since, and Spark reads files with the columns of "
                "today: name the columns that you want, or use firn_lake, which reads it"
            )
        then = {field["id"]: field for field in timeline.schema(before)} if before is not None else {}
        self._read = [(now[fields[name]["id"]]["name"], _type(fields[name], then)) for name in self.names]

    @property
    def names_sql(self) -> list[Any]:
        """The columns for a select."""
        return [f.col(quoted(name)) for name in self.names]

    def of(self, rows: DataFrame) -> DataFrame:
        """Rows as they are read, with the columns of today, as `c0`, `c1`, …"""
        found = []
        for place, (name, kind) in enumerate(self._read):
            column = f.col(quoted(name))
            found.append((column.cast(kind) if kind else column).alias(f"c{place}"))
        return rows.select(*found)


def _key(table: Table, fields: Mapping[str, Any], now: Mapping[int, Any]) -> list[str]:
    """The key's columns under the names that they had then."""
    identifiers = table.java.schema().identifierFieldNames().toArray()
    today = table.key() or tuple(sorted(str(name) for name in identifiers))
    ids = {field["name"]: number for number, field in now.items()}
    then = {field["id"]: name for name, field in fields.items()}
    named = [then.get(ids.get(name, -1)) for name in today]
    if None in named:
        raise NoSuchColumn(
            f"{table.name} has the key ({', '.join(today)}), and not all of it then: {', '.join(fields)}"
        )
    return [name for name in named if name is not None]


def _type(field: Mapping[str, Any], then: Mapping[int, Any]) -> str | None:
    """Spark's word for the type that both snapshots' values fit, where it is not the one that is read anyway."""
    mine, other = field["type"], then.get(field["id"], field)["type"]
    if not isinstance(mine, str):
        return None
    if isinstance(other, str):
        mine = _WIDER.get((mine, other), max(mine, other, key=_digits) if mine.startswith("decimal") else mine)
    return mine if mine.startswith("decimal") else {"int": "int", "float": "float", **_SPARK}.get(mine)


def _digits(kind: str) -> int:
    inside = kind.partition("(")[2].partition(",")[0].strip()
    return int(inside) if inside.isdigit() else 0


def _between(
    spark: SparkSession, table: Table, before: Snapshot | None, after: Snapshot | None, shape: _Shape, held: ExitStack
) -> DataFrame:
    old, new = _tasks(table, before), _tasks(table, after)
    left = [task for path, task in old.items() if path not in new or _deletes(new[path]) != _deletes(task)]
    came = [task for path, task in new.items() if path not in old or _deletes(old[path]) != _deletes(task)]
    return _matched(_rows(spark, table, left, shape, held), _rows(spark, table, came, shape, held), shape)


def _tasks(table: Table, snapshot: Snapshot | None) -> dict[str, Any]:
    """Data file -> its org.apache.iceberg.FileScanTask at that snapshot."""
    if snapshot is None:
        return {}
    planned = table.java.newScan().useSnapshot(snapshot.id).planFiles()
    try:
        found, iterator = {}, planned.iterator()
        while iterator.hasNext():
            task = iterator.next()
            found[str(task.file().location())] = task
        return found
    finally:
        planned.close()


def _deletes(task: Any) -> frozenset[tuple[str, int]]:
    return frozenset((str(one.location()), int(one.contentOffset() or 0)) for one in task.deletes())


def _rows(spark: SparkSession, table: Table, tasks: Iterable[Any], shape: _Shape, held: ExitStack) -> DataFrame:
    listed = list(tasks)
    if not listed:
        return shape.of(spark.table(table.files_sql).limit(0))
    return shape.of(held.enter_context(rows_of(spark, table, listed)))


def _matched(left: DataFrame, came: DataFrame, shape: _Shape) -> DataFrame:
    columns = [f"c{place}" for place in range(len(shape.names))]
    by = [f"c{shape.names.index(name)}" for name in shape.key]
    # What both have as often is not a change.
    both = left.withColumn("_n", f.lit(-1)).unionByName(came.withColumn("_n", f.lit(1)))
    rest = both.groupBy(*columns).agg(f.sum("_n").alias("_n")).where("_n <> 0")
    each = rest.withColumn("_one", f.explode(f.sequence(f.lit(1), f.abs("_n").cast("int"))))
    if not by:
        kind = f.when(f.col("_n") > 0, INSERT).otherwise(DELETE)
        image = f.when(f.col("_n") < 0, _image(shape, columns))
        return each.select(kind.alias(CHANGE), *_named(shape, columns), image.alias(BEFORE))
    # Several rows of one key on a side, in a table that Firn did not make, are matched one by one.
    each = each.withColumn("_twin", f.row_number().over(Window.partitionBy(*by, f.col("_n") > 0).orderBy(*by)))
    old = each.where("_n < 0").select(
        *(f.col(one).alias(f"o{one}") for one in (*columns, "_twin")), f.lit(True).alias("_o")
    )
    new = each.where("_n > 0").select(*columns, "_twin", f.lit(True).alias("_c"))
    same = reduce(lambda a, b: a & b, (f.col(f"o{one}").eqNullSafe(f.col(one)) for one in (*by, "_twin")))
    found = old.join(new, same, "full_outer")
    kind = f.when(f.col("_c").isNull(), DELETE).when(f.col("_o").isNull(), INSERT).otherwise(UPDATE)
    now = [f.when(f.col("_c").isNull(), f.col(f"o{one}")).otherwise(f.col(one)) for one in columns]
    after = [column.alias(name) for column, name in zip(now, shape.names, strict=True)]
    image = f.when(f.col("_o").isNotNull(), _image(shape, [f"o{one}" for one in columns]))
    return found.select(kind.alias(CHANGE), *after, image.alias(BEFORE))


def _named(shape: _Shape, columns: Sequence[str]) -> list[Any]:
    return [f.col(one).alias(name) for one, name in zip(columns, shape.names, strict=True)]


def _image(shape: _Shape, columns: Sequence[str]) -> Any:
    return f.struct(*_named(shape, columns))
