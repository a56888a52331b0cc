"""PySpark's daemon with what tasks import already imported: Spark ends a worker that had no task for a minute, and each
one that comes after it would load the same libraries again, for as long as ten tasks take."""

from pyspark.daemon import manager

import firn_spark.slices.appending
import firn_spark.slices.slice_engine
import firn_spark.slices.tasks  # noqa: F401

if __name__ == "__main__":
    manager()
