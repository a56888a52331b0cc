"""Copy-on-write by Spark's tasks: each writes some of the data files that lose rows again, without them."""

import pickle
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from firn_spark.arrow import Batches, map_in_arrow
from firn_spark.files.copy_on_write import OldFile, rewritten
from firn_spark.files.write import Layout, NewFile
from firn_spark.not_eligible import Unfit, first_of
from firn_spark.tables.fence import LostRace

_DONE = pa.schema({"done": pa.binary()})
_BYTES = 64 * 1024 * 1024  # of the files that a task writes again, at least, if there are so many
_SOME = "task int, files binary"


def rewritten_in(spark: SparkSession, layout: Layout, old: Sequence[OldFile]) -> list[NewFile]:
    """Files of what stays of the old ones, by Spark's tasks. Raises Unfit, LostRace, and what Spark raises."""
    some = _by_task(old)
    rows = spark.createDataFrame([(number, pickle.dumps(files)) for number, files in enumerate(some)], _SOME)
    mine = rows.repartitionByRange(len(some), "task").select("files")
    done = [pickle.loads(row["done"]) for row in map_in_arrow(mine, _working(layout), _DONE).collect()]  # noqa: S301
    if failures := [one for one in done if isinstance(one, Exception)]:
        raise first_of(failures)
    return [file for files in done for file in files]


def _by_task(old: Sequence[OldFile]) -> list[list[OldFile]]:
    some: list[list[OldFile]] = [[]]
    for file in sorted(old, key=lambda one: one.path):
        if some[-1] and sum(one.bytes for one in some[-1]) + file.bytes > _BYTES:
            some.append([])
        some[-1].append(file)
    return some


def _working(layout: Layout) -> Batches:
    nothing = pa.schema(layout.fields).empty_table()

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for files in batch.column("files"):
                try:
                    done: object = rewritten(layout, pickle.loads(files.as_py()), nothing)  # noqa: S301 (of our own job)
                except (Unfit, LostRace) as why:
                    done = why
                yield pa.RecordBatch.from_pydict({"done": [pickle.dumps(done)]}, _DONE)

    return run
