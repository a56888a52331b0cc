"""55,262 real events of a pgbench run, whose commit order is not their LSN order, against the final tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration import comparing
from tests.integration.spark.spark_lake import ROOT, Lake, values
from tests.soak import long_only

pytestmark = pytest.mark.spark

PGBENCH = ROOT / "examples" / "pgbench"
CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  bank:
    tables:
      public.pgbench_accounts: {to: bank.accounts, key: [aid]}
      public.pgbench_tellers: {to: bank.tellers, key: [tid]}
      public.pgbench_branches: {to: bank.branches, key: [bid]}
      public.sentinel: {to: bank.sentinel, key: [id]}
      public.pgbench_history: {to: bank.history}
"""
MIRRORED = {
    "accounts": {"aid": "integer", "bid": "integer", "abalance": "integer"},
    "tellers": {"tid": "integer", "bid": "integer", "tbalance": "integer"},
    "branches": {"bid": "integer", "bbalance": "integer"},
}


def check(lake: Lake) -> None:
    """All five tables equal PostgreSQL's."""
    for name, columns in MIRRORED.items():
        expected = comparing.final_rows(_final(f"pgbench_{name}"))
        assert comparing.differences(expected, lake.rows(f"bank.{name}"), columns, [next(iter(columns))]) == []
    history = {"tid": "integer", "bid": "integer", "aid": "integer", "delta": "integer"}
    expected = comparing.final_rows(_final("pgbench_history"))
    assert comparing.differences(expected, lake.rows("bank.history"), history, None) == []
    assert len(lake.rows("bank.sentinel")) == 1


def _final(name: str) -> Path:
    plain = PGBENCH / "final" / f"{name}.csv"
    return plain if plain.exists() else plain.with_suffix(".csv.gz")


@long_only  # tests/e2e/test_demo.py commits all of it at once too
def test_pgbench_in_one_epoch_gives_the_final_tables(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, CONFIG, "bank")
    lake.land(values(PGBENCH / "pgbench_plain.ndjson.gz"), at_once=2_000)
    check(lake)
    assert all(line["seconds"] for line in lake.lines if "_aws" not in line)
    accounts = lake.line("bank.accounts")
    assert accounts["events"] == accounts["merged"] + accounts["superseded"] == 17_750


@long_only
def test_pgbench_in_forty_epochs_gives_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, CONFIG, "bank")
    events = values(PGBENCH / "pgbench_plain.ndjson.gz")
    size = -(-len(events) // 40)
    numbers = []
    for first in range(0, len(events), size):
        lake.post(events[first : first + size], at_once=size)
        numbers.append(lake.seal())
    assert numbers == list(range(1, 41))
    # Ranges as a busy dispatcher makes them, one of them overlapping what is in already.
    for first, last in ((1, 1), (2, 13), (10, 27), (28, 40)):
        assert lake.commit(first, last) == 0, lake.lines
    check(lake)
    progress = [summary.get("firn.epoch.bank") for summary in lake.snapshots("bank.accounts")]
    assert progress == ["1", "13", "27", "40"]
