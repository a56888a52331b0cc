"""What firn.yaml says of a table's files later than the table was made: how they are partitioned, and Bloom filters."""

import base64
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

from firn.log import published_configs
from firn.tables.bloom_filters import ENABLED
from firn_lake.lake import Lake as Read
from firn_lake.reading.bloom import BloomFilter
from firn_spark.slices import by_partition
from tests.integration.snapshots import epochs_of
from tests.integration.spark.homes import HOMES, commit_in, planned_again
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import config, event
from tests.soak import LONG, MUTANTS, few_cases, long_only, times

pytestmark = pytest.mark.spark

Make = Callable[[str], Lake]
COLUMNS = "columns: {id: long, v: string, d: date}"


def now(lake: Lake, rule: str) -> None:
    """The configuration from here on."""
    lake.config = published_configs.publish(lake.store, config(rule))


def row(number: int, text: str, day: int = 20_000) -> dict[str, Any]:
    return {"id": number, "v": text, "d": day + number % 3}


def everywhere(lake: Lake) -> dict[int, str]:
    """id -> v, as PyIceberg, Firn's reader and Spark read it alike."""
    found = sorted((one["id"], one["v"]) for one in lake.rows("lake.t"))
    mine = Read(lake.catalog).table("lake.t")
    assert sorted((one["id"], one["v"]) for one in mine.read().pylist()) == found
    lake.spark.catalog.refreshTable("firn.lake.t")
    assert sorted((one["id"], one["v"]) for one in lake.spark.table("firn.lake.t").collect()) == found
    assert len(dict(found)) == len(found)  # no key twice
    return dict(found)


