"""MariaDB's types through Spark and Iceberg: the tables of types, in two shuffled commits, against MariaDB's own."""

import random
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import Lake, values
from tests.mariadb_corpus import CORPUS, KNOWN, differences, streams

pytestmark = pytest.mark.spark

TABLES = ("t_int", "t_num", "t_time", "t_text", "t_bin", "pk_dec")


def test_mariadbs_types_are_the_sources_in_iceberg_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, streams("spec"))
    events = [one for one in values(CORPUS / "plain.ndjson.gz") if one.get("source", {}).get("table") in TABLES]
    random.Random(1).shuffle(events)
    lake.land(events[: len(events) // 2])
    lake.land(events[len(events) // 2 :])
    for table in TABLES:
        rows = [{name: _stored(value) for name, value in row.items()} for row in lake.rows(f"spec.{table}")]
        assert differences(table, rows) == KNOWN.get(table, []), table


def _stored(value: Any) -> Any:
    """As Iceberg stores it: days and microseconds."""
    if isinstance(value, datetime):
        gap = value.replace(tzinfo=None) - datetime(1970, 1, 1)
        return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value
