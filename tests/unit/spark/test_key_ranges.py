"""Slices of keys: each key is in one, whatever the sample said."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from firn_spark.slices.key_ranges import bounds_of, cut, ends_of

KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "long": (pa.int64(), lambda dice: dice.randrange(-50, 50)),
    "date": (pa.date32(), lambda dice: dice.randrange(-50, 50)),
    "string": (pa.string(), lambda dice: dice.choice(["", "a", "a\0", "aa", "Ä", "ä", "\U0001f600", "\ue000", "z"])),
}


def keys(dice: random.Random, kinds: tuple[str, ...], count: int) -> pa.Table:
    columns = [[KINDS[kind][1](dice) for _ in range(count)] for kind in kinds]
    arrays = [pa.array(some, KINDS[kind][0]) for kind, some in zip(kinds, columns, strict=True)]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(kinds))])


@pytest.mark.parametrize("kinds", [("long",), ("date",), ("string",), ("long", "string"), ("string", "date", "long")])
@pytest.mark.parametrize("seed", range(20))
def test_each_key_is_in_one_slice_and_slices_are_ranges(kinds: tuple[str, ...], seed: int) -> None:
    dice = random.Random(seed)
    bounds = bounds_of(keys(dice, kinds, dice.choice((0, 1, 5, 200))), dice.randrange(1, 12))
    rows = keys(dice, kinds, dice.choice((0, 1, 3, 400)))
    rows = rows.append_column("number", pa.array(range(len(rows)), pa.int64()))
    parts = list(cut(rows, bounds))
    assert sorted(n for _, part in parts for n in part["number"].to_pylist()) == list(range(len(rows)))
    firsts = [tuple(row.values()) for row in bounds.to_pylist()]
    assert firsts == sorted(set(firsts), key=_sortable)
    for number, part in parts:
        assert 0 <= number <= len(bounds)
        for row in part.drop_columns("number").to_pylist():
            key = _sortable(tuple(row.values()))
            assert number == 0 or _sortable(firsts[number - 1]) <= key
            assert number == len(bounds) or key < _sortable(firsts[number])
    some = pc.min_max(rows["c0"])
    ends = ends_of(bounds["c0"].to_pylist(), some["min"].as_py(), some["max"].as_py())
    for number, part in parts:
        low, high = ends[number]
        for value in part["c0"].to_pylist():
            assert low is None or _sortable((low,)) <= _sortable((value,))
            assert high is None or _sortable((value,)) <= _sortable((high,))


def _sortable(key: tuple[Any, ...]) -> list[Any]:
    """Texts by their UTF-8, as Iceberg compares them."""
    return [one.encode() if isinstance(one, str) else one for one in key]


def test_slices_take_about_as_many_keys_as_others() -> None:
    sample = pa.table({"c0": pa.array(random.Random(1).choices(range(10**6), k=20_000), pa.int64())})
    rows = pa.table({"c0": pa.array(random.Random(2).choices(range(10**6), k=50_000), pa.int64())})
    sizes = [len(part) for _, part in cut(rows, bounds_of(sample, 10))]
    assert len(sizes) == 10
    assert max(sizes) < 1.2 * 5_000


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_bounds_of_many_keys_rise_and_a_plan_by_others_is_refused(kind: pa.DataType) -> None:
    for seed in range(100):
        some = random.Random(seed).choices(range(2**40), k=1_000)
        found = bounds_of(pa.table({"c0": pa.array(some, pa.int64()).cast(kind)}), 40)["c0"].to_pylist()
        assert found == sorted(set(found))
        assert len(found) == 39
    with pytest.raises(ValueError, match="don't rise"):
        ends_of([1, 3, 2], 0, 4)


def test_a_sample_of_one_key_makes_few_slices() -> None:
    assert bounds_of(pa.table({"c0": pa.array([7] * 100, pa.int64())}), 10).to_pylist() == [{"c0": 7}]
