"""One change a key into a mirror table, by MERGE INTO: one snapshot, guarded by position.

`apply` is the engine's whole interface: a faster one replaces this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from firn.changes.types import Column
from firn.jobs.planning import POSITION, TIME
from firn.streams.names import quoted
from firn_spark.evolve import Table
from firn_spark.folding import Truncate

_SOURCE = "firn_changes"
_PROPERTY = "spark.sql.iceberg.snapshot-property."


@dataclass(frozen=True)
class MirrorChanges:
    """What to apply: `rows` as folding.fold_changes gives them, for `columns` (c0… in order), with the ordinals of the
    key, those that may be unavailable, and the truncate that came with the changes."""

    rows: DataFrame
    columns: Sequence[Column]
    key: Sequence[int]
    unavailable: Sequence[int] = ()
    truncate: Truncate | None = None


def apply(spark: SparkSession, table: Table, changes: MirrorChanges, properties: Mapping[str, str]) -> None:
    """Merges `changes` into `table` in one snapshot whose summary carries `properties`, even if no row changes.

    A change is applied only if its position is greater than the row's (a row without one is older than everything), so
    repeating it does nothing. Raises what Spark raises; a ValidationException or CommitFailedException means that
    another writer won and nothing was applied.
    """
    changes.rows.createOrReplaceTempView(_SOURCE)
    names = [_PROPERTY + name for name in properties]
    try:
        for name, value in zip(names, properties.values(), strict=True):
            spark.conf.set(name, value)
        spark.sql(statement(table.sql, changes))
    finally:
        for name in names:
            spark.conf.unset(name)
        spark.catalog.dropTempView(_SOURCE)


def statement(target: str, changes: MirrorChanges) -> str:
    """The MERGE statement. Pure."""
    same = " AND ".join(f"t.{quoted(changes.columns[i].name)} <=> s.c{i}" for i in changes.key)
    newer = f"(t.{POSITION} IS NULL OR s._pos > t.{POSITION})"
    assignments = [f"t.{quoted(c.name)} = {_value(i, c, changes)}" for i, c in enumerate(changes.columns)]
    assignments += [f"t.{POSITION} = s._pos", f"t.{TIME} = timestamp_millis(s._ts)"]
    names = [quoted(column.name) for column in changes.columns] + [POSITION, TIME]
    values = [f"s.c{i}" for i in range(len(changes.columns))] + ["s._pos", "timestamp_millis(s._ts)"]
    # All names are quoted; values are c0… of the source or hexadecimal literals.
    lines = [
        f"MERGE INTO {target} t USING {_SOURCE} s ON {same}",
        f"WHEN MATCHED AND s._op = 'd' AND {newer} THEN DELETE",
        f"WHEN MATCHED AND s._op <> 'd' AND {newer} THEN UPDATE SET {', '.join(assignments)}",
        f"WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})",  # noqa: S608
    ]
    if changes.truncate is not None:
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND {_truncated(changes.truncate)} THEN DELETE")
    return "\n".join(lines)


def _value(ordinal: int, column: Column, changes: MirrorChanges) -> str:
    if ordinal not in changes.unavailable:
        return f"s.c{ordinal}"
    # The target's value stands, unless its row is from before a delete that came with these changes.
    stale = f"coalesce(s._gone > t.{POSITION}, s._gone IS NOT NULL)"
    kept = f"array_contains(s._kept, {ordinal}) AND NOT {stale}"
    return f"CASE WHEN {kept} THEN t.{quoted(column.name)} ELSE s.c{ordinal} END"


def _truncated(truncate: Truncate) -> str:
    if truncate.position is None:
        return "true"
    return f"(t.{POSITION} IS NULL OR t.{POSITION} < X'{truncate.position.hex()}')"
