"""Random histories, delivered shuffled and doubled in one epoch, against the executable specification."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import RowChange, fold
from firn.changes.positions import order_key, position
from firn.config.names import TableName
from firn.log import holds
from firn.log.epochs import read
from firn.quarantine.rules import unreadable_epoch
from firn_spark.files import row_lookup
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_appending import Died, dying
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import LONG, few_cases, long_only

pytestmark = pytest.mark.spark


def change(one: dict[str, Any]) -> RowChange:
    """An event of `test_commit.event` as the specification knows it."""
    op, source = one["op"], one["source"]
    image = one["after"] if op in "cur" else one["before"]
    where = position("postgresql", op, source["sequence"], 0)
    return RowChange(
        op=op,
        key=() if op == "t" else (image["id"],),
        position=where,
        order=order_key(where, op, repr(image).encode()),
        values=image if op in "cur" else None,
        unavailable=frozenset(name for name, value in (image or {}).items() if value == GONE),
        source=f"app.{source['table']}",
    )


def history(seed: int, events: int, keys: int, tables: str = "t", truncates: float = 0.02) -> list[dict[str, Any]]:
    """Inserts, updates with and without unavailable columns, deletes, moves and, rarely, truncates, in order, of some
    source tables that have their keys in common. `truncates`: how many there are for four inserts.

    Not what a database would send: updates of deleted rows and deletes of absent ones are among them, as they are when
    a part of the stream is late.
    """
    dice = random.Random(seed)
    told = []
    for lsn in range(100, 100 + events):
        key = dice.randrange(keys)
        row = {"id": key, "v": f"v{lsn}", "w": f"w{lsn}", "n": lsn}
        gone = {name: GONE for name in ("v", "w") if dice.random() < 0.5}
        table = dice.choice(tables) if len(tables) > 1 else tables
        match dice.choices("cudmt", (4, 8, 3, 2, truncates))[0]:
            case "c":
                # Now and then a row that really holds the placeholder's text.
                told.append(event("c", lsn, row | ({"v": GONE} if dice.random() < 0.05 else {}), table=table))
            case "u":
                told.append(event("u", lsn, row | gone, table=table))
            case "d":
                told.append(event("d", lsn, None, {"id": key, "v": None, "w": None, "n": 0}, table=table))
            case "m":
                old = (key + 1 + dice.randrange(keys - 1)) % keys
                told.append(event("d", lsn, None, {"id": old, "v": None, "w": None, "n": 0}, table=table))
                told.append(event("c", lsn, row | gone, table=table))
            case _:
                # TRUNCATE a, b: one position for both.
                told += [event("t", lsn, table=one) for one in sorted({table, tables[0]})]
    return told


@pytest.mark.parametrize(("seed", "events", "keys"), [(1, 3_000, 400), (2, 1_000, 20)] if LONG else [(1, 3_000, 400)])
def test_one_epoch_of_random_changes_in_any_order_equals_the_specification(
    spark: SparkSession, tmp_path: Path, seed: int, events: int, keys: int
) -> None:
    told = history(seed, events, keys)
    delivered = told + random.Random(seed).choices(told, k=events // 3)
    random.Random(seed + 1).shuffle(delivered)
    lake = Lake(spark, tmp_path, config())
    lake.land(delivered, at_once=500)
    expected = {key[0]: row.values for key, row in fold({}, map(change, told)).rows.items()}
    found = {
        key: {name: row[name] for name in ("id", "v", "w", "n")} for key, row in lake.by_key("lake.t", "id").items()
    }
    assert found == expected


PLAIN = "key: [id]"
REWRITTEN = "key: [id], write: copy-on-write, partition_by: ['bucket(3, id)', 'truncate(50, n)']"


@few_cases(1)
@HOMES
@pytest.mark.parametrize(
    ("seed", "events", "keys", "count", "table"),
    [(3, 600, 60, 6, PLAIN), (4, 150, 6, 8, PLAIN), (5, 150, 6, 8, REWRITTEN)]
    if LONG
    else [(4, 90, 6, 3, PLAIN), (5, 40, 6, 3, REWRITTEN)],
)
def test_many_epochs_of_random_changes_in_any_order_equal_the_specification(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    seed: int,
    events: int,
    keys: int,
    count: int,
    table: str,
) -> None:
    """Deletes before their rows, halves of moves in different epochs, values that come late: what a table remembers."""
    commit_in(home, monkeypatch, events=12)
    monkeypatch.setattr(row_lookup, "_LARGE", 0)  # keys are looked for between several ends
    told = history(seed, events, keys)
    dice = random.Random(seed)
    delivered = told + dice.choices(told, k=events // 3)
    dice.shuffle(delivered)
    lake = Lake(spark, tmp_path, config(table))
    size = -(-len(delivered) // count)
    for first in range(0, len(delivered), size):
        lake.land(delivered[first : first + size], at_once=100)
    expected = {key[0]: row.values for key, row in fold({}, map(change, told)).rows.items()}
    found = {
        key: {name: row[name] for name in ("id", "v", "w", "n")} for key, row in lake.by_key("lake.t", "id").items()
    }
    assert found == expected


PARTITIONS = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.a: {to: lake.t, key: [id]}
      app.b: {to: lake.t, key: [id]}
      app.c: {to: lake.t, key: [id]}
  copy:
    tables:
      'app.*': {to: lake.log, mode: append}
"""
WAYS = ["20000", "0", "in turns"]


