"""DataFrame.mapInArrow without pandas: PySpark 4.0 asks for pandas there and never uses it, and it is 60 MB."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.storagelevel import StorageLevel
from pyspark.util import PythonEvalType

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(rows: DataFrame, function: Batches, schema: pa.Schema) -> DataFrame:
    """`rows.mapInArrow(function, schema)`, with the check for pandas left out (pyspark.sql.pandas.map_ops)."""
    udf = UserDefinedFunction(function, spark_schema(schema), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*(rows[name] for name in rows.columns))
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)


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
