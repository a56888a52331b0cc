"""DataFrame.mapInArrow without pandas: PySpark 4.0 asks for pandas there and never uses it, and it is 60 MB."""

import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.storagelevel import StorageLevel
from pyspark.util import PythonEvalType

from firn_spark import vended_keys

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(rows: DataFrame, function: Batches, schema: pa.Schema) -> DataFrame:
    """`rows.mapInArrow(function, schema)`, with the check for pandas left out (pyspark.sql.pandas.map_ops)."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    udf = UserDefinedFunction(_cheap_to_start(function), spark_schema(schema), evalType=kind)
    column = udf(*(rows[name] for name in rows.columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


def _cheap_to_start(function: Batches) -> Batches:
    """The function, which also makes the worker's next tasks cheap to start, and takes along the keys that catalogs
    gave out with their tables.

    PySpark invalidates the import caches before each task, and before 3.13 Python answers by reading the directory of
    each archive on its path again, once for each package in it (https://github.com/python/cpython/issues/103200): of
    pyspark.zip 50 ms of CPU a task. A job's archives stay what they are."""

    keys = vended_keys.planned()

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        vended_keys.take(keys)
        if sys.version_info < (3, 13):
            zipimport.zipimporter.invalidate_caches = _stays  # type: ignore[assignment, method-assign]
        return function(batches)

    return run


def _stays(_archive: zipimport.zipimporter) -> None:
    """In place of reading the archive's directory again."""


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, made once. Good inside the `with` only."""
    found = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield found
    finally:
        found.unpersist()


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps without a zone stay without."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
