"""Small ranges without a Spark job: the same rows, facts, counts and summaries as with, in any order of the two."""

import base64
import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.config.names import TableName
from firn.maintenance import compaction_trigger
from firn.tables.outcome import COUNTS
from firn_spark import ranges
from firn_spark.driver import small_files
from firn_spark.driver.range import ALONE
from firn_spark.files import row_lookup
from firn_spark.slices import slice_engine
from firn_spark.tables.evolve import Tables
from firn_spark.tables.locations import data_folder
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.integration.spark.test_specification import history
from tests.soak import LONG, SEED, long_only, times

pytestmark = pytest.mark.spark

CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id]}
      app.two: {to: lake.two, key: [a, b]}
      app.log: {to: lake.log}
"""
# By a hash, and by a value that changes.
PARTITIONS = ", partition_by: ['bucket(3, id)', 'truncate(2, v)']"
PLAIN = """
streams:
  spec:
    debezium: {decimal.handling.mode: string}
    tables:
      app.all:
        to: lake.all
        key: [id]
        columns: {id: long, v: string, d: 'decimal(12,2)', at: timestamptz, day: date, u: uuid, f: double, raw: binary}
      app.two: {to: lake.two, key: [a, day], columns: {a: string, day: date, n: long}, write: copy-on-write}
      app.kept: {to: lake.kept, key: [id], columns: {id: int, v: string}}
      app.named: {to: lake.named, key: [u], columns: {u: uuid, v: string}}
      app.dated: {to: lake.dated, key: [d, at], columns: {d: 'decimal(12,2)', at: timestamptz, v: string}}
"""
TABLES = (
    *("lake.t", "lake.t__deletes", "lake.two", "lake.two__deletes", "lake.log"),
    *("lake.all", "lake.all__deletes", "lake.kept", "lake.kept__deletes"),
    *("lake.named", "lake.named__deletes", "lake.dated", "lake.dated__deletes"),
)
SEEDS = pytest.mark.parametrize(
    "seed", [SEED + n for n in range(times(1, 20))], ids=[str(n) for n in range(times(1, 20))]
)
SAID = ("operation", "total-records", "added-records", "added-position-deletes", "total-position-deletes")
ALWAYS, NEVER = "20000", "0"


class Ways:
    """Lakes that get the same requests, each with its own way of committing them."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        dice: random.Random,
        configuration: str = CONFIG,
    ) -> None:
        self._set = monkeypatch.setenv
        self._monkeypatch = monkeypatch
        # Spark on what the driver wrote, and the driver on what Spark wrote, whatever the dice say.
        first = dice.choice(((ALWAYS, NEVER), (NEVER, ALWAYS)))
        self._mixed = itertools.cycle(first)
        self.lakes = {}
        for name in ("slices", "driver", "mixed") if LONG else ("driver", "mixed"):
            (folder / name).mkdir()
            self.lakes[name] = Lake(spark, folder / name, configuration)

    def land(self, events: list[dict[str, Any]]) -> None:
        for name, lake in self.lakes.items():
            way = {"slices": NEVER, "driver": ALWAYS}.get(name) or next(self._mixed)
            self._set("FIRN_DRIVER_EVENTS", way)
            # The mixed lake's changes are read by processes of their own, as those of large ranges are.
            self._monkeypatch.setattr(ranges, "ALONE", 0 if name == "mixed" else ALONE)
            self._monkeypatch.setattr(ranges, "cores", lambda: 2)
            # Its slices are small.
            self._monkeypatch.setattr(slice_engine, "EVENTS", 20 if name == "mixed" else 200_000)
            # And its small files are made into fewer all the time.
            self._monkeypatch.setattr(compaction_trigger, "EVERY", 2 if name == "mixed" else 10**9)
            self._monkeypatch.setattr(compaction_trigger, "own_number", lambda _: 1)
            self._monkeypatch.setattr(small_files, "_AT_LEAST", 2)
            lake.land(events, at_once=40)
            said = [line.get("way", {}).get("lookup") for line in lake.lines if "mode" in line]
            assert set(said) <= {"driver" if way == ALWAYS else "slices"}, lake.lines
        told = [told_by(lake) for lake in self.lakes.values()]
        for other in told[1:]:
            assert other == told[0]

    def same(self) -> None:
        """Fails if the tables are not alike."""
        found = {name: held(lake) for name, lake in self.lakes.items()}
        first = next(iter(found))
        for name, tables in found.items():
            for table, rows in tables.items():
                assert rows == found[first][table], (name, table)


