"""Plain rows, committed in both homes: a mirror holds what the specification says, an append table each row once."""

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.changes.merge.fold import RowChange, fold
from firn.changes.positions import field_position, order_key, position
from firn.ingest import accept
from firn.ingest.replay import Choice, replay
from firn.log import published_configs
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import START, Lake, ndjson
from tests.integration.spark.test_commit import letters
from tests.soak import few_cases, long_only, seeds

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def config(settings: str = "") -> str:
    return (
        f"streams:\n  spec:\n    envelope: rows\n    op_field: gone\n    delete_when: [true]\n{settings}    tables:\n"
        "      users: {to: web.users, key: [id]}\n      clicks: {to: web.clicks, mode: append}\n"
    )


def some(dice: random.Random) -> Row:
    """A row, or the delete of one."""
    row: Row = {"id": dice.randrange(25), "at": dice.randrange(30), "v": dice.randrange(1_000)}
    if dice.random() < 0.25:
        return row | {"gone": True}
    row |= {"name": dice.choice(["Ada", "Grace", "__debezium_unavailable_value", None]), "n": dice.randrange(3)}
    return {name: value for name, value in row.items() if name != "n" or dice.random() < 0.8}


def known(row: Row, place: bytes | None) -> RowChange:
    """The row as the specification knows it."""
    text = json.dumps(row, ensure_ascii=False)
    op = "d" if "gone" in row else "c"
    order = order_key(place, op, (f"{text}\0None\0" if op == "d" else f"None\0{text}\0").encode())
    return RowChange(op, (row["id"],), place, order, None if op == "d" else row, frozenset(), "users")


