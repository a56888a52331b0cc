"""New rows of a partitioned table: each slice has some for most partitions, and a file for each would be too many. So
those of several slices are brought together and written by a second task."""

import pickle
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn_spark.arrow import Batches, map_in_arrow
from firn_spark.files.write import Layout, NewFile, ordered, partitioned, write_rows
from firn_spark.slices.decoding import table_of

WORTH = 100_000  # rows that are worth a file of their own
_DONE = pa.schema({"done": pa.binary()})


def placed(
    layout: Layout, rows: pa.Table, number: int, worth: int
) -> tuple[list[pa.Table], list[tuple[str, pa.Table]]]:
    """The rows (write.rows_of) of the slice `number`: those that are written at once, and the others by the names under
    which they meet those of its neighbours. `worth`: Work.worth."""
    here, there = [], []
    for values, part in partitioned(layout, rows):
        # So many slices together have about as many rows as are worth a file: as a power of two, for all to agree.
        together = 1 << max(1, worth // len(part)).bit_length() - 1
        if together == 1:
            here.append(part)
        else:
            there.append((repr((values, together, number // together)), part))
    return here, there


def written(rows: DataFrame, layout: Layout, tasks: int) -> list[NewFile]:
    """Has the rows with a `name` (placed; others have none) and a `body` written. Raises what Spark raises."""
    mine = rows.where(f.col("name").isNotNull()).select("name", "body").repartition(tasks, "name")
    done = [pickle.loads(row["done"]) for row in map_in_arrow(mine, _writing(layout), _DONE).collect()]  # noqa: S301
    return [file for files in done for file in files]


def _writing(layout: Layout) -> Batches:
    schema = pa.schema(layout.fields)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[str, list[pa.Table]] = {}
        for batch in batches:
            for name, body in zip(batch.column("name").to_pylist(), batch.column("body"), strict=True):
                parts.setdefault(name, []).append(pa.table(table_of(body.as_buffer()).columns, schema=schema))
        for name in sorted(parts):
            done = write_rows(layout, ordered(layout, pa.concat_tables(parts.pop(name))))
            yield pa.RecordBatch.from_pydict({"done": [pickle.dumps(done)]}, _DONE)

    return run
