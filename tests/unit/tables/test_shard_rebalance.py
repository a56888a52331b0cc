"""What firn shards rebalance plans: for maps and loads of every kind, something that makes sense and helps."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from firn.changes.decode.types import LONG, STRING
from firn.changes.placement.map_changes import copies
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn.changes.placement.shard_values import HASHES
from firn.config.sharding import MOST, Sharding
from firn.tables.shard_rebalance import Load, plan, weights

HASHED = Sharding("hash", "n", "{shard}.orders", count=4, kind=LONG)
RANGES = Sharding("range", "n", "{shard}.orders", at=("10", "20", "30"), kind=LONG)
TENANTS = Sharding("tenant", "w", "{shard}.orders", values={"a": "a", "b": "b"}, kind=STRING)
PLACES = Sharding("geographic", "w", "{shard}.orders", values={"de": "eu", "fr": "eu", "us": "us"}, kind=STRING)


class Values:
    """Shards whose columns have these values, and so many rows of each. `taken`: tables that are there."""

    def __init__(self, middle: Any = None, values: Mapping[str, int] | None = None, taken: str = "") -> None:
        self._middle, self._values, self._taken = middle, values or {}, taken

    def is_free(self, home: Home) -> bool:
        return home.table != self._taken

    def middle(self, _: str) -> Any:
        return self._middle

    def values(self, _: str) -> Mapping[str, int]:
        return self._values


def loads(shards: ShardMap, **rows: int) -> dict[str, Load]:
    return {name: Load(rows.get(name, 0)) for name in shards.shards}


def test_large_shards_are_split_in_halves_and_small_neighbours_are_merged() -> None:
    made = plan(HASHED.map, HASHED, loads(HASHED.map, s0=4_000, s1=90, s2=10, s3=500), Values())
    assert made.steps == ("split s0: s4", "merge s2 into s1", "merge s1 into s3")
    assert (made.moved, made.most, made.map.version) == (2_000 + 10 + 100, 2_300, 2)
    assert made.map.shards == {"s0", "s3", "s4", "rest"}
    made = plan(RANGES.map, RANGES, loads(RANGES.map, s0=10, s1=10, s2=10, s3=1_000), Values(middle=44))
    assert made.steps == ("split s3: s4 from 44", "merge s0 into s1", "merge s2 into s1")
    assert (made.map.of(43), made.map.of(44), made.map.of(25)) == ("s3", "s4", "s1")


def test_a_plan_ends_where_no_name_is_free() -> None:
    class Taken(Values):
        def is_free(self, home: Home) -> bool:
            return False

    made = plan(HASHED.map, HASHED, loads(HASHED.map, s0=4_000, s1=400, s2=400, s3=500), Taken())
    assert made.steps[0] == "split s0: s1003", "who makes a map of it says whose the name is"


def test_what_is_even_stays_and_what_can_not_be_split_is_told() -> None:
    even_loads = loads(HASHED.map, s0=100, s1=110, s2=90, s3=100)
    made = plan(HASHED.map, HASHED, even_loads, Values())
    assert (made.map, made.steps, made.left) == (HASHED.map, (), ())
    made = plan(RANGES.map, RANGES, loads(RANGES.map, s0=1_000), Values(), most=100)
    assert (made.steps[:1], made.left) == (
        ("merge s1 into s2",), ("s0: all of its rows have the same n",),
    )  # fmt: skip
    made = plan(HASHED.map, HASHED, loads(HASHED.map, rest=1_000, s0=300, s1=300, s2=300, s3=300), Values(), most=400)
    assert (made.steps, made.left) == ((), ("rest has what is null or odd, and can't be split",))
    with pytest.raises(ValueError, match="write 1 or more"):
        plan(HASHED.map, HASHED, even_loads, Values(), most=0)
    with pytest.raises(ValueError, match="--at-once: -5 rows would move; write 1 or more"):
        plan(HASHED.map, HASHED, even_loads, Values(), at_once=-5)


def test_no_table_that_is_there_becomes_a_shard() -> None:
    some = loads(HASHED.map, s0=4_000)
    assert plan(HASHED.map, HASHED, some, Values(taken="s4.orders")).steps[0] == "split s0: s5"
    look = Values(values={"acme": 700}, taken="acme.orders")
    assert plan(TENANTS.map, TENANTS, loads(TENANTS.map, rest=700), look, most=400).steps == (
        "split rest: s2 with acme",
    )


def test_a_small_shard_that_is_busy_counts_what_is_written_to_it() -> None:
    some = {"s0": Load(100, 900.0), "s1": Load(400, 50.0), "s2": Load(400, 50.0), "s3": Load(100), "rest": Load(0)}
    assert weights(some) == {"s0": 900, "s1": 400, "s2": 400, "s3": 100, "rest": 0}
    assert plan(HASHED.map, HASHED, some, Values(), most=800).steps == ("split s0: s4",)


def test_tenants_that_have_much_of_the_rest_get_shards_of_their_own() -> None:
    rows = {"a": 5, "acme": 700, "Umbrella": 650, "c": 10}
    made = plan(TENANTS.map, TENANTS, loads(TENANTS.map, a=100, b=100, rest=1_360), Values(values=rows), most=1_000)
    assert made.steps == ("split rest: acme with acme", "split rest: s3 with Umbrella")
    assert (made.map.of("acme"), made.map.of("Umbrella"), made.map.of("c")) == ("acme", "s3", "rest")
    rows = {"de": 60, "fr": 40}
    made = plan(PLACES.map, PLACES, loads(PLACES.map, eu=100, us=10), Values(values=rows), most=50)
    assert (made.steps, made.map.of("fr"), made.map.of("de")) == (("split eu: fr with fr",), "fr", "eu")
    made = plan(PLACES.map, PLACES, loads(PLACES.map, us=100), Values(values={"us": 100}), most=50)
    assert made.left == ("us: none of its values could be split off",)


def test_no_more_moves_at_once_than_is_said() -> None:
    some = loads(HASHED.map, s0=4_000, s1=3_000, s2=2_000, s3=1_000)
    made = plan(HASHED.map, HASHED, some, Values(), most=900, at_once=3_000)
    assert made.steps == ("split s0: s4", "split s2: s5")
    assert made.left == (
        "split s1: s5: about 1,500 rows more would move; plan again when these have",
        "split s3: s6: about 500 rows more would move; plan again when these have",
    )
    full = ShardMap(
        1, "hash", "n", LONG, Bands(even(MOST - 1), tuple(f"s{n}" for n in range(MOST - 1))), "rest",
        {name: Home(f"{name}.t") for name in (*(f"s{n}" for n in range(MOST - 1)), "rest")},
    )  # fmt: skip
    made = plan(full, HASHED, loads(full, s0=1_000, **{f"s{n}": 600 for n in range(1, MOST - 1)}), Values(), most=999)
    assert (made.steps, made.left) == ((), (f"split s0: s{MOST - 1}: a table has at most {MOST} shards",))


@pytest.mark.parametrize("seed", range(60))
def test_plans_for_anything_are_maps_that_help(seed: int) -> None:
    dice = random.Random(f"rebalance {seed}")
    of = dice.choice((HASHED, RANGES, TENANTS, PLACES))
    now = of.map
    for _ in range(4):
        some = {
            name: Load(dice.choice((0, 1, 50, 5_000)), dice.choice((None, 0.0, 7.5))) for name in sorted(now.shards)
        }
        look = Values(dice.choice((None, dice.randrange(40))), {"a": 40, "b": 9, "x": 3_000, "de": 5, "fr": 4, "": 1})
        made = plan(now, of, some, look, dice.choice((None, 1, 700)), dice.choice((100, 10**9)))
        assert made.map.homes[now.rest] == now.homes[now.rest]
        assert made.map.version == now.version + bool(made.steps)
        assert bool(copies(now, made.map)) == bool(made.steps)
        assert len(made.map.shards) <= MOST
        if isinstance(made.map.spread, Bands) and of.by == "hash":
            assert all(0 < one < HASHES for one in made.map.spread.at if isinstance(one, int))
        if isinstance(made.map.spread, Listed):
            assert made.map.spread.values.keys() >= (now.spread.values.keys() if isinstance(now.spread, Listed) else ())
        now = made.map


def test_no_row_leaves_its_warehouse() -> None:
    bands = Sharding(
        "range", "n", "{shard}.orders", at=("10", "20", "30"), kind=LONG, warehouses={"s2": "eu", "s3": "eu"}
    )
    made = plan(bands.map, bands, loads(bands.map, s0=10, s1=10, s2=10, s3=1_000), Values(middle=44))
    assert made.steps == ("split s3: s4 from 44", "merge s0 into s1"), "s1 and s2 are neighbours, in two warehouses"
    assert made.map.homes["s4"] == Home("s4.orders", "eu")
