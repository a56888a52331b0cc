"""Jobs, care and readers with staging and warehouse on Azure and Google, on the servers of tests/clouds.py."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.maintenance import LEAST_ORPHAN_SECONDS, Care, Compaction, Expiry
from firn.config.names import TableName
from firn.log.store import open_store, paths, put
from firn.maintenance import compaction_trigger as turns
from firn.maintenance import expiry as rules
from firn_lake.tiering.storages import open_classes
from firn_lake.tiering.tagging import warm
from firn_local.environment import CLOUD_JARS
from firn_spark.maintenance import compaction, orphans
from firn_spark.maintenance.compaction import Budget
from firn_spark.maintenance.expiry import expire
from firn_spark.tables.evolve import Table, Tables
from tests.clouds import cloud, server
from tests.integration.spark.homes import commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event

__all__ = ["cloud", "server"]
pytestmark = pytest.mark.spark

T = TableName("lake", "t")
RULE = "key: [id], columns: {id: long, v: string, kind: string}, partition_by: [kind]"
KINDS = ("a b", "ä/ö 100%", "a=b?c#d&e+f", "plain")


@pytest.fixture
def lake(cloud: Any, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    if len(list(CLOUD_JARS.glob("*.jar"))) < 2:
        pytest.skip("the clouds' jars are not here: run `make setup-servers`")
    monkeypatch.setattr(turns, "EVERY", 10**9)
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 2)
    monkeypatch.setattr(rules, "LEAST", 1)
    workers = spark.sparkContext.environment  # of Python: the JVM's own is older than this server
    before = dict(workers)
    workers.update(cloud.environment)
    yield Lake(spark, tmp_path, config(RULE), storage=cloud.url(tmp_path.name))
    workers.clear()
    workers.update(before)


def changes(n: int) -> list[dict[str, Any]]:
    """Twelve rows, each of them new or the next version; every fifth change deletes."""
    found = []
    for at in range(12):
        number = (n * 7 + at) % 20
        row = {"id": number, "v": f"v{n}", "kind": KINDS[number % 4]}
        lsn = 1_000 * (n + 1) + at
        found.append(event("d", lsn, before=row) if (n + at) % 5 == 4 else event("u", lsn, row))
    return found


def folded(count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for n in range(count):
        for one in changes(n):
            row = one["after"] or one["before"]
            found.pop(row["id"], None)
            if one["after"]:
                found[row["id"]] = row["v"]
    return found


def by_pyiceberg(lake: Lake) -> dict[int, str]:
    return {row["id"]: row["v"] for row in lake.rows("lake.t")}


def table_files(lake: Lake) -> list[str]:
    return [task.file.file_path for task in lake.catalog.load_table(T.identifier).scan().plan_files()]


def by_java(lake: Lake) -> dict[int, str]:
    """As Iceberg's own FileIO of the cloud reads the files, whoever wrote them."""
    return {row["id"]: row["v"] for row in lake.spark.sql("SELECT id, v FROM firn.lake.t").collect()}


def table_of(lake: Lake) -> Table:
    found = Tables(lake.spark).load(T)
    assert found is not None
    return found


def test_both_homes_commit_care_keeps_the_rows_and_every_reader_reads_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        commit_in(("driver", "slices")[n % 2], monkeypatch)
        lake.land(changes(n))
    wanted = folded(6)
    assert by_pyiceberg(lake) == wanted
    assert by_java(lake) == wanted

    files = len(table_files(lake))
    compaction.compact(lake.spark, table_of(lake), "spec", Care(Compaction()), Budget(10**9))
    assert len(table_files(lake)) < files
    assert by_pyiceberg(lake) == wanted
    assert by_java(lake) == wanted

    soon = datetime.now(UTC) + timedelta(hours=1)
    let_go = expire(lake.spark, table_of(lake), Expiry(keep_seconds=1, at_least=1, at_most=1), soon)
    assert let_go.snapshots > 0
    store = open_store(table_of(lake).state.location)
    put(store, "data/kind=a%20b/left.parquet", b"left")
    before = paths(store, "")
    later = datetime.now(UTC) + timedelta(days=3)
    others = orphans.places_of_others(lake.spark, table_of(lake), lake.config.feeds_namespace)
    gone = orphans.remove(lake.spark, table_of(lake), store, LEAST_ORPHAN_SECONDS, later, others=others)
    assert "data/kind=a%20b/left.parquet" in gone.sample
    assert len(before) - len(paths(store, "")) == gone.files
    assert gone.failed == 0
    assert by_pyiceberg(lake) == wanted
    assert by_java(lake) == wanted

    commit_in("driver", monkeypatch)
    lake.land(changes(6))
    assert by_pyiceberg(lake) == by_java(lake) == folded(7)


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_job_that_needs_an_archived_file_holds_nothing_and_says_how_it_comes_back(
    lake: Lake, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lake.warehouse.startswith("abfss:"):
        pytest.skip("Google's archive is read at once")
    commit_in(home, monkeypatch)
    lake.land(changes(0))
    classes, files = open_classes(lake.warehouse), table_files(lake)
    for path in files:
        place = classes.place(path)
        assert place is not None
        assert classes.move(place, "Archive")
    lake.post(changes(1))
    n = lake.seal()
    assert lake.commit(n) != 0
    assert any("firn tier TABLE --warm all" in str(line.get("error")) for line in lake.lines), lake.lines
    assert paths(lake.store, "quarantine") == [], "the table is not at fault"
    warm(lake.catalog.load_table(T.identifier), "all", None, lake.store)
    assert lake.commit(n) == 0, lake.lines
    assert by_pyiceberg(lake) == by_java(lake) == folded(2)
