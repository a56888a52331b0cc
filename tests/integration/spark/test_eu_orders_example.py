"""examples/eu-orders: the mirror that SQL makes holds what the page says, in whatever order the events come."""

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import ROOT, Lake

pytestmark = pytest.mark.spark

EXAMPLE = ROOT / "examples" / "eu-orders"
ALL = "warehouse: file:///x\ncatalog: {type: sql}\n"


def test_the_mirror_holds_the_orders_of_the_eu(spark: SparkSession, tmp_path: Path) -> None:
    one = Lake(spark, tmp_path, ALL + (EXAMPLE / "firn.yaml").read_text(), stream="shop")
    events = [json.loads(line) for line in (EXAMPLE / "events.ndjson").read_text().splitlines()]
    one.land(events[1::2])
    one.land(events[::2])
    with (EXAMPLE / "final.csv").open() as file:
        expected = {int(row["id"]): (row["status"], Decimal(row["total"])) for row in csv.DictReader(file)}
    found = {row["id"]: (row["status"], row["total"]) for row in one.rows("shop.eu_orders")}
    assert found == expected
