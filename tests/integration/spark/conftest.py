"""One JVM for all Spark tests of a run, and a lake for each test."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn_spark import session
from tests.integration.spark.spark_lake import ROOT, Lake
from tests.soak import LONG


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One JVM for all Spark tests of a run."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    code = [ROOT / "layers" / "core" / "python", ROOT / "spark_emr"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, code), os.environ.get("PYTHONPATH", "")])
    jars = sorted((ROOT / ".cache" / "jars").glob("*.jar"))
    if not jars:
        pytest.fail("no jars in .cache/jars: run `make setup`")
    conf = {"spark.jars": ",".join(map(str, jars)), "spark.master": "local[2]", "spark.driver.memory": "2g"}
    # Short-lived and small: the optimising compiler would take more CPU than the tests themselves.
    conf |= {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    if not LONG:
        # Queries of ten rows: making a class for each stage takes longer than running it, and so do empty partitions.
        # `make soak` runs them as jobs do, and so do the jobs of tests/e2e.
        conf |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "2"}
    running = session.build("sqlite:////nowhere/catalog.db", "file:///nowhere", conf)
    yield running
    running.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Callable[[str], Lake]:
    """Makes a lake for a configuration, in a folder of the test's own."""
    return lambda config: Lake(spark, tmp_path, config)
