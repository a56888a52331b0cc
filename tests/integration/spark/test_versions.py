"""A job says first what it runs with and where that came from, and stops where nobody tested it so."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.log import attempts
from firn.runs import versions as rules
from firn_spark import commit, session
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark


def test_the_first_line_names_versions_and_the_places_of_classes(
    lake: Callable[[str], Lake], capfd: pytest.CaptureFixture[str]
) -> None:
    one = lake(config())
    one.post([event("c", 10, {"id": 1, "v": "a"})])
    capfd.readouterr()
    assert commit.run(one.stream, one.staging, one.warehouse, one.catalog_uri, one.seal(), 1) == 0
    first = json.loads(next(line for line in capfd.readouterr().out.splitlines() if line.startswith("{")))
    assert first["status"] == "runs with"
    assert first["iceberg"]["version"].startswith(rules.TESTED["iceberg"])
    assert "iceberg-spark-runtime" in first["iceberg"]["from"]
    assert "spark-core" in first["spark"]["from"]
    assert "iceberg-aws-bundle" in first["aws_sdk"]["from"]
    assert first["aws_sdk"]["version"].startswith("2.")
    assert Path(first["python"]["from"]).exists()


def test_a_job_that_nobody_tested_so_stops_and_nothing_is_held_for_it(
    spark: SparkSession, lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    one = lake(config())
    one.post([event("c", 10, {"id": 1, "v": "a"})])
    n = one.seal()
    monkeypatch.setattr(rules, "TESTED", {"iceberg": "9.9"})
    for attempt in (1, 2, 3):
        assert commit.run(one.stream, one.staging, one.warehouse, one.catalog_uri, n, n, attempt=attempt) == 1
    assert "and not 9.9" in capfd.readouterr().out
    assert attempts.ends(one.store, one.stream, n) == {(n, attempt): "transient" for attempt in (1, 2, 3)}
    monkeypatch.undo()
    assert one.commit(n) == 0
    session.build(one.catalog_uri, one.warehouse)
