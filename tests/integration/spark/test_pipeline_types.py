"""The types of pipelines: what a dead letter does to those of the source, and outputs of all that streams have
(docs/pipelines.md)."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters
from tests.soak import few_cases

pytestmark = pytest.mark.spark

CONFIG = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t: {to: lake.t, key: [id], columns: {m: long}}
    pipelines:
      clean: {sql: 'INSERT INTO lake.clean SELECT id, n FROM app.t'}
"""


@few_cases(1)
@pytest.mark.parametrize("at_once", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("home", ["driver", "slices"])
def test_a_dead_letter_may_widen_a_column_of_a_pipelines_source_and_loses_no_row(
    spark: SparkSession, tmp_path: Path, home: str, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if home == "slices" else "")
    lake = Lake(spark, tmp_path, CONFIG)
    good, bad = event("c", 1, {"id": 1, "n": 5, "m": 1}), event("c", 2, {"id": 2, "n": "x", "m": "no number"})
    for some in [[good, bad]] if at_once else [[good], [bad]]:
        lake.land(some)
    lake.land([event("c", 3, {"id": 3, "n": 6, "m": 2})])
    assert sorted((row["id"], row["n"]) for row in lake.rows("lake.t")) == [(1, 5), (3, 6)]
    assert sorted((row["id"], row["n"]) for row in lake.rows("lake.clean")) == [(1, "5"), (3, "6")]
    assert {letter.reason for letter in letters(lake)} == {"type_mismatch"}


PARTS = """warehouse: file:///x
catalog: {type: sql}
streams:
  spec:
    tables:
      app.t:
        to: lake.t
        key: [id]
        columns: {id: long, m: 'map<string, long>', f: 'fixed[3]', st: 'struct<a: map<int, fixed[2]>, b: uuid>',
          li: 'list<map<date, string>>'}
      app.plain: {to: lake.both, mode: append, columns: {id: long, f: 'fixed[3]', m: 'map<string, long>'}}
    pipelines:
      appended: {sql: "INSERT INTO lake.appended SELECT id, m, f, st, li, MAP {'n': id} AS q FROM app.t"}
      mirrored: {sql: "INSERT INTO lake.mirrored SELECT id AS k, m, f, st, li, m['a'] AS a FROM app.t", mode: mirror}
      both: {sql: "INSERT INTO lake.both SELECT id, encode(text) AS f, m FROM app.t"}
"""
UUID = "00000000-0000-0000-0000-000000000007"


def parts(number: int, text: str = "abc") -> dict[str, Any]:
    """A row of the source as plain JSON has it."""
    return {
        "id": number, "m": {"a": number, "b": None}, "f": "YWJj", "st": {"a": [[number, "YWI="]], "b": UUID},
        "li": [{"2026-01-02": "x"}, None], "text": text,
    }  # fmt: skip


@pytest.mark.parametrize("home", ["driver", "slices"])
def test_outputs_have_every_type_that_streams_have(
    spark: SparkSession, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if home == "slices" else "")
    lake = Lake(spark, tmp_path, PARTS)
    lake.land([event("c", 1, {"id": 20, "f": "YWJj", "m": {"z": 1}}, table="plain")])
    lake.land([event("c", n, parts(n)) for n in (2, 3)] + [event("c", 4, parts(4, "four"))])
    assert letters(lake) == [], "the column of the target is one of any bytes from then on"
    both = {row["id"]: (row["f"], row["m"]) for row in lake.rows("lake.both")}
    assert both == {
        20: (b"abc", [("z", 1)]),
        **{n: (b"four" if n == 4 else b"abc", [("a", n), ("b", None)]) for n in (2, 3, 4)},
    }
    lake.land([event("u", 10, parts(2) | {"m": {"a": 9}, "li": None}), event("d", 11, None, {"id": 4})])
    told = {
        row["k"]: (row["m"], row["f"], row["st"]["a"], str(row["st"]["b"]), row["a"], row["li"])
        for row in lake.rows("lake.mirrored")
    }
    assert told == {
        2: ([("a", 9)], b"abc", [(2, b"ab")], UUID, 9, None),
        3: ([("a", 3), ("b", None)], b"abc", [(3, b"ab")], UUID, 3, [[(date(2026, 1, 2), "x")], None]),
    }
    appended = sorted(((row["id"], row["q"], row["f"]) for row in lake.rows("lake.appended")), key=repr)
    assert appended == [*((n, [("n", n)], b"abc") for n in (2, 2, 3)), *((4, [("n", 4)], f) for f in (None, b"abc"))]
    kinds = {one.name: str(one.field_type) for one in lake.catalog.load_table(("lake", "mirrored")).schema().fields}
    assert (kinds["m"], kinds["f"]) == ("map<string, long>", "binary")
