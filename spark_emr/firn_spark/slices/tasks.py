"""Slices as Spark's tasks: each slice is put together and worked on in one, and what comes of it goes to the job."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from firn_spark.arrow import Batches, kept, map_in_arrow
from firn_spark.files.write import Layout, NewFile
from firn_spark.not_eligible import Unfit, first_of
from firn_spark.slices import by_partition
from firn_spark.slices.decoding import PLAIN, body_of, table_of
from firn_spark.tables.fence import LostRace

# done     of a slice: what its work gave; null beside rows
# failure  why it could not be done: Unfit or LostRace
# name     of rows that other slices have some for the same files of (by_partition), `body`: the rows
_DONE = pa.schema({"done": pa.binary(), "failure": pa.binary(), "name": pa.string(), "body": pa.binary()})
Rest = Sequence[tuple[str, pa.Table]]  # rows that are yet to be written (by_partition.placed)
Work = Callable[[int, pa.Table], tuple[bytes, Rest]]  # of a slice's label and its changes


def results(rows: DataFrame, slices: int, work: Work, layout: Layout | None) -> tuple[list[bytes], list[NewFile]]:
    """What `work` makes of each slice of `rows` (decoding.SLICED), in a task of its own, and the files of the rows that
    it leaves to be written. `layout`: of those; None if there are none. Raises Unfit, LostRace, and what Spark
    raises."""
    mine = rows.where(f.col("kind") == PLAIN).select("slice", "body").repartition(slices, "slice")
    return worked(mine, _working(work), layout, 2 * slices)


def worked(mine: DataFrame, work: Batches, layout: Layout | None, writers: int) -> tuple[list[bytes], list[NewFile]]:
    """The same of any rows, of which `work` makes `result`s. `writers`: tasks that write what is left."""
    found = map_in_arrow(mine, work, _DONE)
    with nullcontext(found) if layout is None else kept(found) as found:
        told = found.where(f.col("name").isNull()).select("done", "failure").collect()
        if failures := [row["failure"] for row in told if row["failure"] is not None]:
            raise first_of([pickle.loads(one) for one in failures])  # noqa: S301 (our own executors wrote it)
        bodies = [bytes(row["done"]) for row in told]
        return bodies, [] if layout is None else by_partition.written(found, layout, writers)


def _working(work: Work) -> Batches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for label, body in zip(batch.column("slice").to_pylist(), batch.column("body"), strict=True):
                parts.setdefault(label, []).append(table_of(body.as_buffer()))
        for label in sorted(parts):
            mine = pa.concat_tables(parts.pop(label)).combine_chunks()
            try:
                done, rest = work(label, mine)
                for name, rows in rest:
                    yield result(name=name, body=body_of(rows))
                yield result(done=done)
            except (Unfit, LostRace) as why:
                yield result(failure=pickle.dumps(why))
            except pa.ArrowException as error:  # 2 GB of one column, say
                unfit = Unfit(f"a slice that Arrow can't take: {str(error).splitlines()[0]}")
                yield result(failure=pickle.dumps(unfit))

    return run


def result(**cells: object) -> pa.RecordBatch:
    """A row of what a task gives: `done`, `failure`, or `name` and `body`."""
    return pa.RecordBatch.from_pydict({name: [cells.get(name)] for name in _DONE.names}, _DONE)
