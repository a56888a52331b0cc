"""A column's type does not depend on how its changes were split over epochs."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.log import published_configs
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters, with_schema
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark

EVENTS = [
    event("c", 10, {"id": 1, "v": 7, "w": 1, "n": 3, "flag": True, "big": 2**60, "f": "NaN"}),
    event("c", 11, {"id": 2, "v": 8, "w": 2, "n": 4, "flag": False, "big": 5, "f": 3}),
    event("u", 12, {"id": 1, "v": GONE, "w": 1.5, "n": 5, "flag": "maybe", "big": 0.5, "f": 2.5}),
    event("c", 13, {"id": 3, "v": "text", "w": 3, "n": 6, "flag": None, "big": None, "f": "-Infinity"}),
    event("u", 14, {"id": 2, "v": GONE, "w": 4, "n": 7, "flag": True, "big": 6, "f": 4}),
]


def rows(lake: Lake) -> dict[Any, dict[str, Any]]:
    return {key: {k: v for k, v in row.items() if k[0] != "_"} for key, row in lake.by_key("lake.t", "id").items()}


@long_only
def test_one_epoch_or_one_for_each_change_give_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    at_once, one_by_one = Lake(spark, tmp_path / "a", config()), Lake(spark, tmp_path / "b", config())
    at_once.land(EVENTS)
    for one in EVENTS:
        one_by_one.land([one])
    assert rows(one_by_one) == rows(at_once)
    assert rows(at_once)[1] == {"id": 1, "v": "7", "w": 1.5, "n": 5, "flag": "maybe", "big": "0.5", "f": 2.5}
    names = {field.name for field in one_by_one.catalog.load_table(("lake", "t")).schema().fields}
    assert not [name for name in names if name.endswith("__firn_new")]
    # What was held stays held under the column's new id: a late full change fills it.
    late = event("u", 13, {"id": 2, "v": "late", "w": 9, "n": 9, "flag": None, "big": None})
    one_by_one.land([late])
    assert rows(one_by_one)[2] == rows(at_once)[2] | {"v": "late"}


@long_only
@HOMES
def test_a_key_that_becomes_text_still_meets_its_rows_and_its_deletes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    at(home, monkeypatch)
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"})])
    lake.land([event("d", 20, None, {"id": 2})])
    lake.land([event("c", 30, {"id": "x", "v": "c"}), event("u", 31, {"id": 1, "v": "d"}), event("u", 15, {"id": 2})])
    assert {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()} == {"1": "d", "x": "c"}
    lake.land([event("u", 17, {"id": 2, "v": "late"})])
    assert lake.line("lake.t")["way"]["lookup"] == home
    assert len(lake.rows("lake.t")) == 2, "what was remembered before the key became text is found"
    lake.land([event("d", 40, None, {"id": "x"}), event("d", 41, None, {"id": 1})])
    lake.land(
        [event("u", 35, {"id": "x", "v": "late"}), event("u", 36, {"id": 1, "v": "late"}), event("u", 16, {"id": 2})]
    )
    assert lake.rows("lake.t") == [], "what was remembered before the key became text, and after it"


@few_cases(1)
@HOMES
@pytest.mark.parametrize(
    ("key", "logged"),
    [
        (50, True),
        ("fifty", False),
        pytest.param(50, False, marks=long_only),
        pytest.param("fifty", True, marks=long_only),
    ],
)
def test_the_row_that_a_move_took_away_is_found_when_its_columns_got_another_type(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, key: Any, *, logged: bool
) -> None:
    """`logged`: whether the staged log still tells it too."""
    at(home, monkeypatch)
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10 + n, {"id": n, "v": 7.5, "w": 1, "at": "x"}) for n in range(5)])
    lake.land([event("u", 20 + n, {"id": n, "v": GONE, "w": 2, "at": "y"}) for n in range(2)])
    staged = sorted((tmp_path / "staging" / "staged").rglob("*.parquet"))
    lake.land([event("d", 30 + n, None, {"id": n}) for n in range(5)])
    lake.land([event("c", 40, {"id": key, "v": "text", "w": "text", "at": "z"})])
    for path in () if logged else staged:
        path.unlink()
    # Late halves of moves.
    lake.land([event("c", 30 + n, {"id": 10 + n, "v": GONE, "w": 3, "at": GONE}) for n in range(5)])
    assert lake.line("lake.t")["way"]["lookup"] == home, lake.line("lake.t")
    found = {key: (one["v"], one["w"], one["at"]) for key, one in lake.by_key("lake.t", "id").items()}
    moved = {type(key)(10 + n): ("7.5", "3", "y" if n < 2 else "x") for n in range(5)}
    assert found == moved | {key: ("text", "text", "z")}


def at(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    said = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": said}


def list_of(field: str | dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": ({"type": field} if isinstance(field, str) else field) | {"optional": True}}


ZONED = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
MICROS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
DAYS = {"type": "int32", "name": "io.debezium.time.Date"}
UUID = {"type": "string", "name": "io.debezium.data.Uuid"}
UUIDS = ["0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5b-d9cb-469f-a165-70867728950f"]
# The Connect type of a column, and values of it: each of them is to become text.
TEXTS: dict[str, tuple[Any, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "small": ("int16", [-(2**15), 0]),
    "large": ("int64", [2**63 - 1, -(2**63)]),
    "single": ("float", [0.1, 16777216.0]),
    "odd_single": ("float", ["NaN", -0.0]),
    "double": ("double", [1e22, 1.5e-7]),
    "whole": ("double", [1.0, 1e16]),
    "odd_double": ("double", ["-Infinity", -0.0]),
    "price": (decimal(10, 2), ["AZo=", "ZA=="]),
    "huge": (decimal(38, 0), ["SztMqFqGxHoJiiI//////w==", "AA=="]),
    "precise": (decimal(12, 9), ["AQ==", "/w=="]),
    "beyond": (decimal(50, 3), ["AZo=", "ZA=="]),
    "day": (DAYS, [19000, -719_162]),
    "at": (MICROS, [1_700_000_000_120_000, -50_000_000_000_000_123]),
    "end": (MICROS, [253_402_300_799_999_999, -62_135_596_800_000_000]),
    "zoned": (ZONED, ["2024-01-01T10:00:00.5Z", "0385-07-25T01:00:00+05:30"]),
    "clock": ({"type": "int64", "name": "io.debezium.time.MicroTime"}, [86_399_999_999, 0]),
    "year": ({"type": "int32", "name": "io.debezium.time.Year"}, [1901, 2155]),
    "uuid": (UUID, UUIDS),
    "bytes": ("bytes", ["AAEC", ""]),
    "bits": ({"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "9"}}, ["AQA=", "/wE="]),
    "enum": ({"type": "string", "name": "io.debezium.data.EnumSet"}, ["a,b", ""]),
    "json": ({"type": "string", "name": "io.debezium.data.Json"}, ['{"a": 1.0}', "[1, 2]"]),
    "ints": (list_of("int32"), [[1, None, 3], []]),
    "texts": (list_of("string"), [["a", 'é"', None], [""]]),
    "doubles": (list_of("double"), [[1.0, 2.5, 1e22], ["NaN", None]]),
    "singles": (list_of("float"), [[0.1, None], [-0.0]]),
    "decimals": (list_of(decimal(10, 2)), [["AZo=", None], ["ZA=="]]),
    "uuids": (list_of(UUID), [UUIDS, [None]]),
    "days": (list_of(DAYS), [[19000, None], [-719_162]]),
    "moments": (list_of(ZONED), [["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", None], []]),
    "locals": (list_of(MICROS), [[1_700_000_000_120_000, None], [-50_000_000_000_000_123]]),
    "nested": (list_of(list_of("int32")), [[[1, None], [], None], []]),
}


def event_with(field: Any, number: int, values: dict[str, Any]) -> dict[str, Any]:
    """An event whose columns are of TEXTS' types; with `field`, all of that one type."""
    types = {name: (kind if field is None else field) for name, (kind, _) in TEXTS.items()}
    return with_schema(event("c", 10 + number, {"id": number, **values}), id="int32", **types)