@HOMES
def test_a_table_that_is_copy_on_write_from_now_on_loses_what_it_had_deleted_before(
    lake: Make, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in(home, monkeypatch)
    again = planned_again(monkeypatch)
    rule = f"key: [id], {COLUMNS}, partition_by: ['bucket(2, id)']"
    one = lake(config(rule))
    one.land([event("c", 10 + n, row(n, "a")) for n in range(20)])
    one.land([event("u", 100, row(1, "b")), event("d", 101, None, before=row(2, "a"))])
    assert again == []
    now(one, f"{rule}, write: copy-on-write")
    one.land([event("u", 200, row(n, "c")) for n in range(3, 9)])
    found = {**dict.fromkeys((0, *range(9, 20)), "a"), 1: "b", **dict.fromkeys(range(3, 9), "c")}
    assert everywhere(one) == found
    assert one.line("lake.t")["way"]["lookup"] == home


@pytest.mark.parametrize("how", ["", pytest.param(", write: copy-on-write", marks=long_only)])
def test_a_changed_partition_by_holds_for_new_files_and_rows_stay_right(lake: Make, how: str) -> None:
    rule = f"key: [id], {COLUMNS}{how}"
    one = lake(config(rule))
    one.land([event("c", 10 + n, row(n, "a")) for n in range(8)])
    now(one, f"{rule}, partition_by: [day(d), 'bucket(2, id)']")
    one.land([event("u", 100, row(1, "b")), event("d", 101, None, before=row(2, "a")), event("c", 102, row(20, "b"))])
    table = one.catalog.load_table(("lake", "t"))
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[2]"]
    assert everywhere(one) == {**dict.fromkeys((0, 3, 4, 5, 6, 7), "a"), 1: "b", 20: "b"}
    assert one.line("lake.t")["way"]["lookup"] == "driver"

    # Keys in files of both specs, and one that moves to another partition; then another spec, by which none is new.
    now(one, f"{rule}, partition_by: ['truncate(1, v)', 'bucket(2, id)']")
    changes = [event("u", 200, row(1, "c")), event("u", 201, row(3, "c")), event("d", 202, None, before=row(20, "b"))]
    one.land([*changes, event("u", 203, row(4, "c", 20_001))])
    assert everywhere(one) == {0: "a", 5: "a", 6: "a", 7: "a", 1: "c", 3: "c", 4: "c"}
    now(one, rule)
    one.land([event("u", 300, row(n, "d")) for n in (0, 1, 3)] + [event("d", 310, None, before=row(4, "c"))])
    table.refresh()
    assert table.spec().is_unpartitioned()
    assert everywhere(one) == {5: "a", 6: "a", 7: "a", 0: "d", 1: "d", 3: "d"}
    assert epochs_of(table, "spec") == [1, 2, 3, 4]
    pruned = Read(one.catalog).table("lake.t").prune("id = 5 and v = 'a'")
    assert {"a"} == {text for file in pruned.read for text in _texts(file.path)}


@long_only
def test_the_text_that_means_null_in_a_path_is_a_value_of_its_own_and_no_dead_letter_is_left_uncounted(
    lake: Make,
) -> None:
    text = "__HIVE_DEFAULT_PARTITION__"
    one = lake(config(f"key: [id], {COLUMNS}, partition_by: [v, 'truncate(50, v)']"))
    bad = event("c", 12, {"id": "no number", "v": "a"})
    one.land([event("c", 10, row(1, text)), event("c", 11, {"id": 2, "v": None}), bad])
    line = one.line("lake.t")
    assert (line["way"]["lookup"], line["dead_new"]) == ("driver", {"app.t": {"type_mismatch": 1}})
    assert everywhere(one) == {1: text, 2: None}
    table = one.catalog.load_table(("lake", "t"))
    found = [(file["partition"], file["record_count"]) for file in table.inspect.files().to_pylist()]
    assert sorted(found, key=str) == [({"v": one, "v_trunc": one}, 1) for one in (text, None)]
    assert [row.id for row in one.spark.sql(f"SELECT id FROM firn.lake.t WHERE v = '{text}'").collect()] == [1]
    one.land([event("u", 20, row(1, "b")), event("u", 21, row(2, text)), event("c", 22, {"id": 3, "v": None})])
    assert everywhere(one) == {1: "b", 2: text, 3: None}


@long_only
@HOMES
def test_values_that_no_folder_could_be_called_by_and_the_ends_of_a_type_have_a_partition(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config("key: [id], columns: {id: long, v: string, q: int}, partition_by: [v, 'truncate(10, q)']"))
    one.land([event("c", 10 + n, {"id": n, "v": "é" * 300, "q": q}) for n, q in enumerate((-(2**31), 2**31 - 1, -1))])
    table = one.catalog.load_table(("lake", "t"))
    # As Spark's own INSERT has them: the lowest goes round.
    parts = {file["partition"]["q_trunc"] for file in table.inspect.files().to_pylist()}
    assert parts == {2**31 - 2, 2**31 - 8, -10}
    one.land([event("u", 20 + n, {"id": n, "v": "b", "q": n}) for n in range(3)])
    assert everywhere(one) == dict.fromkeys(range(3), "b")


@long_only
def test_a_partition_by_that_can_not_be_had_fails_its_table_alone_and_says_why(lake: Make) -> None:
    rule = "key: [id]"  # types that firn.yaml does not tell
    one = lake(config(rule))
    one.land([event("c", 10, row(1, "a"))])
    for entry, said in (("day(v)", "can't be partitioned by day(v)"), ("day(nowhere)", "nowhere, which no change")):
        now(one, f"{rule}, partition_by: [{entry}]")
        one.post([event("u", 20, row(1, "b")), event("c", 21, {"id": 1}, table="other")])
        assert one.commit(one.seal()) == 1
        assert said in one.line("lake.t")["error"]
        assert everywhere(one) == {1: "a"}
    now(one, rule)
    one.land([event("c", 40, row(2, "c"))])
    assert everywhere(one) == {1: "b", 2: "c"}


def _texts(path: str, column: str = "v") -> list[str]:
    found: list[str] = pq.read_table(_local(path), columns=[column]).column(0).to_pylist()
    return found


def _local(path: str) -> str:
    """Java writes file:/, others file:///."""
    return "/" + path.removeprefix("file:").lstrip("/")


@HOMES
def test_bloom_filters_by_setting_let_a_look_up_skip_the_other_files(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    rule = "key: [u], columns: {u: string, n: long}"
    one = lake(config(rule))
    keys = [f"{hash((3, n)) & (2**64 - 1):016x}" for n in range(300)]

    def land(first: int) -> None:
        one.land([event("c", 10 + n, {"u": keys[n], "n": n}) for n in range(first, first + 100)])

    land(0)
    now(one, rule + ", bloom: key")
    land(100)
    land(200)
    assert one.line("lake.t")["way"]["lookup"] == home
    table = Read(one.catalog).table("lake.t")
    assert table.iceberg.properties[f"{ENABLED}u"] == "true"
    offsets = {file.path: _offset(file.path) for file in table.prune("n >= 0").files}
    assert sorted(offset is not None for offset in offsets.values()) == [False, True, True]
    for path, offset in offsets.items():
        if offset is not None:
            with open(_local(path), "rb") as file:
                found = BloomFilter.at(file, offset)
                assert found is not None
                assert found.blocks * 32 == 128  # bytes
                assert all(found.may_hold(file, [text.encode()]) for text in _texts(path, "u"))
    wanted = [keys[n] for n in (5, 150, 250)]
    pruned = [table.prune(f"u = '{key}'") for key in wanted]
    assert sum(one.counts["bloom"].files for one in pruned) >= 3  # of 4 that may be; one in a hundred each is wrong
    assert [table.read(filter=f"u = '{key}'").pylist()[0]["n"] for key in wanted] == [5, 150, 250]
    assert table.read(filter="u in ('00', 'zz')").count() == 0
    now(one, rule)
    one.land([event("u", 1_000, {"u": keys[0], "n": -1})])
    assert table.iceberg.properties[f"{ENABLED}u"] == "false"


def _offset(path: str) -> int | None:
    footer = pq.read_metadata(_local(path))
    place = next(n for n in range(footer.num_columns) if footer.schema.column(n).path == "u")
    offset: int | None = footer.row_group(0).column(place).bloom_filter_offset
    return offset


NUMBERS = [0.0, -0.0, 1.5, None]
TEXTS = ["", "äö", None, "a", "ab", "abc", "a\u0000"]


@long_only
@pytest.mark.parametrize(
    "by",
    [
        pytest.param("x", marks=long_only),
        "'bucket(3, id)', 'truncate(1, s)', x, day(t)",
        pytest.param("'truncate(2, s)', hour(t)", marks=long_only),
    ],
)
def test_rows_come_sorted_by_whatever_partitions_them(lake: Make, by: str) -> None:
    """Nulls and zeroes of both signs beside each other in what arrives."""
    one = lake(config(f"key: [id], columns: {{id: long, x: double, s: string, t: timestamp}}, partition_by: [{by}]"))
    rows = [
        {"id": n, "x": NUMBERS[n % 4], "s": TEXTS[n % 7], "t": None if n % 5 == 0 else (n % 3 - 1) * 86_400_000_000}
        for n in range(140)
    ]
    one.land([event("c", 10 + n, row) for n, row in enumerate(rows)])
    found = one.by_key("lake.t", "id")
    assert {n: (one["x"], one["s"]) for n, one in found.items()} == {one["id"]: (one["x"], one["s"]) for one in rows}
    one.land([event("d", 500 + n, None, before=row) for n, row in enumerate(rows) if n % 2])
    assert sorted(one.by_key("lake.t", "id")) == list(range(0, 140, 2))


KINDS = {
    "u": "uuid", "y": "binary", "m": "'decimal(10,2)'", "z": "timestamptz", "i": "int", "c": "time", "f": "float",
    "g": "double", "t": "timestamp", "b": "boolean",
}  # fmt: skip
# What is partitioned by as it is stands in capitals.
BY = [
    "'bucket(5, u)', 'bucket(3, y)', 'bucket(7, m)'", "U, Y, F", "'truncate(10, m)', hour(z), 'truncate(1, y)'",
    "'bucket(5, c)', 'bucket(4, z)', 'bucket(2, i)'", "C, Z, M", "G, T, day(z)", "Z, B, F",
]  # fmt: skip
MANY = times(30 if MUTANTS else 20, 60)  # rows; most are alone in their partition, with a file each


@few_cases(1)
@HOMES
@pytest.mark.parametrize("place", range(len(BY)))
def test_every_transform_of_every_type_sorts_rows_as_iceberg_partitions_them(
    lake: Make, monkeypatch: pytest.MonkeyPatch, place: int, home: str
) -> None:
    by = BY[place]
    commit_in(home, monkeypatch, events=MANY * 5 // 12)
    monkeypatch.setattr(by_partition, "WORTH", 8)
    columns = ", ".join(f"{name}: {kind}" for name, kind in KINDS.items())
    one = lake(config(f"key: [id], columns: {{id: long, {columns}}}, partition_by: [{by.lower()}]"))
    rows = [
        {
            "id": n, "u": str(uuid.UUID(int=n % 23 << 64 | n % 11)),
            "y": base64.b64encode(bytes([n % 13, n % 2])).decode(),
            "m": base64.b64encode((n % 31 * 105 - 600).to_bytes(2, signed=True)).decode(),
            "z": f"19{60 + n % 29}-02-03T0{n % 9}:00:00Z", "i": n % 17 - 8,
            "c": n % 10 * 3_600_000_000, "f": [0.0, -0.0, 0.5, "NaN"][n % 4],
            # Moments near 1970 are small numbers, that Java would hold otherwise.
            "g": [0.1, "Infinity", -0.0, "NaN", None][n % 5], "t": (n % 5 - 2) * 7, "b": [True, False, None][n % 3],
        }
        for n in range(MANY)
    ]  # fmt: skip
    one.land([event("c", 10 + n, row) for n, row in enumerate(rows)])
    said = one.line("lake.t")
    assert (said["merged"], said["way"]["lookup"]) == (MANY, home)
    assert home == "driver" or said["way"]["slices"] == 3
    assert sorted(found["id"] for found in one.rows("lake.t")) == list(range(MANY))
    if LONG:
        _are_where_iceberg_looks(one, by)
    # Every second row goes on to another partition.
    one.land([event("u", 500 + n, rows[(n + 1) % MANY] | {"id": n}) for n in range(0, MANY, 2)])
    assert sorted(found["id"] for found in one.rows("lake.t")) == list(range(MANY))
    _are_where_iceberg_looks(one, by)


def _are_where_iceberg_looks(one: Lake, by: str) -> None:
    """Iceberg reads rows of each partition, and a filter by a partition's value finds its rows."""
    one.spark.catalog.refreshTable("firn.lake.t")
    every = one.spark.table("firn.lake.t").collect()
    assert len(every) == MANY
    for name in (column.strip().lower() for column in by.split(", ") if column.isupper()):
        wrong = one.spark.sql(f"SELECT id FROM firn.lake.t WHERE NOT (_partition.{name} <=> {name})").collect()
        assert not wrong, (name, wrong[:3])
        cells = [bytes(row[name]) if isinstance(row[name], bytearray) else row[name] for row in every]
        # Iceberg tells the zeroes apart where it looks for files, and Spark looks for NaN otherwise.
        for value in list({cell for cell in cells if cell == cell and cell != 0.0})[:2]:
            found = one.spark.table("firn.lake.t").where(f.col(name).eqNullSafe(f.lit(value))).count()
            assert found == cells.count(value), (name, value)


@pytest.mark.parametrize("ways", ["driver", "slices"])
def test_a_table_that_spreads_its_files_over_folders_has_them_spread(
    lake: Make, monkeypatch: pytest.MonkeyPatch, ways: str
) -> None:
    commit_in(ways, monkeypatch)
    one = lake(config("key: [id], columns: {id: long, v: string}"))
    one.land([event("c", 10, {"id": 0, "v": "a"})])
    one.spark.sql("ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.object-storage.enabled' = 'true')")
    for n in range(1, 4):
        one.land([event("c", 10 + n, {"id": n, "v": "a"})])
    assert one.line("lake.t")["way"]["lookup"] == ways
    files = one.catalog.load_table(("lake", "t")).inspect.data_files()["file_path"].to_pylist()
    assert len({path.rpartition("/")[0] for path in files}) == 4
    assert sorted(row["id"] for row in one.rows("lake.t")) == [0, 1, 2, 3]
