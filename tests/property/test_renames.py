"""A renamed column is one column: whichever name a change carries, and in whatever order configurations come."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.codec import DecodeSettings, RowCodec
from firn.changes.decode.row_decoder import READ, Decoding, MirrorDecoder
from firn.changes.decode.types import Column, Encoding, parse
from firn.config.model import TableRule
from firn.config.partitions import Partition
from firn.tables.planning import KeyChanged, plan_columns
from firn.tables.renames import RENAMES, Renames, renames_of
from tests.property.test_columnar import READ_SCHEMA, by_columns, one_by_one
from tests.soak import times

SETTINGS = DecodeSettings()
RENAMED = Renames({"now": ("then", "first"), "other": ("was",)})
COLUMNS = tuple(Column(name, parse("string"), source=Encoding("any")) for name in ("id", "now", 'quo"te', "other"))
NAMES = ["now", "then", "first", "other", "was", 'quo"te']
VALUES = st.none() | st.text(max_size=3) | st.integers(0, 9) | st.just("__debezium_unavailable_value")


def normal(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as the source would send it had it never renamed anything: the newest name that is there counts."""
    found = {"id": row["id"]} | ({'quo"te': row['quo"te']} if 'quo"te' in row else {})
    for column, earlier in RENAMED.earlier.items():
        for name in reversed((column, *earlier)):
            if name in row:
                found[column] = row[name]
    return found


def batch(rows: list[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]) -> pa.RecordBatch:
    empty = dict.fromkeys(READ) | {"epoch": 1, "batch": "b", "pos": b"p", "occurrence": 0, "flat": False}
    return pa.RecordBatch.from_pylist(
        [
            empty | {"index": i, "op": op, "ord": bytes([1, i]), "after": json.dumps(row)}
            | {"before": None if before is None else json.dumps(before)}
            for i, (op, row, before) in enumerate(rows)
        ],
        READ_SCHEMA,
    )  # fmt: skip


ROWS = st.fixed_dictionaries({"id": st.integers(1, 3)}, optional=dict.fromkeys(NAMES, VALUES))


@pytest.mark.parametrize("odd_names", [False, True])
@given(st.lists(st.tuples(st.sampled_from("cur"), ROWS, st.none() | ROWS), min_size=1, max_size=5))
@settings(max_examples=times(60, 5_000, 150), deadline=None)
def test_a_change_says_the_same_under_whichever_name(odd_names: bool, rows: list[Any]) -> None:
    columns = COLUMNS if odd_names else tuple(column for column in COLUMNS if '"' not in column.name)
    plan = RENAMED.told(plan_columns(columns, (), ()))
    plain = Decoding(plan_columns(columns, (), ()).columns, (0,), SETTINGS)
    renamed = Decoding(plan.columns, (0,), SETTINGS)
    as_sent = batch(rows)
    expected = one_by_one(
        batch([(op, normal(row), before and normal(before)) for op, row, before in rows]), plain, MirrorDecoder
    )
    assert one_by_one(as_sent, renamed, MirrorDecoder) == expected
    assert by_columns(as_sent, renamed, MirrorDecoder) == expected


@given(ROWS)
def test_a_column_of_the_old_name_that_is_there_too_gets_nothing_more(row: dict[str, Any]) -> None:
    there = (*COLUMNS, Column("was", parse("string"), source=Encoding("any")))
    decoded = RowCodec(RENAMED.told(plan_columns(there, (), ())).columns, None, SETTINGS).decode(
        json.dumps(row).encode()
    )
    only = RowCodec(RENAMED.told(plan_columns(COLUMNS, (), ())).columns, None, SETTINGS)
    assert decoded.values == [*only.decode(json.dumps(row).encode()).values, None]


CONFIGS: list[dict[str, str]] = [{}, {"b": "a"}, {"c": "b", "b": "a"}, {"c": "b"}, {"c": "a"}]


@given(st.lists(st.tuples(st.sampled_from(CONFIGS), st.sampled_from("abc")), max_size=8))
def test_no_older_configuration_brings_an_old_name_back(later: list[tuple[dict[str, str], str]]) -> None:
    # The table is made under the first configuration, and the newest has been committed once.
    columns, properties = {"a"}, dict[str, str]()
    for declared, name in [(CONFIGS[2], "c"), *later]:
        renames = renames_of(declared, properties)
        for old, new in renames.due(columns).items():
            columns = columns - {old} | {new}
        properties |= renames.properties()
        columns |= {renames.column(name)}
        assert len(columns) == 1, (columns, declared, name)
    final = renames_of(CONFIGS[2], properties)
    assert {final.due(columns).get(name, name) for name in columns} == {"c"}


@given(st.permutations([({"b": "a"}, "a"), ({"b": "a"}, "b"), ({}, "a"), ({"b": "a"}, "a")]))
def test_changes_of_before_may_come_in_any_order_once_it_is_declared(order: list[tuple[dict[str, str], str]]) -> None:
    columns, properties = {"id"}, dict[str, str]()
    for declared, name in order:
        renames = renames_of(declared, properties)
        for old, new in renames.due(columns).items():
            columns = columns - {old} | {new}
        properties |= renames.properties()
        columns |= {renames.column(name)}
    assert columns == {"id", "b"}


def test_a_name_that_comes_back_is_the_columns_again() -> None:
    there = renames_of({"b": "a"}, {})
    back = renames_of({"a": "b"}, there.properties())
    assert back.earlier == {"a": ("b",)}
    assert back.due({"b"}) == {"b": "a"}
    assert renames_of({}, back.properties()) == back


def test_a_rule_of_before_is_read_with_the_names_of_now() -> None:
    before = TableRule(
        "a.b", "s.b", partition_by=(Partition("day", "was"), Partition("bucket", "id", 4)), bloom=("first",)
    )
    now = RENAMED.rule(before)
    assert [str(one) for one in now.partition_by] == ["day(other)", "bucket(4, id)"]
    assert now.bloom == ("now",)
    assert RENAMED.rule(replace(before, bloom="key")).bloom == "key"
    assert Renames().rule(before) is before


def test_one_column_can_not_become_two() -> None:
    told = renames_of({"b": "a"}, {}).properties()
    with pytest.raises(
        KeyChanged, match="makes x and y of one column of the table, which has had the names a, b, x, y"
    ):
        renames_of({"x": "a", "y": "b"}, told)


def test_the_key_can_not_be_renamed() -> None:
    with pytest.raises(KeyChanged, match=r"renames names number, which is in the key \[number\]"):
        renames_of({"number": "id"}, {}).check_key(["number"])
    with pytest.raises(KeyChanged, match="renames names id, which"):
        renames_of({"number": "id"}, {}).check_key(["id"])


def test_without_renames_nothing_is_told_and_nothing_remembered() -> None:
    none = renames_of({}, {})
    plan = plan_columns(COLUMNS, (), ())
    assert not none
    assert none.told(plan) is plan
    assert (none.properties(), none.due(["a"]), none.column("a")) == ({}, {}, "a")
    assert json.loads(renames_of({"c": "b", "b": "a"}, {}).properties()[RENAMES]) == {"c": ["b", "a"]}


@pytest.mark.parametrize("name", ["now", "then", "first"])
def test_the_inline_schema_tells_how_the_column_is_written(name: str) -> None:
    target = RENAMED.told(plan_columns([Column("now", parse("date"))], (), ())).columns
    source = [Column(name, parse("date"), source=Encoding("date_days"))]
    # The setting says text, and the schema days.
    codec = RowCodec(target, source, DecodeSettings(time="isostring"))
    assert codec.decode(f'{{"{name}": 19000}}'.encode()).values == [19000]
