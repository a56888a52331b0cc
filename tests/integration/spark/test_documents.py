"""MongoDB's change streams without their documents, committed in both homes: updates that reach into fields, in any
order, doubled and split, give the source's collection; so does what is read fresh and what is built again."""

import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.ingest import accept
from firn_lake.audit.row_audit import Depth
from firn_lake.lake import Lake as Reader
from firn_spark import rebuild
from firn_spark.rebuild import Request
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import letters
from tests.property.test_event_histories import EMITTERS, requests_of, shown
from tests.soak import long_only, seeds

pytestmark = pytest.mark.spark

CONFIG = "streams: {spec: {envelope: mongodb, tables: {shop.t: {to: lake.t, key: [_id]}}}}"
EMITTER = EMITTERS["mongodb"]


def of(rows: Iterable[Mapping[str, Any]]) -> Any:
    return shown({(row["_id"],): row for row in rows}, EMITTER)


@long_only  # tests/property/test_patches.py replays such updates in any order and split
@HOMES
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_collection_is_the_sources_without_its_documents(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, home: str
) -> None:
    commit_in(home, monkeypatch, events=1)
    dice, lake = random.Random(seed), Lake(spark, tmp_path, CONFIG)
    histories = iter(requests_of(EMITTER, dice) for _ in range(1_000))
    bodies, source = next(
        (bodies, rows) for bodies, rows in histories if len(bodies) > 3 and b'"addr.' in b"".join(bodies)
    )
    for number, body in enumerate(bodies):
        lake.now += timedelta(seconds=1)
        done = accept.accept(lake.store, lake.config, "spec", body, now=lake.now)
        assert done.rejected == 0
        if number % 2 or number == len(bodies) - 1:
            fresh = of(Reader(lake.catalog, lambda: lake.store).sql("SELECT * FROM lake.t", fresh=True).pylist())
            assert lake.commit(lake.seal()) == 0, lake.lines
            assert of(lake.rows("lake.t")) == fresh
    assert of(lake.rows("lake.t")) == shown(source, EMITTER)
    assert letters(lake) == []
    assert audited(lake).balanced
    assert audited(lake, Depth()).balanced
    again = Request("r1", TableName("lake", "t"), into=TableName("lake", "again"))
    assert rebuild.run(again, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, size=1) == 0
    assert of(lake.rows("lake.again")) == shown(source, EMITTER)
