"""Jobs on a Hive Metastore that is killed in the middle of a commit and comes back, and behind a committer that was
killed while it held a table's lock."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn_lake.catalogs.catalog import open_catalog
from firn_spark.failures import failure_of
from firn_spark.tables.evolve import Tables
from tests.hive import Metastore, dying, metastore
from tests.integration.spark.committing import files_of
from tests.integration.spark.conftest import emptied
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

pytestmark = pytest.mark.spark
TIMEOUT = 5.0  # of the metastore, where it is 300 s by default
WAIT = 2.0  # for a lock, where it is 60 s by default


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with metastore(tmp_path_factory.mktemp("hive"), f"{TIMEOUT:.0f}s") as one:
        yield one


def lake_at(spark: SparkSession, folder: Path, url: str) -> Lake:
    return Lake(spark, folder, config(), catalog_uri=f"{url}#firn.lock-seconds={WAIT}&firn.answer-seconds=20")


def values(lake: Lake) -> dict[int, str]:
    return {row["id"]: row["v"] for row in lake.rows("lake.t")}


def until_in(lake: Lake, n: int) -> list[int]:
    """Runs the job of an epoch until it is in, as dispatch does. -> what each run said"""
    said: list[int] = []
    while not said or said[-1] != 0:
        assert len(said) < 15, lake.lines
        said.append(lake.commit(n))
        if said[-1]:
            assert {line.get("failure") for line in lake.lines} <= {None, "transient"}, lake.lines
            time.sleep(3)
    return said


@HOMES
@pytest.mark.parametrize("done", [True, False], ids=["the swap was done", "the swap was not done"])
def test_a_metastore_that_is_killed_in_a_commit_leaves_each_epoch_in_once(
    spark: SparkSession, tmp_path: Path, brief: Metastore, monkeypatch: pytest.MonkeyPatch, home: str, done: bool
) -> None:
    commit_in(home, monkeypatch)
    emptied(brief.url)
    lake_at(spark, tmp_path, brief.url).land([event("c", 10 + n, {"id": n, "v": f"v{n}"}) for n in range(4)])
    with dying(brief, done=done) as url:
        behind = lake_at(spark, tmp_path, url)
        behind.now = behind.now.replace(hour=1)
        behind.post([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
        n = behind.seal()
        until_in(behind, n)
    lake = lake_at(spark, tmp_path, brief.url)
    assert values(lake) == {0: "v0", 1: "b", 3: "v3"}
    assert [one["firn.epoch.spec"] for one in lake.snapshots("lake.t")] == ["1", "2"]
    for table in (("lake", "t"), ("lake", "t__deletes")):
        referred, _ = files_of(lake.catalog.load_table(table))
        assert [path for path in referred if not Path(path).exists()] == []


@HOMES
def test_a_job_gets_past_the_lock_of_a_committer_that_was_killed(
    spark: SparkSession, tmp_path: Path, brief: Metastore, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    emptied(brief.url)
    lake = lake_at(spark, tmp_path, brief.url)
    lake.land([event("c", 10, {"id": 1, "v": "a"})])
    client: Any = open_catalog(brief.url, lake.warehouse, {})
    with client._client as asked:
        lock = asked.lock(client._create_lock_request("lake", "t")).lockid
    lake.post([event("u", 20, {"id": 1, "v": "b"})])
    began = time.monotonic()
    assert until_in(lake, lake.seal()) == [0], "one run is enough"
    assert time.monotonic() - began < TIMEOUT + 10 * WAIT + 60
    assert values(lake) == {1: "b"}
    with client._client as asked:
        from hive_metastore.ttypes import ShowLocksRequest

        left = asked.show_locks(ShowLocksRequest(dbname="lake", tablename="t", isExtended=False)).locks or []
    assert lock not in [one.lockid for one in left]


def test_a_job_that_may_not_change_a_columns_place_names_the_metastores_setting(
    spark: SparkSession, tmp_path: Path
) -> None:
    with metastore(tmp_path, refuses_types=True) as strict:
        lake = lake_at(spark, tmp_path, strict.url)
        lake.land([event("c", 10, {"id": 1, "v": "a"})])
        table = Tables(lake.spark).load(TableName("lake", "t"))
        assert table is not None
        with pytest.raises(Py4JJavaError) as refused:
            table.java.updateSchema().moveFirst("v").commit()
        found = failure_of(refused.value)
        assert values(lake) == {1: "a"}
    assert "set metastore.disallow.incompatible.col.type.changes to false" in found.text
    assert found.kind == "transient", found
