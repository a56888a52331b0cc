"""All shards read as one are, at every cut, what `fold` makes of the changes, on real tables with maps of each kind;
and what a filter leaves out, shards, files and row groups, holds no row that fits."""

import random
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.types import DATE, LONG, STRING, Type
from firn.config.sharding import Sharding
from tests.property.random_shards import next_map
from tests.row_conditions import conditions
from tests.sharded_lake import ShardedLake
from tests.soak import examples, few_cases, times

CONFIG = """
streams:
  shop:
    tables:
      public.orders: {to: '{shard}.orders', key: [id], columns: {w: %s}, shard: %s}
"""
WAYS: dict[str, tuple[Sharding, str, tuple[Any, ...]]] = {
    "tenant": (
        Sharding("tenant", "w", "{shard}.orders", values={"acme": "acme", "b": "b"}, kind=STRING),
        "{by: tenant(w), tenants: [acme, b]}",
        (None, "acme", "b", "Acme", "", "ab", "é"),
    ),
    "geographic": (
        Sharding("geographic", "w", "{shard}.orders", values={"1": "eu", "2": "eu", "-1": "us"}, kind=LONG),
        "{by: geographic(w), to: {1: eu, 2: eu, -1: us}}",
        (None, -1, 0, 1, 2, 3),
    ),
    "range": (
        Sharding("range", "w", "{shard}.orders", at=("-1", "1", "2"), kind=LONG),
        "{by: range(w), at: ['-1', '1', '2']}",
        (None, -2, -1, 0, 1, 2, 3),
    ),
    "hash": (
        Sharding("hash", "w", "{shard}.orders", count=3, kind=STRING),
        "{by: hash(w), count: 3}",
        (None, "acme", "b", "Acme", "", "ab", "é"),
    ),
    "days": (
        Sharding("range", "w", "{shard}.orders", at=("2026-01-01", "2026-02-01"), kind=DATE),
        "{by: range(w), at: ['2026-01-01', '2026-02-01']}",
        (None, date(2025, 12, 31), date(2026, 1, 1), date(2026, 1, 31), date(2026, 2, 1)),
    ),
}
ARROW: dict[Type, pa.DataType] = {STRING: pa.string(), LONG: pa.int64(), DATE: pa.date32()}


def stored(value: Any) -> Any:
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def made(folder: Path, way: str, seed: int) -> ShardedLake:
    """A lake whose shards went through random commits, some of which died half-way, while its map changed."""
    dice = random.Random(f"{way} {seed}")
    shards, text, values = WAYS[way]
    assert shards.kind is not None
    columns = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False), ("w", ARROW[shards.kind]), ("n", pa.int32()),
            ("s", pa.string()), ("b", pa.bool_()),
        ]
    )  # fmt: skip
    lake = ShardedLake(folder, shards, columns, CONFIG % (shards.kind, text))
    for _ in range(times(3, 12)):
        rows = [
            {
                "id": dice.randrange(12), "w": stored(dice.choice(values)), "n": dice.choice((None, 0, 1, 2)),
                "s": dice.choice((None, "", "a", "ab", "é")), "b": dice.choice((None, True, False)),
            }
            for _ in range(dice.randrange(1, 8))
        ]  # fmt: skip
        if dice.random() < 0.5:
            told = [stored(one) for one in values if one is not None]
            lake.remap(lambda now, told=told: next_map(dice, now, lake.rows, told))  # type: ignore[misc]
        dies = dice.randrange(3) if dice.random() < 0.3 else None
        lake.commit(*rows, deleted=[dice.randrange(12)], dies_after=dies)
    lake.commit()
    return lake


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ShardedLake]:
    return {way: made(tmp_path_factory.mktemp(way), way, times(1, 7)) for way in WAYS}


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**row, "w": stored(row["w"])} for row in rows), key=lambda row: row["id"])


@pytest.mark.parametrize("way", WAYS)
def test_at_every_cut_the_whole_is_what_fold_makes_of_the_changes(lakes: dict[str, ShardedLake], way: str) -> None:
    lake = lakes[way]
    table = lake.lake.table("shop.orders")
    assert len(lake.cuts) > 1
    for snapshot, wanted in lake.cuts:
        assert plain(table.read(as_of=snapshot).pylist()) == wanted
        assert table.read(as_of=snapshot).count() == len(wanted)
        sql = f"SELECT * FROM shop.orders FOR VERSION AS OF {snapshot}"
        assert plain(lake.lake.sql(sql).pylist()) == wanted
    assert plain(lake.lake.sql("FROM shop.orders").pylist()) == lake.cuts[-1][1]


