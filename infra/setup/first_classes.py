"""A small Spark job with Iceberg: what it loads, each job loads first (setup.classes)."""

import tempfile

from pyspark.sql import SparkSession

_CATALOG = "spark.sql.catalog.firn"


def main() -> None:
    """A query, a table that is made, written, deleted from and read, and rows of Python's."""
    with tempfile.TemporaryDirectory(prefix="firn-setup-") as folder:
        settings = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{_CATALOG}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{_CATALOG}.uri": f"jdbc:sqlite:{folder}/catalog.db",
            f"{_CATALOG}.warehouse": f"file://{folder}/warehouse",
        }
        spark = SparkSession.builder.config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.range(10).selectExpr("id", "cast(id as string) v").groupBy("v").count().collect()
        spark.createDataFrame([(1, "a")], "n int, v string").toArrow()
        spark.sql("CREATE NAMESPACE firn.a")
        merged = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
        spark.sql(f"CREATE TABLE firn.a.t (id long, v string) USING iceberg TBLPROPERTIES ({merged})")
        spark.range(10).selectExpr("id", "cast(id as string) v").writeTo("firn.a.t").append()
        spark.sql("DELETE FROM firn.a.t WHERE id = 3")
        spark.table("firn.a.t").count()
        spark.stop()


if __name__ == "__main__":
    main()
