"""What a dead letter does to the types of a pipeline's source: it may widen them, no more (docs/pipelines.md)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters

pytestmark = pytest.mark.spark

CONFIG = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id], columns: {m: long}}
    pipelines:
      clean: {sql: 'INSERT INTO lake.clean SELECT id, n FROM app.t'}
"""


@pytest.mark.parametrize("at_once", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_dead_letter_may_widen_a_column_of_a_pipelines_source_and_loses_no_row(
    spark: SparkSession, tmp_path: Path, home: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if home == "slices" else "")
    lake = Lake(spark, tmp_path, CONFIG)
    good, bad = event("c", 1, {"id": 1, "n": 5, "m": 1}), event("c", 2, {"id": 2, "n": "x", "m": "no number"})
    for some in [[good, bad]] if at_once else [[good], [bad]]:
        lake.land(some)
    lake.land([event("c", 3, {"id": 3, "n": 6, "m": 2})])
    assert sorted((row["id"], row["n"]) for row in lake.rows("lake.t")) == [(1, 5), (3, 6)]
    assert sorted((row["id"], row["n"]) for row in lake.rows("lake.clean")) == [(1, "5"), (3, "6")]
    assert {letter.reason for letter in letters(lake)} == {"type_mismatch"}
