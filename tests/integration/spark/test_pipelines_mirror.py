"""Mirrors that rest on a mirror: after each commit they are the SQL over their base, whatever happened to it."""

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.log import published_configs
from firn_lake.lake import Lake as Reader
from firn_spark.pipelines.mirror_rows import Mirror
from tests.integration.spark.committing import Died
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_random_histories import expected, histories
from tests.soak import few_cases, long_only, seeds

pytestmark = pytest.mark.spark

SOME = "INSERT INTO lake.some SELECT n % 7 AS rest, id AS key, upper(v) AS v, w FROM app.a WHERE n % 3 <> 0"
ALL = "INSERT INTO lake.every SELECT * FROM app.a"


def config(**pipelines: str) -> str:
    made = "".join(f"      {name}: {{mode: mirror, sql: {sql!r}}}\n" for name, sql in pipelines.items())
    return (
        "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        "    tables:\n      app.a: {to: lake.a, key: [id]}\n" + (f"    pipelines:\n{made}" if made else "")
    )


def selected(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's own SELECT over the base as PyIceberg reads it."""
    base = lake.catalog.load_table(("lake", "a")).scan().to_arrow()
    visible = base.select([name for name in base.column_names if not name.startswith("_firn_")])
    run = duckdb.connect().execute("CREATE SCHEMA app").register("base", visible)
    run.execute("CREATE TABLE app.a AS FROM base")
    return sorted(run.execute(sql[sql.index("SELECT") :]).fetchall(), key=repr)


def rows_of(lake: Lake, table: str, names: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in names.split()) for row in lake.rows(table)), key=repr)