@pytest.mark.parametrize("way", WAYS)
def test_changes_between_two_cuts_lead_from_the_one_to_the_other(lakes: dict[str, ShardedLake], way: str) -> None:
    lake = lakes[way]
    table = lake.lake.table("shop.orders")
    ((first, before), *_, (last, after)) = lake.cuts
    for start, steps in ((first, False), (first, True)):
        rows = {row["id"]: row for row in (before if start is not None else [])}
        for change in table.changes(start, last, steps=steps).pylist():
            told = {name: change[name] for name in lake.columns.names}
            (told,) = plain([told])
            if change["_change"] == "insert":
                assert rows.setdefault(told["id"], told) is told, "it was there already"
            elif change["_change"] == "delete":
                del rows[told["id"]]
            else:
                assert rows[told["id"]] == plain([change["_before"]])[0], "a row that moves is one update"
                rows[told["id"]] = told
        assert sorted(rows.values(), key=lambda row: row["id"]) == after


@pytest.mark.parametrize("way", WAYS)
def test_who_follows_it_and_stops_anywhere_has_the_rows_of_each_cut(lakes: dict[str, ShardedLake], way: str) -> None:
    lake = lakes[way]
    table = lake.lake.table("shop.orders")
    rows: dict[int, dict[str, Any]] = {}
    cursor: Any = None
    for snapshot, wanted in lake.cuts:
        for changes in table.follow(cursor, until=snapshot):
            for change in changes.pylist():
                (told,) = plain([{name: change[name] for name in lake.columns.names}])
                assert (told["id"] in rows) == (change["_change"] != "insert"), "a row that moves is one update"
                rows.pop(told["id"], None)
                rows |= {} if change["_change"] == "delete" else {told["id"]: told}
            cursor = changes.cursor.json()
        assert sorted(rows.values(), key=lambda row: row["id"]) == wanted


_TEXTS = ["s", "'a'", "''", "'ab'", "'é'"]
_NUMBERS = ["id", "n", "0", "1", "-1", "2", "9"]
_VALUES = {
    "tenant": ["'acme'", "'b'", "'Acme'", "''"], "hash": ["'acme'", "'b'", "'Acme'", "''"],
    "geographic": ["-1", "0", "1", "3"], "range": ["-2", "-1", "0", "1", "2"],
    "days": [f"DATE '{day}'" for day in ("2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01", "2027-01-01")],
}  # fmt: skip


def filters(way: str) -> st.SearchStrategy[str]:
    """Conditions that ask for the column of the shards, most of them beside others."""
    values = st.sampled_from(_VALUES[way])
    signs = st.sampled_from(["=", "=", "<>", "<", "<=", ">", ">="])
    own = st.one_of(
        st.builds("w {} {}".format, signs, values),
        st.builds("w {}IN ({}, {})".format, st.sampled_from(["", "", "NOT "]), values, values),
        st.sampled_from(["w IS NULL", "w IS NOT NULL"]),
    )
    others = conditions(1, _NUMBERS, _TEXTS, ["id", "n", "s", "b", "w"], "ab%_")
    joined = st.builds("({}) {} ({})".format, own, st.sampled_from(["AND", "OR", "AND NOT"]), own | others)
    return own | joined | others


SEEN = Counter[str]()
EVERYTHING: dict[str, pa.Table] = {}


@few_cases(2)
@given(st.data())
@settings(max_examples=min(examples(10, 80), 400), deadline=None)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_filter_leaves_out_holds_no_row_that_fits(
    lakes: dict[str, ShardedLake], way: str, data: st.DataObject
) -> None:
    lake = lakes[way]
    where = data.draw(filters(way))
    sql = "SELECT id FROM {} WHERE {} ORDER BY id"
    with duckdb.connect(":memory:") as connection:
        if way not in EVERYTHING:
            EVERYTHING[way] = lake.lake.table("shop.orders").read().arrow()
        connection.register("everything", EVERYTHING[way])
        wanted = [row[0] for row in connection.sql(sql.format("everything", where)).fetchall()]
    opened: list[tuple[str, ...]] = []
    found = query_ids(lake, sql.format("shop.orders", where), opened)
    assert found == wanted
    SEEN[way] += len(lake.under.tables) - len(set(opened))


def query_ids(lake: ShardedLake, sql: str, opened: list[tuple[str, ...]]) -> list[int]:
    from firn_lake.sharded.whole_names import WholeNames
    from firn_lake.sql.query import query

    found = query(lake.catalog, sql, on_read=opened.append, wholes=WholeNames(lambda: lake.store))
    return [row["id"] for row in found.to_pylist()]


def test_shards_were_left_out() -> None:
    if SEEN.keys() == WAYS.keys():
        assert min(SEEN.values()) > 0, SEEN