@long_only
def test_text_is_the_same_whether_it_was_stored_before_or_comes_as_text(spark: SparkSession, tmp_path: Path) -> None:
    old = [event_with(None, n, {name: values[n] for name, (_, values) in TEXTS.items()}) for n in (0, 1)]
    none = event_with(None, 2, dict.fromkeys(TEXTS))
    new = event_with("string", 3, dict.fromkeys(TEXTS, "text"))
    at_once, split = Lake(spark, tmp_path / "a", config()), Lake(spark, tmp_path / "b", config())
    at_once.land([*old, none, new])
    for part in ([*old, none], [new], [old[0] | {"payload": old[0]["payload"] | {"op": "u"}}]):
        split.land(part)
    assert not letters(at_once)
    assert not letters(split)
    assert rows(split) == rows(at_once)
    assert set(map(type, rows(split)[0].values())) == {int, str}


def test_a_float_that_becomes_a_double_has_the_digits_that_it_had(spark: SparkSession, tmp_path: Path) -> None:
    def one(number: int, field: Any, value: Any, many: Any) -> dict[str, Any]:
        types = {"v": field, "many": list_of(field)}
        return with_schema(event("c", 10 + number, {"id": number, "v": value, "many": many}), id="int32", **types)

    events = [one(1, "float", 0.1, [0.1, None]), one(2, "double", 0.3, [0.3]), one(3, "string", "x", ["y"])]
    at_once, split = Lake(spark, tmp_path / "a", config()), Lake(spark, tmp_path / "b", config())
    at_once.land(events[:2])
    split.land(events[:1])
    split.land(events[1:2])
    assert rows(split) == rows(at_once)
    assert rows(split)[1] == {"id": 1, "v": 0.1, "many": [0.1, None]}
    at_once.land(events[2:])
    split.land(events[2:])
    assert rows(split) == rows(at_once)
    assert rows(split)[1] == {"id": 1, "v": "0.1", "many": ["0.1", None]}


