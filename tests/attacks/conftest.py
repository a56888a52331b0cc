"""The JVM that the Spark tests of a run share."""

from tests.integration.spark.conftest import lake, let_go, spark

__all__ = ["lake", "let_go", "spark"]