def told_by(lake: Lake) -> list[dict[str, Any]]:
    told = ("table", "status", "mode", "progress", *COUNTS, "dead_by", "dead_new", "error")
    lines = [{name: line.get(name) for name in told} for line in lake.lines if "mode" in line]
    return sorted(lines, key=lambda line: str(line["table"]))


def held(lake: Lake) -> dict[str, Any]:
    """All rows with Firn's own columns, and the summaries' own counts."""
    found: dict[str, Any] = {}
    for table in TABLES:
        if lake.catalog.table_exists(TableName.parse(table).identifier):
            # A snapshot's id is drawn by chance: whether there is one is what has to be equal.
            rows = [
                {k: v is not None if k == "_firn_looked" else v for k, v in row.items() if k != "_firn_at"}
                for row in lake.rows(table)
            ]
            found[table] = sorted(map(repr, (sorted(row.items()) for row in rows)))
            found[f"{table} said"] = [
                {k: v for k, v in one.items() if k.startswith("firn.") or k == "added-position-deletes"}
                for one in lake.snapshots(table)
                if any(name.startswith("firn.epoch.") for name in one)
            ]
    return found


def of_two_keys(seed: int, count: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    told = []
    for lsn in range(100, 100 + count):
        key = {"a": dice.randrange(3), "b": dice.choice(("x", "y", None))}
        if dice.random() < 0.3:
            told.append(event("d", lsn, None, key | {"v": None}, table="two"))
        else:
            told.append(event("u", lsn, key | {"v": lsn / 2}, table="two"))
        told.append(event("c", lsn, {"n": lsn, "t": "x" * dice.randrange(3)}, table="log"))
    return told


@SEEDS
def test_random_changes_in_any_order_come_out_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    come_out_the_same(spark, tmp_path, monkeypatch, seed, CONFIG)


@long_only
@SEEDS
def test_random_changes_of_partitioned_tables_come_out_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    come_out_the_same(spark, tmp_path, monkeypatch, seed, CONFIG.replace("key: [id]", f"key: [id]{PARTITIONS}"))


def come_out_the_same(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, configuration: str
) -> None:
    dice = random.Random(seed)
    print(f"FIRN_SEED={seed}")
    told = history(seed, times(80, 120), 6) + of_two_keys(seed, 30)
    delivered = told + dice.choices(told, k=len(told) // 3)
    dice.shuffle(delivered)
    ways = Ways(spark, folder, monkeypatch, dice, configuration)
    size = -(-len(delivered) // (5 if LONG else 3))
    for first in range(0, len(delivered), size):
        ways.land(delivered[first : first + size])
        ways.same()


def of_all_types(seed: int, count: int) -> list[dict[str, Any]]:
    """Plain changes of three tables in the order of their source; of one of them nothing is ever deleted."""
    dice = random.Random(seed)
    told = []
    for lsn in range(100, 100 + count):
        id = dice.randrange(12)
        row = {
            "v": dice.choice(("", "é\n", None, "x" * 40)), "d": f"{dice.randrange(-999, 999)}.05", "f": dice.random(),
            "at": f"2026-11-21T10:00:{dice.randrange(60):02}.000{dice.randrange(999):03}Z",
            "day": dice.randrange(-9, 20_000), "u": str(uuid.UUID(int=dice.getrandbits(128))),
            "raw": base64.b64encode(dice.randbytes(3)).decode(),
        }  # fmt: skip
        two = {"a": dice.choice("xyz"), "day": dice.randrange(3)}
        gone = dice.random() < 0.25
        told.append(
            event("d" if gone else "u", lsn, None if gone else {"id": id, **row}, before={"id": id}, table="all")
        )
        gone = dice.random() < 0.25
        told.append(event("d" if gone else "c", lsn, None if gone else two | {"n": lsn}, before=two, table="two"))
        told.append(event("u", lsn, {"id": dice.randrange(9), "v": str(lsn)}, table="kept"))
        # Of uuids that begin with each bit, for Java sorts some of them otherwise; of moments near the first one, too.
        named = {"u": str(uuid.UUID(int=dice.randrange(9) << 124 | 5))}
        dated = {"d": f"{dice.randrange(-2, 2)}.50", "at": f"{dice.choice((1970, 2026))}-01-01T00:00:0{lsn % 2}Z"}
        for table, key in (("named", named), ("dated", dated)):
            gone = dice.random() < 0.25
            told.append(event("d" if gone else "u", lsn, None if gone else key | {"v": str(lsn)}, key, table=table))
    return told


@long_only
@SEEDS
def test_plain_changes_by_columns_come_out_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    print(f"FIRN_SEED={seed}")
    told = of_all_types(seed, 60)
    told += dice.choices(told, k=30)
    # Within an epoch in any order; between epochs nearly in order: some changes come late, of `kept` many.
    told.sort(key=lambda one: one["source"]["lsn"] + (dice.randrange(60) if one["source"]["table"] == "kept" else 0))
    late = dice.randrange(len(told) // 2)
    told.append(told.pop(late))
    ways = Ways(spark, tmp_path, monkeypatch, dice, PLAIN)
    by = Counter[str]()
    size = -(-len(told) // (5 if LONG else 3))
    for first in range(0, len(told), size):
        some = told[first : first + size]
        dice.shuffle(some)
        ways.land(some)
        ways.same()
        lines = [line for lake in ways.lakes.values() for line in lake.lines if "mode" in line]
        by += Counter(line["way"].get("by", "slices") for line in lines)
        assert not any(line["dead"] for line in lines), lines
    assert by["columns"] > by["rows"], by


@pytest.mark.parametrize(("limits", "changes"), [("ALONE", [("u", 20)]), ("EMPTIED", [("t", 20)])])
def test_much_to_look_up_goes_to_slices(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, limits: str, changes: list[tuple[str, int]]
) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    monkeypatch.setattr(row_lookup, limits, row_lookup.Limits(rows=0, all_rows=0))
    one.land([event(op, lsn, None if op == "t" else {"id": 1, "v": "b"}) for op, lsn in changes])
    assert [(row["id"], row["v"]) for row in one.rows("lake.t")] == ([] if changes[0][0] == "t" else [(1, "b")])
    assert "to look" in one.line("lake.t")["way"]["driver"]


def test_a_small_commit_runs_no_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, CONFIG)
    lake.land([event("c", 10 + n, {"id": n, "v": "a"}) for n in range(5)])
    lake.post([event("u", 20, {"id": 1, "v": "b"}), event("d", 21, None, before={"id": 2})])
    n = lake.seal()
    before = lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    assert lake.commit(n) == 0
    assert lake.line("lake.t")["way"] == {"lookup": "driver", "by": "columns"}
    assert lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs() == before
    table = Tables(lake.spark).load(TableName.parse("lake.t"))
    assert table is not None
    assert f"{data_folder(table.state)}/x" == table.java.locationProvider().newDataLocation("x"), "as Iceberg has it"
    elsewhere = {"write.data.path": f"{table.state.location}/elsewhere"}
    assert data_folder(replace(table.state, properties=elsewhere)) is None, "only Iceberg can tell"


def test_a_file_that_is_gone_before_it_is_looked_into_is_looked_for_again(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when expiry removes it: the next look is at the newest snapshot."""
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    real, gone = row_lookup.plan, ["once"]

    def plan(spark: Any, table: Any, wanted: Any, limits: Any) -> row_lookup.Files:
        found = real(spark, table, wanted, limits)
        if gone and found.files:
            gone.pop()
            return row_lookup.Files(wanted, [path + ".gone" for path in found.files])
        return found

    monkeypatch.setattr(row_lookup, "plan", plan)
    one.land([event("u", 20, {"id": 1, "v": "b"})])
    assert not gone
    assert [row["v"] for row in one.rows("lake.t")] == ["b"]
