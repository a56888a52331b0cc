"""Intervals of keys: each key is in one, and between them there is none."""

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from firn_spark.files.key_intervals import intervals_of

KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "long": (pa.int64(), lambda dice: dice.randrange(-(2**63), 2**63)),
    "near": (pa.int64(), lambda dice: dice.randrange(-20, 20)),
    "decimal": (pa.decimal128(20, 2), lambda dice: Decimal(dice.randrange(-(10**9), 10**9)) / 100),
    "string": (pa.string(), lambda dice: "".join(dice.choices("aä\0zÄ\U0001f600\ue000", k=dice.randrange(4)))),
    "binary": (pa.binary(), lambda dice: dice.randbytes(dice.randrange(4))),
    "time": (pa.time64("us"), lambda dice: dice.randrange(86_400 * 10**6)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_each_value_is_in_an_interval_and_its_ends_are_values(kind: str, seed: int) -> None:
    dice = random.Random(seed)
    type_, value = KINDS[kind]
    some = pa.array([value(dice) for _ in range(dice.choice((1, 2, 30, 300)))], type_)
    most = dice.choice((1, 2, 7, 64))
    found, values = intervals_of(some, most), some.to_pylist()
    assert 1 <= len(found) <= most
    assert {end for ends in found for end in ends} <= set(values)
    assert all(sum(low <= one <= high for low, high in found) == 1 for one in values)
    assert found == sorted(found)


def test_the_widest_gaps_are_left_out() -> None:
    numbers = pa.array([1, 2, 3, 1_000, 1_001, 50_000, 51_000], pa.int64())
    assert intervals_of(numbers, 3) == [(1, 1_001), (50_000, 50_000), (51_000, 51_000)]
    assert intervals_of(numbers, 4) == [(1, 3), (1_000, 1_001), (50_000, 50_000), (51_000, 51_000)]
    texts = pa.array(["user-a1", "user-a2", "user-k1", "user-z9"])
    assert intervals_of(texts, 3) == [("user-a1", "user-a2"), ("user-k1", "user-k1"), ("user-z9", "user-z9")]
