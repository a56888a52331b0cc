"""What firn_lake writes into tables of Iceberg's format 3, as Spark and the jobs find it: which row is which, vectors,
tags, rollbacks, expiry."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from firn.log import cuts
from firn.maintenance import expiry as rules
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake as Written
from firn_lake.lake_table import LakeTable
from firn_lake.refs.keep import drop_cut, keep_cut
from firn_spark.maintenance.expiry import expire_all
from tests.integration.spark.homes import row
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_expiry import FEW, soon
from tests.integration.spark.test_format_3 import THREE, by_both, lineage, loaded, vectors

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]
IDS = "SELECT id, _row_id FROM firn.lake.t VERSION AS OF {}"


@pytest.fixture
def one(lake: Make, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 3)
    found = lake(config(THREE))
    found.land([event("c", 10 + n, row(n)) for n in range(6)])
    found.land([event("d", 50, None, row(1)), event("u", 51, row(2, v="new"))])
    found.land([event("d", 60, None, row(3)), event("c", 61, row(9))])
    return found


@pytest.fixture
def catalog(one: Lake) -> Iterator[Catalog]:
    with open_catalog(one.catalog_uri, one.warehouse, {}) as opened:
        yield opened


@pytest.fixture
def written(catalog: Catalog) -> LakeTable:
    return Written(catalog).table("lake.t")


def unique(one: Lake) -> dict[int, tuple[int, int]]:
    found = lineage(one)
    assert len({number for number, _ in found.values()}) == len(found)
    return found


def test_a_table_that_a_stream_feeds_is_rolled_back_and_its_stream_goes_on(one: Lake, written: LakeTable) -> None:
    first = written.snapshots()[0].id
    then = {row["id"]: row["_row_id"] for row in one.spark.sql(IDS.format(first)).collect()}
    last = loaded(one).state.snapshot_id
    assert len(vectors(one)) == 1
    written.rollback(first, then="skip")
    assert by_both(one) == {n: (f"v{n}", f"w{n}") for n in range(6)}
    assert {n: number for n, (number, _) in unique(one).items()} == then, "each is the row that it was"
    assert written.rollback(first, then="skip") == written.rollback(first, then="skip") != last
    one.land([event("d", 70, None, row(0)), event("u", 71, row(1, v="b")), event("c", 72, row(10))])
    expected = {n: (f"v{n}", f"w{n}") for n in (2, 3, 4, 5, 10)} | {1: ("b", "w1")}
    assert by_both(one) == expected
    unique(one)
    assert set(vectors(one).values()) == {1}
    assert loaded(one).state.progress("spec") == 4
    assert audited(one).differences == []


def test_cuts_and_refs_are_kept_through_an_expiry_by_a_job(one: Lake, catalog: Catalog, written: LakeTable) -> None:
    cut = cuts.read(one.store, "spec", 1)
    assert cut is not None
    keep_cut(catalog, one.store, "audit", cut, one.now)
    written.branch("try", written.snapshots()[1].id)
    for n in range(4):
        one.land([event("u", 80 + n, row(5, v=f"x{n}"))])
    list(expire_all(one.spark, one.store, loaded(one), FEW, soon()))
    assert {each.name for each in written.refs()} == {"main", "audit", "try"}
    assert sorted(each["id"] for each in written.read(as_of="audit").pylist()) == list(range(6))
    drop_cut(catalog, one.store, "audit")
    written.drop("try")
    list(expire_all(one.spark, one.store, loaded(one), FEW, soon()))
    assert cut.tables["lake.t"] not in [each.id for each in written.snapshots()]
    assert by_both(one)[5] == ("x3", "w5")


def test_what_spark_and_the_lake_write_in_turns_is_one_table(spark: SparkSession, tmp_path: Path) -> None:
    one = Lake(spark, tmp_path, config())
    with open_catalog(one.catalog_uri, one.warehouse, {}) as catalog:
        catalog.create_namespace("own")
        catalog.create_table("own.t", SCHEMA, properties={"format-version": "3", "write.delete.mode": "merge-on-read"})
        table = Written(catalog).table("own.t")
        table.append(given(*range(20)))
        assert ids(one) == {n: (n, 1) for n in range(20)}
        one.spark.sql("DELETE FROM firn.own.t WHERE id IN (3, 4)")
        table.append(given(20, 21))
        one.spark.sql("INSERT INTO firn.own.t VALUES (30, 'v30')")
        before = ids(one)
        assert before == {n: (n, 1) for n in range(20) if n not in (3, 4)} | {20: (20, 3), 21: (21, 3), 30: (22, 4)}
        table.tag("here")
        table.overwrite(given(40), filter="id >= 20")
        now = ids(one)
        assert now == {n: before[n] for n in before if n < 20} | {40: (23, 5)}
        assert one.spark.table("firn.own.t.delete_files").count() == 1
        done = table.upsert(given(5, 60).set_column(1, "v", pa.array(["new", "new"])), key=["id"])
        assert (done.updated, done.inserted) == (1, 1)
        after = ids(one)
        assert {n: after[n] for n in now if n != 5} == {n: now[n] for n in now if n != 5}
        assert {after[n][1] for n in (5, 60)} == {6}
        assert one.spark.table("firn.own.t.delete_files").count() == 0, "they go with their data file"
        table.evolve(add={"at": "date"})
        one.spark.sql("DELETE FROM firn.own.t WHERE id = 7")
        table.overwrite(with_time(50))  # the data file of the vector goes, and the vector with it
        assert list(ids(one)) == [50]
        assert one.spark.table("firn.own.t.delete_files").count() == 0
        summary = table.iceberg.metadata.snapshots[-1].summary
        assert summary is not None
        assert (summary["total-records"], summary["total-position-deletes"], summary["total-delete-files"]) == (
            "1",
            "0",
            "0",
        )
        assert sorted(each["id"] for each in table.read(as_of="here").pylist()) == sorted(before)
        table.expire(timedelta(0), at_least=1)
        one.spark.sql("INSERT INTO firn.own.t VALUES (60, 'v60', NULL)")
        last = ids(one)
        assert (sorted(last), last[60][0] > last[50][0], last[60][1] - last[50][1]) == ([50, 60], True, 1)


SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def given(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "v": [f"v{n}" for n in numbers]}, SCHEMA)


def with_time(*numbers: int) -> pa.Table:
    return given(*numbers).append_column("at", pa.nulls(len(numbers), pa.date32()))


def ids(one: Lake) -> dict[int, tuple[Any, Any]]:
    one.spark.sql("REFRESH TABLE firn.own.t")
    rows = one.spark.table("firn.own.t").select("id", "_row_id", "_last_updated_sequence_number").collect()
    return {each[0]: (each[1], each[2]) for each in rows}
