"""DynamoDB's numbers that no decimal holds together are text, each with its digits, whichever comes first."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.emitter_events import dynamodb
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.soak import few_cases

pytestmark = pytest.mark.spark

CONFIG = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    envelope: dynamodb
    tables:
      one: {to: lake.one, key: [id]}
"""
NUMBERS = ("9" * 38, "1.5", "7", "-0.001")


@few_cases(1)
@HOMES
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 1, 0)])
def test_38_digits_and_a_fraction_keep_all_their_digits(
    spark: SparkSession, tmp_path: Path, home: str, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch)
    lake = Lake(spark, tmp_path, CONFIG)
    for place in order:
        event = dynamodb(1_000 + place, "c", "one", None, {"id": place})
        assert event is not None
        event["dynamodb"]["NewImage"]["n"] = {"N": NUMBERS[place]}
        lake.land([json.loads(json.dumps(event))])
    assert [row["n"] for _, row in sorted(lake.by_key("lake.one", "id").items())] == list(NUMBERS)
