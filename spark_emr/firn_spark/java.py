"""Java's classes by their names. A walk from `jvm.org` to a class asks the JVM at each dot; this asks nothing."""

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """The class with this full name (`$` before an inner class), to construct or to call its static methods."""
    gateway: Any = spark.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)
