"""A rebuild of what pipelines fill: an append table by the log again, under the SQL of now; a mirror by its base."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn_spark import rebuild
from firn_spark.rebuild import Request
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_pipelines_mirror import ALL, config, rows_of, told

pytestmark = pytest.mark.spark
LOG = "INSERT INTO lake.log SELECT id, upper(v) AS v FROM app.a"


def both(log: str, **mirrors: str) -> str:
    return config(**mirrors) + f"      log: {{sql: {log!r}}}\n"


def rebuilt(lake: Lake, table: str, **how: Any) -> dict[str, Any]:
    """The result of a rebuild."""
    said: list[dict[str, Any]] = []
    request = Request("r1", TableName.parse(table), **how)
    rebuild.run(request, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, log=said.append)
    return said[-1]


def test_an_append_table_is_made_of_the_whole_log_under_the_sql_of_now_in_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, both(LOG, every=ALL))
    lake.land([told(1), told(2)])
    lake.land([told(3)])
    lake.config = published_configs.publish(lake.store, both(LOG.replace("upper(v)", "v || '!'"), every=ALL))
    lake.land([told(4)])
    assert [row[1] for row in rows_of(lake, "lake.log", "id v")] == ["V1", "V2", "V3", "v4!"]
    result = rebuilt(lake, "lake.log", in_place=True)
    assert result["status"] == "done", result
    assert [row[1] for row in rows_of(lake, "lake.log", "id v")] == ["v1!", "v2!", "v3!", "v4!"]
    lake.land([told(5), told(1)])
    assert len(rows_of(lake, "lake.log", "id v")) == 5


def test_a_mirror_is_made_again_out_of_its_base(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, both(LOG, every=ALL))
    lake.land([told(1), told(2)])
    lake.spark.sql("DELETE FROM firn.lake.every WHERE id = 1")
    assert rebuilt(lake, "lake.every", in_place=True)["rows"] == 2
    assert rows_of(lake, "lake.every", "id v") == [(1, "v1"), (2, "v2")]
    refused = rebuilt(lake, "lake.every", check=True)
    assert refused["status"] == "failed"
    assert "the SQL of the pipeline every over lake.a" in refused["error"]
    lake.land([told(1, 50, "u", v="x")])
    assert rows_of(lake, "lake.every", "id v") == [(1, "x"), (2, "v2")]
