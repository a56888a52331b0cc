"""Rows that say only a part of their columns, committed in both homes: the mirror, what is read fresh and what is built
again are a replay of all rows in their order, each of which writes what it names."""

import json
import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.positions import field_position, position
from firn.config.names import TableName
from firn.ingest import accept
from firn_lake.lake import Lake as Reader
from firn_spark import rebuild
from firn_spark.rebuild import Request
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import START, Lake, ndjson
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import letters
from tests.soak import long_only, seeds

pytestmark = pytest.mark.spark

Row = dict[str, Any]
Log = list[tuple[bytes, Row]]
NAMES = ("id", "at", "a", "b", "c", "d")


def config(settings: str = "") -> str:
    return (
        f"streams:\n  spec:\n    envelope: rows\n    op_field: gone\n    delete_when: [true]\n{settings}    tables:\n"
        "      users: {to: web.users, key: [id], update: patch}\n"
    )


def some(dice: random.Random, at: int) -> Row:
    """A patch, or a delete. Later ones may name more columns, and a column may be null before it has a value."""
    row: Row = {"id": dice.randrange(12), "at": at}
    if dice.random() < 0.15:
        return row | {"gone": True}
    names = dice.sample(NAMES[2 : 4 + at // 40], dice.randrange(3))
    values = {"a": at, "b": f"b{at}", "c": at / 2, "d": "__debezium_unavailable_value"}
    return row | {name: dice.choice([None, values[name], values[name]]) for name in names}


def replayed(log: Log) -> Mapping[int, Row]:
    """The specification, for patches alone."""
    rows: dict[int, Row] = {}
    for _, row in sorted(log, key=lambda one: one[0]):
        if "gone" in row:
            rows.pop(row["id"], None)
        else:
            rows[row["id"]] = rows.get(row["id"], {}) | row
    return {key: {name: row.get(name) for name in NAMES} for key, row in rows.items()}


def shown(rows: Iterable[Mapping[str, Any]]) -> Mapping[int, Row]:
    found = list(rows)
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: {name: row.get(name) for name in NAMES} for row in found}


def fresh(lake: Lake) -> Mapping[int, Row]:
    return shown(Reader(lake.catalog, lambda: lake.store).sql("SELECT * FROM web.users", fresh=True).pylist())


@long_only
@HOMES
@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("settings", ["", "    order_by: at\n"], ids=["by arrival", "by a field"])
def test_a_mirror_of_patches_is_their_replay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, seed: int, home: str
) -> None:
    commit_in(home, monkeypatch, events=20)
    dice = random.Random(f"{settings} {seed}")
    lake = Lake(spark, tmp_path, config(settings))
    coming = [some(dice, at) for at in range(120)]
    coming += dice.choices(coming, k=20)
    dice.shuffle(coming)
    log: Log = []
    while coming:
        for _ in range(dice.randrange(1, 4)):
            size = dice.randrange(1, 30)
            rows, coming = coming[:size], coming[size:]
            if not rows:
                break
            when = START + timedelta(seconds=dice.randrange(3_000))
            done = accept.accept(lake.store, lake.config, "spec", ndjson(rows), now=when, table="users")
            assert (done.accepted, done.rejected) == (len(rows), 0)
            for number, row in enumerate(rows):
                op, came = "d" if "gone" in row else "u", f'["{done.batch_id.rpartition(".")[2]}",{number}]'
                by_field = field_position([json.dumps(row)], ("at",), op, 0)
                log.append((by_field if settings else position("rows", op, came, 0) or b"", row))
        expected = replayed(log)
        lake.now = START + timedelta(hours=2)
        assert fresh(lake) == expected
        assert lake.commit(lake.seal()) == 0, lake.lines
        assert shown(lake.rows("web.users")) == expected
    assert letters(lake) == []
    assert lake.line("web.users")["way"]["lookup"] == home
    assert audited(lake).balanced
    again = Request("r1", TableName("web", "users"), into=TableName("web", "again"))
    assert rebuild.run(again, lake.staging, lake.warehouse, lake.catalog_uri, spark=lake.spark, size=1) == 0
    assert shown(lake.rows("web.again")) == replayed(log)


@HOMES
def test_a_null_counts_in_a_column_that_has_had_no_value_yet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    lake = Lake(spark, tmp_path, config("    order_by: at\n"))
    told = [{"at": 3, "a": 1, "b": None}, {"at": 2, "b": "older", "c": 0.5}, {"at": 1, "c": 1.5, "d": "oldest"}]
    for row in told:
        lake.now += timedelta(seconds=1)
        accept.accept(lake.store, lake.config, "spec", ndjson([row | {"id": 1}]), now=lake.now, table="users")
        last = fresh(lake)
        assert lake.commit(lake.seal()) == 0, lake.lines
        assert shown(lake.rows("web.users")) == last
    assert last == {1: {"id": 1, "at": 3, "a": 1, "b": None, "c": 0.5, "d": "oldest"}}
    assert lake.catalog.load_table("web.users").properties["firn.format"] == "3"
