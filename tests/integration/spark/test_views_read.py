"""Views as those find them who read them and look after them: changes, cuts, fresh reads, compaction and expiry."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.maintenance import Expiry
from firn.config.names import TableName
from firn.log import cuts
from firn.maintenance import expiry as rules
from firn_lake.fresh.fresh_view import FreshViewRows
from firn_lake.lake import Lake as Reader
from firn_lake.reading.rows import Rows
from firn_lake.refs.rollback import CannotRollBack
from firn_spark.maintenance.expiry import Expired, expire_all
from firn_spark.tables.evolve import Tables
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_views import JOINED, LATEST, LEAST, OVER, SUMS, config, refreshed, told

pytestmark = pytest.mark.spark

VIEWS = {"lake.sums": SUMS, "lake.joined": JOINED, "lake.least": LEAST, "lake.latest": LATEST, "lake.over": OVER}


def rows(reader: Reader, name: str, **how: Any) -> list[str]:
    return sorted(map(repr, reader.table(name).read(metadata=True, **how).pylist()))


def test_a_view_is_read_followed_and_cared_for_like_any_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, config(VIEWS))
    reader = Reader(lake.catalog, lambda: lake.store)
    lake.land([*(told(n) for n in range(20)), *(told(n, 60 + n, table="b") for n in range(0, 20, 2))])
    sums = reader.table("lake.sums")
    assert isinstance(sums.read(fresh=True), Rows)
    [first] = [one.id for one in sums.snapshots()]
    at_first = rows(reader, "lake.sums")

    lake.post([told(3, 200, "u", v="x"), told(4, 201, "d"), told(8, 202, "d", "b")])
    coming = {name: rows(reader, name, fresh=True) for name in VIEWS}
    assert isinstance(sums.read(fresh=True), FreshViewRows)
    assert lake.commit(lake.seal()) == 0, lake.lines
    refreshed(lake)
    assert {name: rows(reader, name) for name in VIEWS} == coming
    assert {name: rows(reader, name, fresh=True) for name in VIEWS} == coming

    changed = {one["v"]: one for one in sums.changes(first).pylist()}
    assert {v: one["_change"] for v, one in changed.items()} == {"v0": "update", "v1": "update", "x": "insert"}
    assert changed["v0"]["_before"]["_firn_id"] == changed["v0"]["_firn_id"]
    now = sums.snapshots()[-1].id
    lake.spark.sql("CALL firn.system.rewrite_data_files(table => 'lake.sums', options => map('rewrite-all', 'true'))")
    assert sums.snapshots()[-1].id != now
    assert sums.changes(now).pylist() == []
    assert [one.counts() for one in sums.follow(now, until=sums.snapshots()[-1].id) if one.count()] == []

    numbers = cuts.numbers(lake.store, "spec")
    assert rows(reader, "lake.sums", as_of=("spec", numbers[0])) == at_first
    assert rows(reader, "lake.sums", as_of=("spec", numbers[1])) == coming["lake.sums"]
    with pytest.raises(CannotRollBack, match=r"lake\.sums is a view"):
        sums.rollback(first, "skip")

    monkeypatch.setattr(rules, "FEWEST_SNAPSHOTS", 3)
    monkeypatch.setattr(rules, "LEAST", 2)
    for n in range(6):
        lake.land([told(30 + n, 300 + n)])
    few, later = Expiry(keep_seconds=1, at_least=1, at_most=1), datetime.now(UTC) + timedelta(hours=1)
    for name in ("lake.sums", "lake.a"):
        table = Tables(lake.spark).load(TableName.parse(name))
        assert table is not None
        [went, *_] = expire_all(lake.spark, lake.store, table, few, later)
        assert isinstance(went, Expired)
        assert went.snapshots > 0, went.plan
    lake.land([told(5, 400, "d")])
    assert {name: way.get("whole") for name, way in refreshed(lake).items()} == dict.fromkeys(VIEWS)
    assert rows(reader, "lake.sums") == rows(reader, "lake.sums", fresh=True)
