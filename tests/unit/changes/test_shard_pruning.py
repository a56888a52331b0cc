"""Which shards a filter needs: all that a row which fits may be in, and few others."""

import random
from collections import Counter
from typing import Any

from firn.changes.decode.types import LONG
from firn.changes.placement.shard_map import Bands, ShardMap
from firn.changes.placement.shard_pruning import Sign, may_be, may_hold
from firn.changes.placement.shard_values import comparable
from tests.property.random_shards import ODD, VALUES, first_map, homes
from tests.soak import times

COMPARED: dict[Sign, Any] = {
    "=": lambda one, values: one == values[0],
    "in": lambda one, values: one in values,
    "<": lambda one, values: one < values[0],
    "<=": lambda one, values: one <= values[0],
    ">": lambda one, values: one > values[0],
    ">=": lambda one, values: one >= values[0],
    "null": lambda one, values: False,
}


def test_a_row_that_fits_is_in_none_of_the_shards_that_are_left_out() -> None:
    seen = Counter[str]()
    for seed in range(times(400, 20_000, 2_000)):
        dice = random.Random(seed)
        shards = first_map(dice, "w")
        sign = dice.choice(list(COMPARED))
        values = [comparable(shards.kind, one) for one in dice.sample(VALUES[shards.kind], 2 if sign == "in" else 1)]
        found = may_hold(shards, sign, [one for one in values if one is not None])
        assert shards.rest in found, "null and what was odd"
        for odd in ODD:
            assert (
                may_be(shards, odd, sign, [one for one in values if one is not None])
                or odd is None
                or (comparable(shards.kind, odd) is not None)
            ), "what was odd may have become anything"
        assert may_be(shards, None, sign, [one for one in values if one is not None]) == (sign == "null")
        for value in VALUES[shards.kind]:
            own = comparable(shards.kind, value)
            known = [one for one in values if one is not None]
            assert may_be(shards, value, sign, known) == COMPARED[sign](own, values)
            if COMPARED[sign](own, values):
                assert shards.of(value) in found, f"seed {seed}"
        seen[f"{shards.by} {sign}"] += len(shards.shards) - len(found)
    left = {name for name, count in seen.items() if count}
    ways = {f"{by} {sign}" for by in ("hash", "range", "geographic") for sign in ("=", "in", "null")}
    assert ways <= left
    assert {"range <", "range >", "range <=", "range >="} <= left


def test_a_bound_is_the_first_value_of_its_band() -> None:
    shards = ShardMap(
        1, "range", "n", LONG, Bands((10, 20), ("low", "mid", "high")), "rest", homes("low", "mid", "high", "rest")
    )
    assert may_hold(shards, "<", [10]) == {"low", "rest"}
    assert may_hold(shards, "<=", [10]) == {"low", "mid", "rest"}
    assert may_hold(shards, ">", [19]) == {"mid", "high", "rest"}  # as for any type: no value lies between, nobody says
    assert may_hold(shards, ">=", [20]) == {"high", "rest"}
    assert may_hold(shards, "in", [1, 25]) == {"low", "high", "rest"}
