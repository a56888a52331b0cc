"""Versions of the map of a table's shards as JSON: what is read back, and what is refused with which words."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from firn.changes.decode.types import INT, LONG, STRING
from firn.changes.merge.fold import Row
from firn.changes.placement.map_changes import admit, merge, move, split
from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion, decode, encode
from firn.config.sharding import Sharding
from tests.property.random_shards import VALUES, first_map, next_map

TENANTS = Sharding("tenant", "w", "{shard}.orders", values={"a": "a"}, most=5, kind=STRING)
RANGES = Sharding("range", "n", "{shard}.orders", at=("10",), kind=LONG)


def second(of: Sharding = TENANTS) -> MapVersion:
    first = MapVersion(of.map)
    if of is RANGES:
        return first.next(split(first.map, "s1", "new", of.home("new"), at=20), "2026-01-01T00:00:00.000Z", "why")
    return first.next(admit(first.map, {"b": of.home("b")}), "2026-01-01T00:00:00.000Z", "why")


def test_any_map_is_read_back_as_it_was() -> None:
    dice = random.Random(1)
    for number in range(400):
        first = first_map(dice, "w")
        one = MapVersion(first)
        rows = {(i,): Row({"w": value}, b"\1a") for i, value in enumerate(VALUES[first.kind])}
        for _ in range(3):
            after = next_map(dice, one.map, rows)
            if after is not one.map and after.homes["rest"] == first.homes["rest"]:
                one = one.next(after, "2026-01-01T00:00:00.000Z", f"{number}")
        told = {"hash": {"count": 1}, "range": {"at": ("1",)}, "geographic": {"values": {"x": "y"}}}
        of = Sharding(first.by, "w", "{shard}.orders", kind=first.kind, most=first.most, **told.get(first.by, {}))  # type: ignore[arg-type]
        if one.number > 1:
            assert decode(encode(one), of, one.number) == one
            assert decode(encode(one), replace(of, kind=None)) == one


def test_tables_that_are_left_are_remembered_until_they_are_shards_again() -> None:
    one = second()
    moved = one.next(move(one.map, "a", Home("x.y")), "", "")
    merged = moved.next(merge(moved.map, ["b"], "a"), "", "")
    assert (one.left, moved.left, merged.left) == (set(), {"a.orders"}, {"a.orders", "b.orders"})
    back = merged.next(move(merged.map, "a", Home("a.orders")), "", "")
    assert (back.left, back.ever) == ({"x.y", "b.orders"}, {"a.orders", "x.y", "b.orders", "rest.orders"})
    assert list(map(str, back.tables.values())) == ["a.orders", "rest.orders"]


def test_a_column_may_be_promoted_and_the_number_of_tenants_follows_the_rule() -> None:
    of = replace(RANGES, kind=INT)
    first = MapVersion(of.map)
    data = encode(first.next(split(first.map, "s1", "new", of.home("new"), at=20), "", ""))
    assert decode(data, RANGES).map.kind == LONG
    with pytest.raises(ValueError, match=r"is of a column of long, and firn.yaml declares it int"):
        decode(encode(second(RANGES)), of)
    assert decode(encode(second()), replace(TENANTS, most=9)).map.most == 9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 3}, "has format 3: update this side"),
        ({"format": "1"}, "is no version of a map of shards"),
        ({"version": 1}, "calls itself version 1"),
        ({"version": 3}, "calls itself version 3"),
        ({"by": "geographic"}, "is of geographic(w), else rest, and firn.yaml says tenant(w), else rest"),
        ({"column": "x" * 1000}, "and firn.yaml says tenant(w)"),
        ({"rest": "other"}, "else other, and firn.yaml says"),
        ({"type": "no type"}, "'no type' is no type"),
        ({"type": "long"}, "is of a column of long, and firn.yaml declares it string"),
        ({"homes": {"a": "a.orders", "b": "b.orders", "rest": "elsewhere.orders"}}, "stays in rest.orders"),
        ({"homes": {"a": "a.orders", "b": "A.orders", "rest": "rest.orders"}}, "would both lie in"),
        ({"homes": {"a": "a.orders", "rest": "rest.orders"}}, "shards without a home, or homes of none: ['b']"),
        ({"homes": {"a": "a", "b": "b.orders", "rest": "rest.orders"}}, "names no namespace"),
        ({"homes": {f"s{n}": f"s{n}.x" for n in range(200)}}, "it has 200 shards"),
        ({"values": {"a": "../x"}}, "homes of none"),
        ({"values": None}, "neither bounds with their shards, nor values alone"),
        ({"at": [1], "shards": ["a", "b"]}, "neither bounds"),
        ({"left": ["x"]}, "names no namespace"),
        ({"left": 7}, "is no version of a map of shards"),
    ],
)
def test_what_is_no_version_of_this_rule_says_why(change: dict[str, Any], words: str) -> None:
    data = json.dumps(json.loads(encode(second())) | change)
    with pytest.raises(ValueError, match=r".") as error:
        decode(data, TENANTS, 2)
    assert words in str(error.value)
    assert len(str(error.value)) < 700


@pytest.mark.parametrize("at", [["x"], [True], [2**63], [20, 10], [10], [None], [1.5]])
def test_bounds_that_are_none_are_refused(at: list[Any]) -> None:
    data = json.dumps(json.loads(encode(second(RANGES))) | {"at": at})
    with pytest.raises(ValueError, match=r"."):
        decode(data, RANGES)


@pytest.mark.parametrize("data", ["", "null", "[" * 100_000, "{}", b"\xff", "x" * 17_000_000])
def test_what_is_no_document_is_refused(data: str | bytes) -> None:
    with pytest.raises(ValueError, match="is no version of a map of shards"):
        decode(data, TENANTS)


def test_a_table_has_at_most_a_hundred_shards() -> None:
    first = MapVersion(TENANTS.map)
    with pytest.raises(ValueError, match="102 shards, and a table has at most 100"):
        first.next(admit(first.map, {f"t{n}": TENANTS.home(f"t{n}") for n in range(100)}), "", "")


def test_warehouses_are_kept_and_only_who_knows_them_reads_them() -> None:
    of = replace(TENANTS, warehouses={"a": "eu"})
    assert json.loads(encode(second()))["format"] == 1, "who knows none reads what has none"
    one = second(of)
    two = one.next(move(one.map, "b", Home("x.y", "us")), "", "")
    told = json.loads(encode(two))
    assert (told["format"], told["warehouses"]) == (2, {"a": "eu", "b": "us"})
    assert decode(encode(two), of, 3) == two
    for odd, words in (({"a": "s3://x"}, "no name of a warehouse"), ({"z": "eu"}, "a warehouse of 'z', which is no")):
        with pytest.raises(ValueError, match=words):
            decode(json.dumps(told | {"warehouses": odd}), of)
    with pytest.raises(ValueError, match="that stays in rest"):
        decode(json.dumps(told | {"warehouses": {"rest": "eu"}}), of)
