"""Shards that lie in warehouses beside the deployment's own, by real jobs: each has all of its files there, and all of
them are one table at each cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.placement.shard_map import ShardMap
from firn.log.store import objects, open_store
from firn.tables import shard_changes
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake as Reader
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_changing_shards import change_map
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_shard_commits import CONFIG, fresh_rows, rows_at

pytestmark = pytest.mark.spark

REGIONS = "{by: geographic(w), to: {de: eu, fr: eu, us: us}, warehouses: {eu: frankfurt, us: ohio}}"


def lake_of(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, shard: str = REGIONS) -> Lake:
    told = {name: f"file://{folder}/{name}" for name in ("frankfurt", "ohio")}
    monkeypatch.setenv("FIRN_WAREHOUSES", ",".join(f"{name}={place}" for name, place in told.items()))
    return Lake(spark, folder, CONFIG.replace("SHARD", shard))


def row(lsn: int, id: int, w: str | None, v: str, op: str = "u") -> dict[str, Any]:
    return event(op, lsn, {"id": id, "w": w, "v": v})


def files(folder: Path) -> set[str]:
    """Which tables have files below a warehouse, by their folders."""
    return {"/".join(one.relative_to(folder).parts[:2]) for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_each_shard_has_its_files_in_its_warehouse(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    lake = lake_of(spark, tmp_path, monkeypatch)
    lake.land([row(100 + n, n, w, f"v{n}", "c") for n, w in enumerate(["de", "fr", "us", "jp", None])])
    lake.post([row(200, 0, "us", "w0"), row(201, 3, "de", "w3"), event("d", 202, None, {"id": 1, "w": "fr"})])
    fresh = fresh_rows(lake, f"{lake.stream}.orders")
    assert lake.commit(lake.seal()) == 0, lake.lines
    wanted = {"eu": {3: ("de", "w3")}, "us": {0: ("us", "w0"), 2: ("us", "v2")}, "rest": {4: (None, "v4")}}
    assert rows_at(lake) == wanted
    assert fresh == {id: one for some in wanted.values() for id, one in some.items()}
    assert files(tmp_path / "frankfurt") == {"eu/orders"}
    assert files(tmp_path / "ohio") == {"us/orders"}
    assert files(tmp_path / "warehouse") == {"rest/orders", "rest/orders__deletes"}
