"""Nanoseconds from a stream to a table of format 3 and to whoever reads it, in both homes of the engine. Spark itself
opens no such table (docs/types.md), so nothing that Firn does with one asks it to."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from firn.config.maintenance import Care, Expiry, Statistics
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import published_configs
from firn.maintenance import compaction_trigger
from firn_lake.lake import Lake as Reader
from firn_spark import vended_keys
from firn_spark.maintenance import (
    compaction,
    delete_memory_expiry,
    expiry,
    listing,
    optimizer_statistics,
    orphans,
)
from firn_spark.maintenance.compaction import Budget
from firn_spark.merge.facts_table import facts_beside
from firn_spark.not_eligible import Unfit
from firn_spark.tables.evolve import Table, Tables
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson
from tests.integration.spark.test_commit import event, letters, with_schema
from tests.integration.spark.test_rebuild import rebuilt
from tests.soak import few_cases, long_only, times

pytestmark = pytest.mark.spark

FIRST, LAST = -(2**63), 2**63 - 1
NANO: Final = {"type": "int64", "name": "io.debezium.time.NanoTimestamp", "optional": True}
NAMES: Final = ("at", "zoned", "some", "part", "by")
MOMENT = st.none() | st.integers(FIRST, LAST) | st.integers(-(10**10), 10**10) | st.sampled_from([FIRST, -1, 0, LAST])


def text(value: int | None, end: str = "") -> str | None:
    if value is None:
        return None
    seconds, rest = divmod(value, 10**9)
    moment = pa.scalar(seconds, pa.timestamp("s")).as_py().isoformat()
    return f"{moment}.{rest:09}{end}"


def config(way: str, more: str = "") -> str:
    columns = (
        "id: long, at: timestamp_ns, zoned: timestamptz_ns, some: list<timestamp_ns>, "
        "part: 'struct<n: int, at: timestamptz_ns>', by: 'map<string, timestamp_ns>'"
    )
    declared = f", columns: {{{columns}}}" if way == "plain" else ""
    rows = "    envelope: rows\n" if way == "plain" else ""
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        f"{rows}    tables:\n      app.t: {{to: lake.t, key: [id], format: 3{declared}{more}}}\n"
    )


def row_of(number: int, one: int | None, other: int | None) -> dict[str, Any]:
    return {
        "id": number, "at": text(one), "zoned": text(other, "Z"), "some": [text(one), text(other)],
        "part": {"n": 1, "at": text(one, "Z")}, "by": {"k": text(other)},
    }  # fmt: skip


def post(way: str, lake: Lake, values: Sequence[tuple[int | None, int | None]], begin: int = 0) -> None:
    rows = [row_of(begin + n, *pair) for n, pair in enumerate(values)]
    if way == "plain":
        done = accept.accept(lake.store, lake.config, "spec", ndjson(rows), now=lake.now, table="app.t")
        assert done.rejected == 0, done.errors
        return
    schema = {"id": "int64", "at": NANO, "some": {"type": "array", "items": NANO, "optional": True}}
    sent = [{"id": begin + n, "at": one, "some": [one, two]} for n, (one, two) in enumerate(values)]
    lake.post([with_schema(event("c", 10 + begin + n, one), **schema) for n, one in enumerate(sent)])


def counted(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows with their moments as whole numbers."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.int64()
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, plain(kind.item_type))
        if pa.types.is_list(kind):
            return pa.list_(plain(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([(one.name, plain(one.type)) for one in kind])
        return kind

    return pa.table([one.cast(plain(one.type)) for one in rows.columns], names=rows.column_names).to_pylist()


@few_cases(1)
@HOMES
@pytest.mark.parametrize("way", ["plain", "debezium"])
def test_nanoseconds_are_the_same_to_each_reader(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, home: str, way: str
) -> None:
    commit_in(home, monkeypatch, events=3)

    @settings(
        max_examples=times(1, 40), deadline=None, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @example([(FIRST, LAST), (-1, 1), (None, -1_000_000_001), (1_700_000_000_123_456_789, None), (0, FIRST + 1)])
    @given(st.lists(st.tuples(MOMENT, MOMENT), min_size=4, max_size=12))
    def come_back(values: list[tuple[int | None, int | None]]) -> None:
        lake = Lake(spark, tmp_path_factory.mktemp("nanos"), config(way))
        post(way, lake, values)
        assert lake.commit(lake.seal()) == 0, lake.lines
        assert letters(lake) == []
        assert lake.line("lake.t")["way"]["lookup"] == home
        names = ["id", *(NAMES if way == "plain" else ("at", "some"))]
        wanted = [
            {"id": n, "at": one, "zoned": two, "some": [one, two], "part": {"n": 1, "at": one}, "by": [("k", two)]}
            for n, (one, two) in enumerate(values)
        ]
        reader, quoted = Reader(lake.catalog), ", ".join(f'"{name}"' for name in names)
        for found in (
            reader.sql(f"SELECT {quoted} FROM lake.t ORDER BY id").arrow(),
            reader.table("lake.t").read(names).arrow().sort_by("id"),
            lake.catalog.load_table("lake.t").scan(selected_fields=tuple(names)).to_arrow().sort_by("id"),
        ):
            assert counted(found.select(names)) == [{name: row[name] for name in names} for row in wanted]

    come_back()


SCHEMA: Final = {"id": "int64", "at": NANO, "note": "string"}


def change(op: str, lsn: int, at: int, number: int | None = None) -> dict[str, Any]:
    """A change of the row whose key is the moment `at`."""
    image = {"id": number, "at": at, "note": f"n{number}"}
    after, before = (None, image) if op == "d" else (image, None)
    return with_schema(event(op, lsn, after, before), **SCHEMA)


def keyed(more: str = "") -> str:
    return config("debezium", more).replace("key: [id]", "key: [at]")


def rows_of(lake: Lake) -> list[tuple[Any, ...]]:
    found = Reader(lake.catalog).table("lake.t").read(["at", "id", "note"]).arrow()
    return sorted(tuple(row.values()) for row in counted(found))


KEYS: Final = (FIRST, -1, 0, 1, 86_400_000_000_000 - 1, 86_400_000_000_000, 1_700_000_000_123_456_789, LAST)


@few_cases(1)
@HOMES
@pytest.mark.parametrize(
    "by",
    [
        "",
        pytest.param(", partition_by: [day(at)]", marks=long_only),
        ", partition_by: ['hour(at)', 'bucket(2, at)'], write: copy-on-write",
    ],
)
def test_moments_that_a_nanosecond_tells_apart_are_keys_however_their_changes_come(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, by: str
) -> None:
    commit_in(home, monkeypatch, events=3)
    dice = random.Random(4)
    changes = [change("c", 10 + n, at, n) for n, at in enumerate(KEYS)]
    changes += [change("u", 30 + n, at, 100 + n) for n, at in enumerate(KEYS) if n % 2]
    changes += [change("d", 50 + n, at, n) for n, at in enumerate(KEYS) if n % 4 == 0]
    wanted = [(at, 100 + n if n % 2 else n, f"n{100 + n if n % 2 else n}") for n, at in enumerate(KEYS) if n % 4]
    lake = Lake(spark, tmp_path, keyed(by))
    shuffled = dice.sample(changes, len(changes)) + dice.sample(changes, 5)
    for first in range(0, len(shuffled), 9):
        lake.land(shuffled[first : first + 9])
    assert rows_of(lake) == sorted(wanted)
    lake.land(dice.sample(changes, len(changes)))  # what the memory of deletes and the rows know is not done twice
    assert rows_of(lake) == sorted(wanted)
    assert letters(lake) == []


@long_only
@pytest.mark.parametrize("by", [pytest.param("", marks=long_only), ", partition_by: [month(at)]"])
def test_care_changes_of_type_and_rebuilds_need_no_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    commit_in("driver", monkeypatch)
    monkeypatch.setattr(compaction_trigger, "EVERY", 10**9)
    lake, later = Lake(spark, tmp_path, keyed(by)), datetime.now(UTC) + timedelta(days=90)
    for n in range(9):
        lake.land([change("c", 100 * n + k, 1_000 * n + k, 10 * n + k) for k in range(1, 4)])
    lake.land([change("d", 2_000, 1, 1), change("u", 2_001, 2, 777)])
    wanted = rows_of(lake)
    assert len(wanted) == 26

    def table() -> Table:
        found = Tables(lake.spark).load(TableName.parse("lake.t"))
        assert found is not None
        return found

    facts = facts_beside(Tables(lake.spark), table())
    assert facts is not None
    assert (facts.state.version, facts.unreadable is None) == (3, False)
    done = compaction.compact(lake.spark, table(), "spec", Care(), Budget(10**9))
    assert (done.groups, done.files, done.into) == (1, 10, 1), done
    assert rows_of(lake) == wanted
    found = listing.listing(lake.spark, table())
    assert {one.path for one in found.files} <= set(listing.paths_of_all(lake.spark, table()))
    left = tmp_path / "warehouse/lake/t/data/left.parquet"
    left.write_bytes(b"nobody's")
    place = vended_keys.store_at(table().state.location, table().state.location)
    orphans.remove(lake.spark, table(), place, 0, later, others=[])
    assert (left.exists(), rows_of(lake)) == (False, wanted)
    assert expiry.looked_at(lake.spark, table(), facts, Expiry(), datetime.now(UTC)) == set()  # nothing left values out
    assert [one.facts for one in delete_memory_expiry._old(lake.spark, facts, later)] == [1]
    assert delete_memory_expiry._old(lake.spark, facts, datetime(2020, 1, 1, tzinfo=UTC)) == []
    with pytest.raises(Unfit, match="holds a timestamp_ns"):
        optimizer_statistics.compute(lake.spark, table(), Statistics(("id",)))
    lake.land([with_schema(event("c", 3_000, {"id": "x", "at": 5, "note": "y"}), id="string", at=NANO, note="string")])
    assert lake.line("lake.t")["retyped"] == ({"column": "id", "before": "long", "after": "string"},)
    wanted = sorted([*((at, str(number), note) for at, number, note in wanted), (5, "x", "y")])
    assert rows_of(lake) == wanted
    code, result = rebuilt(lake, in_place=True)
    assert (code, result["rows"], rows_of(lake)) == (0, 27, wanted)
    assert letters(lake) == []


def test_a_table_of_format_2_keeps_microseconds_also_after_its_upgrade(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config("debezium").replace(", format: 3", ""))
    lake.land([with_schema(event("c", 10, {"id": 1, "at": 5_000}), id="int64", at=NANO)])
    lake.config = published_configs.publish(lake.store, config("debezium", ", columns: {fine: timestamp_ns}"))
    lake.land([with_schema(event("c", 20, {"id": 2, "at": 7_000, "fine": 7}), id="int64", at=NANO, fine=NANO)])
    lake.land([with_schema(event("c", 30, {"id": 3, "at": 7_001, "fine": 7}), id="int64", at=NANO, fine=NANO)])
    loaded = lake.catalog.load_table(("lake", "t"))
    assert loaded.metadata.format_version == 3
    kinds = {field.name: str(field.field_type) for field in loaded.schema().fields}
    assert (kinds["at"], kinds["fine"]) == ("timestamp", "timestamp_ns")
    found = counted(Reader(lake.catalog).table("lake.t").read(["id", "at", "fine"]).arrow().sort_by("id"))
    assert found == [{"id": 1, "at": 5, "fine": None}, {"id": 2, "at": 7, "fine": 7}]
    assert [letter.reason for letter in letters(lake)] == ["type_mismatch"]
    lake.land([with_schema(event("d", 40, None, {"id": 1, "at": 5_000}), id="int64", at=NANO)])
    facts = lake.catalog.load_table(("lake", "t__deletes"))
    assert facts.metadata.format_version == 3
    assert Reader(lake.catalog).table("lake.t").read(["id"]).pylist() == [{"id": 2}]


def test_a_fresh_read_has_the_nanoseconds_that_its_commit_will(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, keyed())
    lake.land([change("c", 10 + n, at, n) for n, at in enumerate(KEYS)])
    lake.post([change("u", 30, KEYS[6], 5), change("d", 31, KEYS[1], 1), change("c", 32, KEYS[6] + 1, 6)])
    reader = Reader(lake.catalog, lambda: lake.store)
    fresh = counted(reader.sql('SELECT "at", id, note FROM lake.t ORDER BY "at"', fresh=True).arrow())
    assert lake.commit(lake.seal()) == 0
    assert sorted(tuple(row.values()) for row in fresh) == rows_of(lake)
    told = reader.table("lake.t").changes(lake.catalog.load_table(("lake", "t")).metadata.snapshots[0].snapshot_id)
    assert {row["at"] for row in counted(told.arrow().select(["at"]))} == {KEYS[6], KEYS[1], KEYS[6] + 1}
