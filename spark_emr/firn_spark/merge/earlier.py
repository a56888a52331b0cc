"""Rows of older snapshots under today's columns: a column may have had another name since, or another type and so
another field id (tables.retype)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import Column
from firn.changes.metadata_columns import HELD, POSITION, SOURCE, TIME
from firn.config.names import quoted
from firn.errors import TerminalError
from firn.tables.table_state import field_before
from firn_spark.tables.columns import spark_type
from firn_spark.tables.evolve import Table
from firn_spark.tables.java import java_class
from firn_spark.tables.retype import converted


def fields_at(spark: SparkSession, table: Table, snapshot: int) -> list[Mapping[str, Any]]:
    """The fields of the schema that a snapshot was made under, as TableState.fields."""
    number = table.java.snapshot(snapshot).schemaId()
    schema = table.java.schema() if number is None else table.java.schemas().get(number)  # older writers tell none
    parser = java_class(spark, "org.apache.iceberg.SchemaParser")
    fields: list[Mapping[str, Any]] = json.loads(str(parser.toJson(schema)))["fields"]
    return fields


def is_retyped(spark: SparkSession, table: Table, snapshot: int, columns: Sequence[Column]) -> bool:
    """Whether one of the columns has another field id by now than at the snapshot."""
    then, now = fields_at(spark, table, snapshot), _ids(table)
    found = ((column, field_before(column, now.get(column.name), then)) for column in columns)
    return any(field is not None and field["id"] != now.get(column.name) for column, field in found)


def rows_at(spark: SparkSession, table: Table, snapshot: int, columns: Sequence[Column]) -> DataFrame:
    """All rows of a snapshot: `columns` by today's names and types (null: the table had none), `_firn_pos`, `_firn_ts`,
    and if they were there `_firn_source` and, by today's field ids, `_firn_held`."""
    if table.unreadable:
        raise TerminalError(
            f"{table.name}: a row that moved to another key has values that only a snapshot from before a change of "
            f"type tells, and {table.unreadable}: firn rebuild it into a new table"
        )
    then, now = fields_at(spark, table, snapshot), _ids(table)
    rows = spark.read.option("versionAsOf", snapshot).table(table.files_sql)
    selected = []
    ids: dict[int, int] = {}
    for column in columns:
        field = field_before(column, now.get(column.name), then)
        value = f.lit(None)
        if field is not None:
            ids[int(field["id"])] = now[column.name]
            name, was = quoted(field["name"]), column_of(field)
            told = was is not None and changes_form(was.type, column.type)
            value = f.expr(converted(spark, name, was.type, column.type)) if was and told else f.col(name)
        selected.append(value.cast(spark_type(column.type)).alias(column.name))
    held = []
    if HELD in rows.columns:
        moved = " ".join(f"WHEN {old} THEN {new}" for old, new in ids.items() if old != new)
        keys = f"transform_keys({HELD}, (k, v) -> CASE k {moved} ELSE k END)" if moved else HELD
        held = [f.expr(keys).alias(HELD)]
    source = [SOURCE] if SOURCE in rows.columns else []
    return rows.select(*selected, POSITION, TIME, *held, *source)


def _ids(table: Table) -> dict[str, int]:
    return {str(field["name"]): int(field["id"]) for field in table.state.fields}
