"""What emitters sent, recorded, through the jobs and into Iceberg: the tables are the sources', in both homes."""

import json
import random
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from firn.ingest import accept
from tests.emitters import differences, finals, lines, shuffled
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import letters
from tests.soak import LONG, SEED, long_only

pytestmark = pytest.mark.spark

# Of wal2json: moved rows with large values, truncates, one of each type; of Maxwell: moved rows, bootstrapped ones.
_FEW: Final = {"s": ("docs_default", "pkchange", "trunc_b", "types"), "mx": ("pkchange", "boot")}
_LOST: Final[Mapping[str, set[str]]] = {"types": {"f4", "f8", "n"}, "boot": {"created"}}


@long_only  # tests/model/test_emitters.py has all emitters in any order, doubled and split
@pytest.mark.parametrize("home", ["driver", "slices"])
def test_shuffled_and_doubled_in_some_commits_the_tables_are_the_sources(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=200)
    rules = [
        f"      {schema}.{table}: {{to: {schema}.{table}, key: [id]}}"
        for schema, some in _FEW.items()
        for table in some
    ]
    rules.append("      orders_new_image: {to: ddb.orders}")
    lake = Lake(spark, tmp_path, "streams:\n  spec:\n    envelope: auto\n    tables:\n" + "\n".join(rules))
    files = ("wal2json/v2.ndjson.gz", "maxwell/maxwell.ndjson.gz", "dynamodb/orders_new_image.ndjson")
    requests = shuffled([line for file in files for line in lines(file)], random.Random(SEED))
    commits = 6 if LONG else 2
    for number, request in enumerate(requests, 1):
        lake.now += timedelta(seconds=1)
        done = accept.accept(lake.store, lake.config, "spec", b"\n".join(request), now=lake.now, content="ndjson")
        assert done.rejected == 0, done.errors
        if number % (len(requests) // commits + 1) == 0 or number == len(requests):
            assert lake.commit(lake.seal()) == 0, lake.lines
    assert letters(lake) == []
    for schema, emitter in (("s", "wal2json"), ("mx", "maxwell")):
        for table in _FEW[schema]:
            final = finals(emitter)[table]
            assert differences(final, lake.rows(f"{schema}.{table}"), frozenset(_LOST.get(table, ()))) == [], table
    final_items = json.loads(b"".join(lines("dynamodb/orders_new_image.final.json")))
    items = {(one["pk"]["S"], Decimal(one["sk"]["N"])): one.get("v", {}).get("S") for one in final_items}
    assert {(row["pk"], row["sk"]): row.get("v") for row in lake.rows("ddb.orders")} == items
