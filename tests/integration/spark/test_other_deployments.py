"""Two deployments that share a catalog, each with a warehouse of its own: the second finds the first's table."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn_spark import maintenance_job, rebuild
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark

T = TableName("lake", "t")


def test_the_table_of_another_deployment_is_left_alone_by_every_job(spark: SparkSession, tmp_path: Path) -> None:
    theirs = Lake(spark, tmp_path / "theirs", config())
    theirs.land([event("c", 10, {"id": 1, "v": "theirs"})])
    ours = Lake(spark, tmp_path / "ours", config(), catalog_uri=theirs.catalog_uri)
    ours.deployment = "ours"
    ours.post([event("c", 20, {"id": 2, "v": "ours"}), event("c", 21, {"id": 2, "v": "ours"}, table="other")])
    assert ours.commit(ours.seal()) == 1
    said = f"lake.t lies at file://{tmp_path}/theirs/warehouse/lake/t, outside of the warehouse {ours.warehouse}"
    assert said in ours.line("lake.t")["error"]
    assert [row["v"] for row in ours.rows("lake.other")] == ["ours"]

    told: list[dict[str, Any]] = []
    places = (ours.staging, ours.warehouse, ours.catalog_uri)
    request = maintenance_job.Request("r1", ("compact", "expire", "orphans"), (T,), all=True)
    assert maintenance_job.run(request, *places, spark=ours.spark, log=told.append) == 0
    assert [(line["status"], said in line["why"]) for line in told] == [("left", True)]
    for how in ({"in_place": True}, {"check": True}, {"into": TableName("lake", "again")}):
        told.clear()
        assert rebuild.run(rebuild.Request("r2", T, **how), *places, spark=ours.spark, log=told.append) == 1
        assert said in told[0]["error"]
    assert [row["v"] for row in theirs.rows("lake.t")] == ["theirs"]
    theirs.land([event("c", 30, {"id": 3, "v": "theirs"})])
    assert len(theirs.rows("lake.t")) == 2


def test_a_database_that_was_not_named_is_left_alone_by_every_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Lake(spark, tmp_path, config())
    ours.land([event("c", 10, {"id": 1, "v": "a"})])
    monkeypatch.setenv("FIRN_GLUE_DATABASES", "dev_*,crm")
    said = "lake.t is left alone: the namespace lake is not one of GlueDatabases (dev_*, crm)"
    ours.post([event("c", 20, {"id": 2, "v": "b"})])
    assert ours.commit(ours.seal()) == 1
    assert said in ours.line("lake.t")["error"]

    told: list[dict[str, Any]] = []
    places = (ours.staging, ours.warehouse, ours.catalog_uri)
    request = maintenance_job.Request("r1", ("compact", "expire", "orphans"), (T,), all=True)
    assert maintenance_job.run(request, *places, spark=ours.spark, log=told.append) == 0
    assert [(line["status"], said in line["why"]) for line in told] == [("left", True)]
    told.clear()
    assert rebuild.run(rebuild.Request("r2", T, check=True), *places, spark=ours.spark, log=told.append) == 1
    assert said in told[0]["error"]
    monkeypatch.setenv("FIRN_GLUE_DATABASES", "dev_*,lake")
    elsewhere = rebuild.Request("r3", T, into=TableName("prod", "t"))
    assert rebuild.run(elsewhere, *places, spark=ours.spark, log=told.append) == 1
    assert "prod.t is left alone" in told[1]["error"]
    assert len(ours.rows("lake.t")) == 1
