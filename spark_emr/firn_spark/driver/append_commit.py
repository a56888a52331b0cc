"""Every change once into an append table: firn_spark.append without a Spark job."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from firn.changes.decode.types import STRING, Column
from firn.changes.merge import decoded_rows
from firn.changes.metadata_columns import APPEND_METADATA, BEFORE, IDENTITY, OP, POSITION, TIME
from firn_spark.driver import row_lookup
from firn_spark.driver.write import write_cells
from firn_spark.tables import fence
from firn_spark.tables.evolve import Table

Row = Sequence[Any]


def new_rows(spark: SparkSession, table: Table | None, good: Sequence[Row], stream: str) -> dict[str, Row]:
    """The decoded rows that the table does not have yet, by identity, each once. Raises Unfit."""
    mine = decoded_rows.Appendable(good, stream, first=table is not None and stream in table.state.first_identity)
    if table is None or not mine.rows:
        return mine.rows
    identity = Column(IDENTITY, STRING)
    orders = [row[decoded_rows.POS] for row in mine.rows.values()]
    low, high = (None, None) if None in orders else (min(orders), max(orders))
    files = row_lookup.plan(spark, table, row_lookup.Wanted([identity], {(one,) for one in mine.names}, low, high))
    there = row_lookup.read(table, files, ())
    return mine.without({one for (one,) in there.keys([identity])})


def apply(
    spark: SparkSession,
    table: Table,
    new: Mapping[str, Row],
    columns: Sequence[Column],
    properties: Mapping[str, str],
    stream: str,
) -> None:
    """Appends the rows in one snapshot whose summary carries `properties`.

    Raises fence.LostRace, fence.CommitUnknown.
    """
    rows = list(new.values())
    data = {column.name: [row[decoded_rows.WIDTH + i] for row in rows] for i, column in enumerate(columns)}
    data |= {
        OP: [row[decoded_rows.OP] for row in rows],
        POSITION: [row[decoded_rows.POS] for row in rows],
        TIME: [None if row[decoded_rows.TS] is None else row[decoded_rows.TS] * 1000 for row in rows],
        BEFORE: [row[decoded_rows.BEFORE] for row in rows],
        IDENTITY: list(new),
    }
    files = write_cells(spark, table, [*columns, *APPEND_METADATA], {}, data)
    append = table.java.newAppend()
    for file in files:
        append.appendFile(file)
    fence.commit(spark, table, append, files, properties, stream)