@few_cases(1)
@HOMES
@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("settings", ["", "    order_by: [at, v]\n"], ids=["by arrival", "by two fields"])
def test_a_mirror_of_rows_equals_the_specification(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, seed: int, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    dice = random.Random(f"{settings} {seed}")
    lake = Lake(spark, tmp_path, config(settings))
    told: list[RowChange] = []
    sent: list[Row] = []
    for _ in range(3):
        for _ in range(dice.randrange(1, 5)):
            rows = [some(dice) for _ in range(dice.randrange(1, 40))]
            rows += dice.choices(sent, k=3) if sent else []
            sent += rows
            # Ingest's clocks differ: what comes later may have come before by them.
            when = START + timedelta(seconds=dice.randrange(3_000))
            done = accept.accept(lake.store, lake.config, "spec", ndjson(rows), now=when, table="users")
            assert (done.accepted, done.rejected) == (len(rows), 0)
            for number, row in enumerate(rows):
                came = f'["{done.batch_id.rpartition(".")[2]}",{number}]'
                by_field = field_position([json.dumps(row)], ("at", "v"), "c", 0)
                told.append(known(row, by_field if settings else position("rows", "c", came, 0)))
        lake.now = START + timedelta(hours=2)
        assert lake.commit(lake.seal()) == 0, lake.lines
        columns = ("id", "at", "name", "n")
        expected = {key[0]: [row.values.get(c) for c in columns] for key, row in fold({}, told).rows.items()}
        found = lake.rows("web.users")
        assert {row["id"]: [row.get(c) for c in columns] for row in found} == expected
        assert len(found) == len(expected)
    assert letters(lake) == []
    assert lake.line("web.users")["way"]["lookup"] == home


@HOMES
def test_an_append_table_has_each_row_of_each_request(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    one = lake(config())
    row = {"id": 1, "of": {"a": [1, 2]}, "value": None, "key": "k", "schema": {}, "payload": {"x": 1}}
    for key in ("first", "first", "second"):
        one.now += timedelta(seconds=1)
        body = ndjson([row, row])
        accept.accept(one.store, one.config, "spec", body, now=one.now, table="clicks", key=key)
    assert one.commit(one.seal()) == 0, one.lines
    found = one.rows("web.clicks")
    assert len(found) == 4, "two rows of two requests; the repeat of the first is none"
    assert {name: found[0].get(name) for name in row} == {
        "id": 1, "of": '{"a": [1, 2]}', "value": None, "key": "k", "schema": "{}", "payload": '{"x": 1}',
    }  # fmt: skip
    assert len({row["_firn_id"] for row in found}) == 4


@long_only  # test_lake_contract.py: a dead letter gives no column another type
@HOMES
def test_what_can_not_be_placed_gives_no_column_another_type(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    one = lake(config("    order_by: version\n"))

    def land(*rows: Row) -> None:
        one.now += timedelta(seconds=1)
        accept.accept(one.store, one.config, "spec", ndjson(list(rows)), now=one.now, table="users")
        assert one.commit(one.seal()) == 0, one.lines

    def kinds() -> dict[str, str]:
        schema = one.catalog.load_table("web.users").schema()
        return {field.name: str(field.field_type) for field in schema.fields if not field.name.startswith("_")}

    land({"id": "x", "version": "abc", "odd": 1})  # alone, before there is a table
    land({"id": 1, "version": 1, "n": 1}, {"id": 2, "version": "abc", "n": "text", "more": 1})
    assert kinds() == {"id": "long", "version": "long", "n": "long"}
    land({"id": 1, "version": None, "n": 2.5}, {"id": 1, "version": 2, "n": 3})
    assert kinds() == {"id": "long", "version": "long", "n": "long"}
    assert [(row["id"], row["version"], row["n"]) for row in one.rows("web.users")] == [(1, 2, 3)]
    assert [letter.reason for letter in letters(one)] == ["bad_position"] * 3
    land({"id": 1, "version": 1, "n": 0.5})  # older, and still a change of the table
    assert kinds()["n"] == "double"


@HOMES
def test_the_text_of_a_row_is_never_that_of_another_which_is_deleted_at_its_place(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """Else the row would be the second half of a move, which lacks what it looks like it lacks."""
    commit_in(home, monkeypatch, events=40)
    one = lake(config("    order_by: at\n"))
    text = "__debezium_unavailable_value"
    told = [{"id": 1, "at": 1, "name": "secret"}], [{"id": 1, "at": 2, "gone": True}, {"id": 9, "at": 2, "name": text}]
    for rows in told:
        one.now += timedelta(seconds=1)
        accept.accept(one.store, one.config, "spec", ndjson(rows), now=one.now, table="users")
    assert one.commit(one.seal()) == 0, one.lines
    assert [(row["id"], row["name"]) for row in one.rows("web.users")] == [(9, text)]


def refused_and_replayed(
    one: Lake, messages: list[list[Row]], tables: list[str | None], settings: str, more: str = ""
) -> None:
    """Commits queue messages of which the first is refused, and then its replay under other settings."""
    done = accept.accept_messages(
        one.store, one.config, "spec", [ndjson(rows) for rows in messages], tables=tables, now=one.now
    )
    assert (done.accepted, done.rejected) == (len(messages) - 1, 1)
    one.now += timedelta(seconds=1)
    assert one.commit(one.seal()) == 0, one.lines
    one.config = published_configs.publish(one.store, config(settings) + more)

    def clock() -> datetime:
        one.now += timedelta(seconds=1)
        return one.now

    assert [each.still for each in replay(one.store, one.config, "spec", Choice(), clock=clock)] == [Counter()]
    assert one.commit(one.seal()) == 0, one.lines


@HOMES
def test_the_rows_of_a_message_that_comes_back_take_no_place_of_those_behind_it(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    one = lake(config())
    first: list[Row] = [{"t": "users", "id": 7}, {"t": "users", "id": 1}]
    refused_and_replayed(one, [first, [{"id": 1, "gone": True}]], [None, "users"], "    table_by: t\n")
    assert [row["id"] for row in one.rows("web.users")] == [7]


@HOMES
def test_a_message_that_comes_back_is_for_the_table_that_it_named(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=40)
    one, by = lake(config("    table_by: kind\n")), "    table_by: kind\n"
    people = "      people: {to: web.people, key: [id]}\n"
    refused_and_replayed(one, [[{"id": 1, "kind": "clicks"}], [{"id": 5}]], ["people", "users"], by, people)
    assert [row["id"] for row in one.rows("web.people")] == [1]
