"""A small Spark job: what it loads, each job loads first (setup.classes)."""

from pyspark.sql import SparkSession


def main() -> None:
    """A query and a read of nothing."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).selectExpr("id", "cast(id as string) v").groupBy("v").count().collect()
    spark.createDataFrame([(1, "a")], "n int, v string").toArrow()
    spark.stop()


if __name__ == "__main__":
    main()
