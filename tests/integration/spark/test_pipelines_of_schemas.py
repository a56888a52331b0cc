"""Pipelines out of rows with a schema: lists and structs go through SQL into tables, and fresh reads see the same."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson

pytestmark = pytest.mark.spark

CONFIG = """
warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    envelope: rows
    tables:
      carts:
        to: lake.carts
        mode: append
        schema:
          fields:
            - {name: id, type: int64, required: true}
            - {name: at, type: timestamp}
            - {name: buyer, type: struct, fields: [{name: name, type: string}, {name: vip, type: bool}]}
            - name: items
              type: list
              items: {type: struct, fields: [{name: sku, type: string}, {name: n, type: int32}]}
    pipelines:
      items:
        sql: >
          INSERT INTO lake.items SELECT id, buyer.name AS buyer, UNNEST(items) AS item FROM carts WHERE len(items) > 0
"""


def cart(number: int, *items: tuple[str, int]) -> dict[str, object]:
    told = [{"sku": sku, "n": n} for sku, n in items]
    return {"id": number, "at": "2026-03-01T12:00:00Z", "buyer": {"name": f"b{number}", "vip": False}, "items": told}


@HOMES
def test_items_of_carts_are_rows_of_their_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    lake = Lake(spark, tmp_path, CONFIG)
    send(lake, cart(1, ("a", 1), ("b", 2)), cart(2))
    assert lake.commit(lake.seal()) == 0, lake.lines
    send(lake, cart(3, ("a", 5)), {"id": "none"})
    expected = [(1, "b1", {"sku": "a", "n": 1}), (1, "b1", {"sku": "b", "n": 2}), (3, "b3", {"sku": "a", "n": 5})]
    fresh = Reader(lake.catalog, lambda: lake.store).table("lake.items").read(fresh=True).pylist()
    assert sorted(((row["id"], row["buyer"], row["item"]) for row in fresh), key=repr) == expected
    assert lake.commit(lake.seal()) == 0, lake.lines
    found = [(row["id"], row["buyer"], row["item"]) for row in lake.rows("lake.items")]
    assert sorted(found, key=repr) == expected
    assert {row["id"]: row["buyer"] for row in lake.rows("lake.carts")} == {
        n: {"name": f"b{n}", "vip": False} for n in (1, 2, 3)
    }


def send(lake: Lake, *carts: dict[str, object]) -> None:
    lake.now += timedelta(seconds=1)
    answer = accept.accept(lake.store, lake.config, "spec", ndjson([*carts]), now=lake.now, table="carts")
    assert (answer.accepted, answer.rejected) == (len(carts) - ("none" in str(carts)), int("none" in str(carts)))
