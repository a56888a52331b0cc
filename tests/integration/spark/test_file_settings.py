"""How a table's files are written is as firn.yaml says, in both homes, from the next commit on; compaction and the
lake's own writer heed it too."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from firn.config.maintenance import Care
from firn.config.model import Config
from firn.config.names import TableName
from firn.log import published_configs
from firn_spark.maintenance.compaction import Budget, compact
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark

DICE = random.Random(7)
TEXT = {n: DICE.randbytes(600).hex() for n in range(4_000)}


def files(lake: Lake) -> list[pq.FileMetaData]:
    tasks = lake.catalog.load_table("lake.t").scan().plan_files()
    return [pq.read_metadata("/" + task.file.file_path.removeprefix("file:").lstrip("/")) for task in tasks]


def codecs(lake: Lake) -> set[str]:
    return {file.row_group(0).column(0).compression for file in files(lake)}


def now(lake: Lake, rule: str) -> Config:
    lake.config = published_configs.publish(lake.store, config(rule))
    return lake.config


@HOMES
def test_files_are_as_the_rule_says_from_the_next_commit_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = Lake(spark, tmp_path, config("key: [id], compression: gzip, compression_level: 1, target_file_size: 1MB"))
    one.land([event("c", 10 + n, {"id": n, "v": TEXT[n]}) for n in TEXT])
    assert one.line("lake.t")["way"]["lookup"] == home
    assert codecs(one) == {"GZIP"}
    sizes = [file.num_rows for file in files(one)]
    assert len(sizes) > 2
    assert max(sizes) <= 1_800, "a megabyte holds about so many rows"

    more = "bloom: {columns: key, fpp: 0.1, max_bytes: 1KB}"
    now(one, f"key: [id], compression: lz4, properties: {{write.parquet.page-row-limit: 1000}}, {more}")
    one.land([event("u", 90_000 + n, {"id": n, "v": "new"}) for n in TEXT])
    assert codecs(one) == {"GZIP", "LZ4"}, "old files stay as they are"
    properties = one.catalog.load_table("lake.t").properties
    assert "write.target-file-size-bytes" not in properties
    assert "write.parquet.compression-level" not in properties
    assert properties["write.parquet.page-row-limit"] == "1000"
    assert properties["write.parquet.bloom-filter-max-bytes"] == "1000"
    [size] = {file.row_group(0).column(0).bloom_filter_length for file in files(one)} - {None}
    assert size < 1_100, "4,000 values would take more"

    now(one, "key: [id], compression: none")
    one.land([event("u", 99_000, {"id": 0, "v": "newer"})])
    assert codecs(one) == {"GZIP", "LZ4", "UNCOMPRESSED"}
    table = Tables(one.spark).load(TableName("lake", "t"))
    assert table is not None
    compact(one.spark, table, one.stream, Care(), Budget(10**9))
    assert codecs(one) == {"UNCOMPRESSED"}