@pytest.mark.parametrize(
    ("driver_events", "seed"),
    [(way, seed) for way in WAYS for seed in range(6, 16)] if LONG else [("in turns", 6)],  # which has both ways
)
def test_several_source_tables_of_one_table_truncated_in_between_equal_the_specification(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_events: str, seed: int
) -> None:
    """A truncate empties its own source table of the mirror, whatever comes late and whenever the job is killed; each
    row says of which it is. The append table that another stream makes of the same events has each once."""
    told = history(seed, 40 if LONG else 16, 5, "abc", truncates=2)
    dice = random.Random(seed)
    delivered = told + dice.choices(told, k=len(told) // 3)
    # The second half comes more or less in order: a range of which nothing is late is another way.
    half = len(delivered) // 2
    late, rest = delivered[:half], sorted(delivered[half:], key=lambda one: one["source"]["sequence"])
    dice.shuffle(late)
    delivered = late + rest
    lake, copy = Lake(spark, tmp_path, PARTITIONS), Lake(spark, tmp_path, PARTITIONS, stream="copy")
    come: list[dict[str, Any]] = []
    while len(come) < len(delivered):
        way = dice.choice(["20000", "0"]) if driver_events == "in turns" else driver_events
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", way)
        part = delivered[len(come) : len(come) + dice.choice((2, 12, 16))]
        come += part
        for one in (lake, copy):
            one.post(part, at_once=1)
            sealed = one.seal()
            if dice.random() < 0.3:
                with dying(monkeypatch, before=dice.random() < 0.5), pytest.raises(Died):
                    one.commit(sealed)
            assert one.commit(sealed) == 0, one.lines
        expected = fold({}, map(change, come)).rows
        if not lake.catalog.table_exists(("lake", "t")):
            assert not expected
            continue
        found = lake.by_key("lake.t", "id")
        assert {key: {name: row[name] for name in ("id", "v", "w", "n")} for key, row in found.items()} == {
            key[0]: row.values for key, row in expected.items()
        }
        table = Tables(lake.spark).load(TableName("lake", "t"))
        assert table is not None
        sources = {key: row.get("_firn_source") or table.state.sources[0] for key, row in found.items()}
        assert sources == {key[0]: row.source for key, row in expected.items()}
    once = {json.dumps(one, sort_keys=True): one for one in come}.values()
    log = Counter((row["_firn_op"], row["id"], row["v"], row["n"]) for row in copy.rows("lake.log"))
    assert log == Counter((one["op"], *_image(one)) for one in once)


def _image(one: dict[str, Any]) -> tuple[Any, ...]:
    """What an append table shows of an event: what an update left out is null there."""
    row = one["before"] if one["op"] == "d" else one["after"] or {}
    value = row.get("v")
    return row.get("id"), None if one["op"] == "u" and value == GONE else value, row.get("n")


@long_only
@pytest.mark.parametrize("driver_events", ["20000", "0"], ids=["driver", "slices"])
def test_what_one_source_table_tells_late_is_folded_with_what_the_others_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_events: str
) -> None:
    """Though the range that brings it holds nothing of the others."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", driver_events)
    row = {"id": 1, "v": "long", "w": "w", "n": 10}
    lake = Lake(spark, tmp_path, PARTITIONS)
    told = [event("c", 110, row, table="a"), event("c", 111, row | {"id": 2}, table="b"), event("t", 120, table="a")]
    late = event("u", 115, row | {"v": GONE, "n": 15}, table="b")
    lake.land(told)
    assert set(lake.by_key("lake.t", "id")) == {2}
    lake.land([late])
    found = lake.by_key("lake.t", "id")
    assert {key: (row["v"], row["n"]) for key, row in found.items()} == {1: ("long", 15), 2: ("long", 10)}
    assert {key[0] for key in fold({}, map(change, [*told, late])).rows} == set(found)


@pytest.mark.parametrize("driver_events", ["20000", "0"], ids=["driver", "slices"])
def test_the_log_tells_whole_names_of_source_tables_that_its_events_name_without_schema(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_events: str
) -> None:
    """Though the range that looks there holds none of them: else the truncate of `app.a` is none of `a`."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", driver_events)
    row = {"id": 1, "v": "long", "w": "w", "n": 10}
    lake = Lake(spark, tmp_path, PARTITIONS)
    bare = event("c", 110, row, table="a")
    del bare["source"]["schema"]
    lake.land([bare, event("c", 111, row | {"id": 2}, table="b"), event("t", 120, table="a")])
    assert set(lake.by_key("lake.t", "id")) == {2}
    lake.land([event("u", 107, row | {"v": GONE, "n": 7}, table="b")])
    assert set(lake.by_key("lake.t", "id")) == {2}


@pytest.mark.parametrize("driver_events", ["20000", "0"], ids=["driver", "slices"])
def test_an_epoch_that_is_held_is_not_looked_up_in_the_log_either(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_events: str
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", driver_events)
    row = {"id": 1, "v": "long", "w": "w", "n": 10}
    lake = Lake(spark, tmp_path, PARTITIONS)
    lake.land(
        [event("c", 110, row, table="a"), event("c", 111, row | {"id": 2}, table="b"), event("t", 120, table="a")]
    )
    lake.post([event("c", 130, row | {"id": 3}, table="a")])
    broken = lake.seal()
    epoch = read(lake.store, "spec", broken)
    assert epoch is not None
    (tmp_path / "staging" / epoch.batches[0].path).write_bytes(b"no Parquet")
    holds.hold(lake.store, unreadable_epoch("spec", broken, "it can't be read", "2026-11-21T00:00:00.000Z"))
    lake.land([event("u", 115, row | {"v": GONE, "n": 15}, table="b")])
    assert {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()} == {1: "long", 2: "long"}
