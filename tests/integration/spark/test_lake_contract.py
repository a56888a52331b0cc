"""Spark and Iceberg do what every lake must: the cases of tests/model/lake_contract.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import FACTS, TableName
from firn_spark.lake import SparkLake
from tests.integration.spark.homes import HOMES, OTHER_CATALOGS
from tests.integration.spark.spark_lake import Lake
from tests.model.lake_contract import CASES, CONFIG, STREAM, Stream
from tests.soak import few_cases

pytestmark = pytest.mark.spark


class IcebergGround:
    def __init__(self, lake: Lake, driver_events: int | None) -> None:
        self._lake = lake
        self.store = lake.store
        self.lake = SparkLake(lake.store, lake.staging, lake.warehouse, lake.catalog_uri, lake.spark, driver_events)

    def rows(self, table: TableName) -> list[dict[str, Any]]:
        return self._lake.rows(str(table))

    def snapshots(self, table: TableName) -> list[dict[str, str]]:
        return self._lake.snapshots(str(table))

    def drop(self, table: TableName) -> None:
        for name in (table.table, table.table + FACTS):
            if self._lake.catalog.table_exists((table.namespace, name)):
                self._lake.catalog.drop_table((table.namespace, name))


@few_cases(3)
@HOMES
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Stream], None], spark: SparkSession, tmp_path: Path, home: str) -> None:
    case(Stream(IcebergGround(Lake(spark, tmp_path, CONFIG, STREAM), 0 if home == "slices" else None)))


@OTHER_CATALOGS
@HOMES
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract_of_other_catalogs(
    case: Callable[[Stream], None], spark: SparkSession, tmp_path: Path, home: str, catalog_uri: str
) -> None:
    lake = Lake(spark, tmp_path, CONFIG, STREAM, catalog_uri)
    case(Stream(IcebergGround(lake, 0 if home == "slices" else None)))
