"""A table mode that is added from outside: its line in the registry, and one for each home of the engine."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.changes.metadata_columns import BEFORE, IDENTITY, POSITION
from firn.config import modes
from firn.config.modes import MODES, TableMode
from firn_spark.driver import engine
from firn_spark.driver.engine import DriverEngine
from firn_spark.slices import slice_engine
from firn_spark.slices.slice_engine import SliceEngine
from firn_spark.table_commit import TableCommit
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark

# An append table that says nothing of the rows before.
LEDGER = TableMode("ledger", tuple(one for one in modes.MODES["append"].columns if one.name != BEFORE), keyed=False)


def ledger(home: DriverEngine | SliceEngine, one: TableCommit) -> None:
    home.append(one)
    one.outcome.way["book"] = "ledger"


@HOMES
def test_a_mode_is_a_line_of_the_registry_and_one_of_each_home(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    monkeypatch.setitem(MODES, "ledger", LEDGER)
    monkeypatch.setitem(engine.MODES, "ledger", ledger)
    monkeypatch.setitem(slice_engine.MODES, "ledger", ledger)
    lake = Lake(spark, tmp_path, config("key: [id], mode: ledger"))
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    lake.land([event("u", 20, {"id": 1, "v": "b"}), event("c", 10, {"id": 1, "v": "a"})])
    said = lake.line("lake.t")
    assert (said["mode"], said["merged"], said["way"]["lookup"], said["way"]["book"]) == ("ledger", 1, home, "ledger")
    assert sorted((row["id"], row["v"]) for row in lake.rows("lake.t")) == [(1, "a"), (1, "b")]
    assert {POSITION, IDENTITY} <= set(lake.rows("lake.t")[0])
    assert BEFORE not in lake.rows("lake.t")[0]
    assert lake.catalog.load_table(("lake", "t")).properties["firn.mode"] == "ledger"
    assert not lake.catalog.table_exists(("lake", "t__deletes"))