def check(lake: Lake) -> None:
    assert rows_of(lake, "lake.some", "rest key v w") == selected(lake, SOME)
    assert rows_of(lake, "lake.every", "id v w n") == selected(lake, ALL.replace("*", "id, v, w, n"))


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_after_each_epoch_of_a_random_history_the_mirror_is_the_sql_over_its_base(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Shuffled, doubled and split, on either way of a commit: late changes, deletes, truncates, values left out."""
    dice = random.Random(seed)
    told = [one for some in histories(dice, "a") for one in some]
    come = told + dice.choices(told, k=len(told) // 4)
    dice.shuffle(come)
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    size = -(-len(come) // dice.choice((2, 3)))
    for first in range(0, len(come), size):
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", dice.choice(("20000", "0")))
        lake.land(come[first : first + size], at_once=300)
        check(lake)
    found = {row["id"]: {name: row[name] for name in ("id", "v", "w", "n")} for row in lake.rows("lake.every")}
    assert found == expected(come)


@long_only
def test_a_small_change_of_the_base_costs_the_mirror_a_small_one(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    lake.land([event("c", 10 + n, {"id": n, "v": "a", "w": "b", "n": n}, table="a") for n in range(40)])
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "whole": "new", "rows": 40}
    changed = event("u", 100, {"id": 3, "v": "x", "w": "b", "n": 1}, table="a")
    lake.land([changed, event("d", 101, None, {"id": 4}, "a")])
    check(lake)
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "keys": 2, "rows": 1}
    assert lake.line("lake.some")["way"] == {"lookup": "follow", "keys": 2, "rows": 1}
    cut = lake.lines
    assert lake.commit(2) == 0  # again: nothing is left to do
    assert not [line for line in lake.lines if line.get("table") == "lake.every"], cut


def told(n: int, lsn: int = 0, op: str = "c", /, **more: Any) -> dict[str, Any]:
    row = {"id": n, "v": f"v{n}", "w": "w", "n": n} | more
    return event(op, lsn or 10 + n, None if op == "d" else row, row if op == "d" else None, table="a")


def test_another_sql_makes_all_of_it_again_in_one_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config(every=ALL))
    lake.land([told(n) for n in range(5)])
    lake.config = published_configs.publish(lake.store, config(every=ALL.replace("*", "id, upper(v) AS v, n AS m")))
    lake.land([told(9)])
    found = rows_of(lake, "lake.every", "id v m")
    assert found == sorted(((n, f"V{n}", n) for n in (0, 1, 2, 3, 4, 9)), key=repr)
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "whole": "new", "rows": 6}
    assert len(lake.snapshots("lake.every")) == 2


@few_cases(1)
@pytest.mark.parametrize("landed", [False, True], ids=["before it landed", "when it had landed"])
def test_a_job_that_dies_between_base_and_mirror_is_made_good_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    lake.land([told(n) for n in range(1, 6)])
    lake.post([told(2, 50, "u", v="late"), told(3, 51, "d"), told(7)])
    sealed, real = lake.seal(), Mirror.land

    def land(self: Mirror, *given: Any) -> None:
        if landed:
            real(self, *given)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "land", land)
        with pytest.raises(Died):
            lake.commit(sealed)
    assert lake.commit(sealed) == 0, lake.lines
    check(lake)
    assert lake.commit(sealed) == 0, lake.lines
    assert all(int(one["firn.epoch.spec"]) <= 2 for one in lake.snapshots("lake.every"))


@long_only
def test_what_only_rewrites_the_bases_files_and_what_sets_it_back_are_followed_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL))
    for n in (1, 5):
        lake.land([told(n), told(n + 1)])
    base = f"firn.{TableName('lake', 'a').quoted}"
    lake.spark.sql("CALL firn.system.rewrite_data_files(table => 'lake.a', options => map('rewrite-all', 'true'))")
    lake.land([told(2, 50, "u", v="late")])
    check(lake)
    assert lake.line("lake.every")["way"] == {"lookup": "follow", "keys": 1, "rows": 1}
    lake.spark.sql(f"UPDATE {base} SET v = 'by hand' WHERE id = 5")
    lake.land([told(10)])
    check(lake)
    assert ("by hand",) in {row[1:2] for row in rows_of(lake, "lake.every", "id v")}


def test_keys_of_two_columns_that_move_and_are_renamed_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    sql = "INSERT INTO lake.every SELECT n AS nn, v, id AS key FROM app.a"
    lake = Lake(spark, tmp_path, config(every=sql).replace("key: [id]", "key: [id, n]"))
    lake.land([told(n, n=n % 3) for n in range(9)])
    moved = told(4, 60, "u", n=8) | {"before": {"id": 4, "n": 1, "v": "", "w": ""}}
    lake.land([moved, told(5, 61, "d", n=2), told(3, 62, "u", n=0, v="x")])
    assert rows_of(lake, "lake.every", "nn v key") == selected(lake, sql)
    assert lake.line("lake.every")["way"]["keys"] == 4
    assert lake.catalog.load_table(("lake", "every")).properties["firn.key"] == '["key", "nn"]'


def test_a_row_that_the_sql_fails_on_is_left_out_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    sql = "INSERT INTO lake.every SELECT id, CAST(v AS BIGINT) AS v FROM app.a"
    lake = Lake(spark, tmp_path, config(every=sql))
    lake.land([told(1, v="1"), told(2, v="no"), told(3, v="3")])
    assert rows_of(lake, "lake.every", "id v") == [(1, 1), (3, 3)]
    assert lake.line("lake.every")["way"]["failed_rows"] == 1
    lake.land([told(2, 50, "u", v="2")])
    assert rows_of(lake, "lake.every", "id v") == [(1, 1), (2, 2), (3, 3)]


def fresh(lake: Lake, table: str, names: str) -> list[tuple[Any, ...]]:
    rows = Reader(lake.catalog, lambda: lake.store).table(table).read(fresh=True).pylist()
    return sorted((tuple(row[name] for name in names.split()) for row in rows), key=repr)


def test_a_fresh_read_sees_through_the_pipelines(spark: SparkSession, tmp_path: Path) -> None:
    items = "INSERT INTO lake.log SELECT id, unnest([v, w]) AS x, now() AS at FROM app.a WHERE id < 4"
    lake = Lake(spark, tmp_path, config(some=SOME, every=ALL) + f"      log: {{sql: {items!r}}}\n")
    lake.land([told(n) for n in range(1, 8)])
    lake.post([told(2, 50, "u", v="late", n=3), told(3, 51, "u", n=4), told(4, 52, "d"), told(8, 53, new=1), told(1)])
    waits = [("lake.some", "rest key v w"), ("lake.every", "id v w n new"), ("lake.log", "id x at _firn_id")]
    before = [fresh(lake, *one) for one in waits[:2]]
    log = Reader(lake.catalog, lambda: lake.store).table("lake.log").read(fresh=True, metadata=True).pylist()
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert before == [rows_of(lake, *one) for one in waits[:2]]
    wanted = rows_of(lake, *waits[2])
    assert sorted((tuple(row[name] for name in waits[2][1].split()) for row in log), key=repr) == wanted
    lake.post([event("t", 60, table="a"), told(9, 61)])
    before = [fresh(lake, *one) for one in waits[:2]]
    assert lake.commit(lake.seal()) == 0, lake.lines
    assert before == [rows_of(lake, *one) for one in waits[:2]]
    assert [row[0] for row in before[1]] == [9]
    # What is sealed is committed under the SQL that its epoch names.
    lake.post([told(10, 70)])
    sealed = lake.seal()
    lake.config = published_configs.publish(lake.store, config(some=SOME.replace("upper(v)", "lower(v)"), every=ALL))
    before = [fresh(lake, *one) for one in waits[:2]]
    assert lake.commit(sealed) == 0, lake.lines
    assert before == [rows_of(lake, *one) for one in waits[:2]]