def test_maps_and_bytes_of_one_length_become_what_holds_them(spark: SparkSession, tmp_path: Path) -> None:
    columns = "key: [id], columns: {id: long, m: 'map<string, int>', t: 'map<date, timestamptz>', f: 'fixed[2]'}"
    lake = Lake(spark, tmp_path, config(columns))
    at = "2026-01-31T00:00:00.000001Z"
    lake.land([event("c", 10, {"id": 1, "m": {"a": 1, "b": None}, "t": [[1, at], [2, None]], "f": "AP8="})])
    columns = "key: [id], columns: {id: long, m: 'map<string, long>', t: string, f: binary}"
    lake.config = published_configs.publish(lake.store, config(columns))
    lake.land([event("c", 20, {"id": 2, "m": {"a": 2**40}, "t": {"1970-01-02": None}, "f": "AA=="})])
    assert rows(lake) == {
        1: {"id": 1, "m": [("a", 1), ("b", None)], "t": f'{{"1970-01-02":"{at}","1970-01-03":null}}', "f": b"\0\xff"},
        2: {"id": 2, "m": [("a", 2**40)], "t": '{"1970-01-02": null}', "f": b"\0"},
    }
    assert letters(lake) == []


@long_only
def test_maps_by_bytes_and_maps_within_others_become_their_text(spark: SparkSession, tmp_path: Path) -> None:
    kinds = "b: 'map<fixed[2], int>', l: 'list<map<binary, timestamptz>>'"
    kinds += ", s: 'struct<m: map<binary, int>, at: timestamptz>'"
    lake = Lake(spark, tmp_path, config(f"key: [id], columns: {{id: long, {kinds}}}"))
    at = "2026-01-31T00:00:00.000001Z"
    told = {"b": {"AP8=": 1, "AAA=": None}, "l": [{"AA==": at}, None], "s": {"m": {"AA==": 2}, "at": at}}
    lake.land([event("c", 10, {"id": 1} | told), event("c", 11, {"id": 2})])
    lake.config = published_configs.publish(
        lake.store, config("key: [id], columns: {id: long, b: string, l: string, s: string}")
    )
    lake.land([event("c", 20, {"id": 3})])
    found = rows(lake)
    assert {name: found[1][name] for name in told} == {
        "b": '{"AP8=":"1","AAA=":null}',
        "l": json.dumps([f'{{"AA==":"{at}"}}', None], separators=(",", ":")),
        "s": json.dumps({"m": '{"AA==":"2"}', "at": at}, separators=(",", ":")),
    }
    assert {found[n][name] for n in (2, 3) for name in told} == {None}
    assert letters(lake) == []


def test_a_table_that_has_lost_all_its_files_is_retyped(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, config())
    lake.land([event("c", 10, {"id": 1, "v": 1})])
    lake.spark.sql("DELETE FROM firn.lake.t")
    lake.land([event("c", 20, {"id": 2, "v": "x"})])
    assert {key: row["v"] for key, row in lake.by_key("lake.t", "id").items()} == {2: "x"}
