"""The JVM that the Spark tests of a run share."""

from tests.integration.spark.conftest import lake, spark

__all__ = ["lake", "spark"]
