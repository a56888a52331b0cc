"""What is a dead letter gives no column another type and makes none, in both homes of the engine and in fresh reads."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.decode.row_decoder import Decoding
from firn.ingest import accept
from firn.status.stream_status import stream_statuses
from firn_lake.fresh.fresh_tables import Fresh
from firn_lake.tables import history, list_tables
from firn_spark.merge import column_decoder
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson
from tests.integration.spark.test_commit import config, event, letters
from tests.soak import few_cases

pytestmark = pytest.mark.spark

GOOD = [
    event("c", 10, {"id": 1, "n": 1, "m": "a"}),
    event("u", 20, {"id": 1, "n": 2, "m": "b"}, {"id": 1, "n": 1}),
    event("c", 30, {"id": 2, "n": 3}),
]
BAD = [
    event("c", 40, {"id": "x", "n": 2.5, "odd": 1}),  # not its key's type
    event("u", 41, {"id": 1, "n": "9.99", "price": "many"}),  # not the declared column's
    event("c", 42, {"id": 3, "m": 1, "huge": 1e300}),  # below: a number that nothing holds
]
NO_KEY = event("c", 43, {"n": 7, "m": "c", "odd": 2})


def take(lake: Lake, events: Sequence[dict[str, Any]]) -> None:
    """Posts events, with 1e400 for 1e300."""
    lake.now += timedelta(seconds=1)
    body = ndjson(list(events)).replace(b"1e+300", b"1e400")
    accept.accept(lake.store, lake.config, lake.stream, body, now=lake.now)


def kinds(lake: Lake) -> dict[str, str]:
    fields = lake.catalog.load_table("lake.t").schema().fields
    return {field.name: str(field.field_type) for field in fields if not field.name.startswith("_")}


@few_cases(1)
@HOMES
@pytest.mark.parametrize("mode", ["mirror", "append"])
def test_dead_letters_leave_the_columns_as_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, home: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    keyless = [NO_KEY] if mode == "mirror" else []  # to an append table a key is a value like others
    rule = f"mode: {mode}, key: [id], columns: {{id: long, price: 'decimal(5,2)'}}"
    types = {"id": "long", "price": "decimal(5, 2)", "n": "long", "m": "string"}

    def committed(name: str, *epochs: list[dict[str, Any]]) -> Lake:
        lake = Lake(spark, tmp_path / name, config(rule))
        for events in epochs:
            take(lake, events)
            assert lake.commit(lake.seal()) == 0, lake.lines
        return lake

    at_once = committed("at once", [*BAD, *keyless, *GOOD])
    apart = committed("apart", GOOD[:1], [*BAD, GOOD[1]], keyless + GOOD[2:])
    alone = committed("alone", GOOD)
    for lake in (at_once, apart, alone):
        assert kinds(lake) == types
        rows = [(row["id"], row["n"], row["m"]) for row in lake.rows("lake.t")]
        assert sorted(rows, key=str) == sorted(
            [(one["id"], one["n"], one["m"]) for one in alone.rows("lake.t")], key=str
        )
    for lake in (at_once, apart):
        expected = ["no_key"] * len(keyless) + ["type_mismatch"] * 3
        assert sorted(one.reason for one in letters(lake)) == expected
    take(apart, [*BAD, event("u", 50, {"id": 2, "n": 4})])
    fresh = Fresh(apart.catalog, apart.store).table(("lake", "t"))
    assert {field.name: str(field.field_type) for field in fresh.version.schema.fields if field.name in types} == types


def test_a_column_that_gets_another_type_shows_in_the_log_history_and_status(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path, config("key: [id], columns: {price: 'decimal(5,2)'}"))
    lake.land([event("c", 10, {"id": 1, "n": 1, "price": "AJY="})])
    lake.land([event("u", 20, {"id": 1, "n": 2.5, "price": "AJY="})])
    told = {"column": "n", "before": "long", "after": "double"}
    assert lake.line("lake.t")["retyped"] == (told,)
    lake.land([event("u", 30, {"id": 1, "n": 3, "price": 1e9})])
    assert "retyped" not in lake.line("lake.t"), "a declared column keeps its type"
    assert lake.line("lake.t")["dead"] == 1
    told_by = [one for one in history(lake.catalog.load_table("lake.t")) if one.retyped]
    assert [[str(each) for each in one.retyped] for one in told_by] == [
        [f"n is double, not long, since {told_by[0].time:%Y-%m-%d %H:%M} UTC"]
    ]
    [status] = [
        one for one in stream_statuses(lake.store, list_tables(lake.catalog), lake.now) if one.stream == lake.stream
    ]
    assert f"columns of lake.t got another type: {told_by[0].retyped[0]} (declare" in "".join(status.notes)


def test_changes_are_decoded_once_unless_a_dead_letter_would_alter_the_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_in("driver", monkeypatch)
    decoded: list[Sequence[str]] = []
    split = column_decoder.split

    def counting(parts: Any, decoding: Decoding) -> Any:
        decoded.append([column.name for column in decoding.columns])
        return split(parts, decoding)

    monkeypatch.setattr(column_decoder, "split", counting)
    lake = Lake(spark, tmp_path, config("key: [id], columns: {id: long}"))

    def landed(*events: dict[str, Any]) -> list[Sequence[str]]:
        decoded.clear()
        lake.land(list(events))
        return list(decoded)

    assert landed(event("c", 10, {"id": 1, "n": 1})) == [["id", "n"]], "the commit that makes the table"
    assert landed(event("c", 20, {"id": 2, "n": 2}), event("c", 21, {"id": "x", "n": 3})) == [["id", "n"]]
    assert landed(event("c", 30, {"id": 3, "n": 2, "m": 1})) == [["id", "n", "m"]], "a new column"
    assert landed(event("c", 40, {"id": 4, "n": 4}), event("c", 41, {"id": "x", "odd": 1})) == [
        ["id", "n", "m", "odd"], ["id", "n", "m"]
    ]  # fmt: skip
