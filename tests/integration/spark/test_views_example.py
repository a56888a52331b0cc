"""examples/views: each view holds what its page says, late orders and sessions that a click joins included."""

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.views.plot import bars
from firn.ingest import accept
from tests.integration.spark.spark_lake import ROOT, Lake, ndjson
from tests.integration.spark.test_views import refreshed

pytestmark = pytest.mark.spark

EXAMPLE = ROOT / "examples" / "views"
ALL = "warehouse: file:///x\ncatalog: {type: sql}\n"


def test_the_views_of_the_shop(spark: SparkSession, tmp_path: Path) -> None:
    one = Lake(spark, tmp_path, ALL + (EXAMPLE / "firn.yaml").read_text(), stream="shop")

    def send(table: str, rows: list[dict[str, Any]]) -> None:
        one.now += timedelta(seconds=1)
        accept.accept(one.store, one.config, "shop", ndjson(rows), now=one.now, table=table)

    for table in ("customers", "orders", "clicks"):
        send(table, [json.loads(line) for line in (EXAMPLE / f"{table}.ndjson").read_text().splitlines()])
    assert one.commit(one.seal()) == 0, one.lines
    refreshed(one)
    assert revenue(one) == {
        ("24", "eu"): (1, "10.50"), ("24", "us"): (1, "20.00"), ("25", "eu"): (2, "104.90"),
    }  # fmt: skip
    assert [row["clicks"] for row in sessions(one)] == [3, 1, 1, 1, 1]
    drawn = bars(row["window_start"] for row in sessions(one))
    assert [line.split()[-1] for line in drawn.splitlines()] == ["4", "1"]
    send("orders", [json.loads(line) for line in (EXAMPLE / "late.ndjson").read_text().splitlines()])
    send("clicks", [{"user_id": 3, "path": "/faq", "seen": "2026-11-25T09:30:00Z"}])
    assert one.commit(one.seal()) == 0, one.lines
    assert not [way for way in refreshed(one).values() if "whole" in way]
    assert revenue(one) == {
        ("24", "eu"): (1, "10.50"), ("24", "us"): (2, "25.25"), ("25", "eu"): (2, "104.90"),
    }  # fmt: skip
    assert [row["clicks"] for row in sessions(one)] == [3, 1, 1, 3]
    people = {row["customer_id"]: (row["orders"], row["spent"], row["clicks"]) for row in one.rows("web.customer_360")}
    assert people == {
        1: (2, Decimal("15.50"), 4), 2: (2, Decimal("25.25"), 1), 3: (1, Decimal("99.90"), 3), 4: (None, None, None),
    }  # fmt: skip


def revenue(lake: Lake) -> dict[tuple[str, str], tuple[int, str]]:
    return {
        (f"{row['day']:%d}", row["region"]): (row["orders"], str(row["revenue"])) for row in lake.rows("web.revenue")
    }


def sessions(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.rows("web.sessions"), key=lambda row: (row["user_id"], row["window_start"]))
