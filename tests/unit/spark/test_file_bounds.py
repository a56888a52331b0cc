"""Files between the least and the greatest key of a slice that hold none of its keys are not opened."""

import random
from typing import Any

import pyarrow as pa
import pytest

from firn.changes.decode.types import Column, Type
from firn_spark.files import file_bounds, row_lookup, values
from firn_spark.files.row_lookup import Files, Wanted

TEXTS = ["", "a", "abcdefghijklmnop", "abcdefghijklmnopq", "abcdefghijklmnoz", "é", "\U0001f600", "￿", "z" * 20]


def stored(value: Any, kind: Type, size: int) -> str:
    """A value as a manifest has it (Iceberg's single-value serialization), as its JSON tells it."""
    if isinstance(value, str):
        return value.encode().hex().upper()
    return (value if isinstance(value, bytes) else value.to_bytes(size, "little", signed=True)).hex().upper()


def said(low: Any, high: Any, kind: Type, size: int = 8) -> dict[str, Any]:
    return {
        "lower-bounds": {"keys": [7, 3], "values": ["FF", stored(low, kind, size)]},
        "upper-bounds": {"keys": [3], "values": [stored(high, kind, size)]},
    }


def cut(low: Any, high: Any, dice: random.Random) -> tuple[Any, Any]:
    """As Iceberg cuts long texts and bytes: what stays is below, or above, all that begins so."""
    if not isinstance(low, str) or dice.random() < 0.5:
        return low, high
    return low[:16], high[:15] + chr(ord(high[15]) + 1) if len(high) > 16 else high


@pytest.mark.parametrize("name", ["int", "long", "date", "timestamp", "timestamptz", "string", "binary"])
@pytest.mark.parametrize("seed", range(15))
def test_each_file_that_has_a_wanted_value_is_opened(name: str, seed: int) -> None:
    dice, kind = random.Random(f"{name}{seed}"), Type(name)
    some: list[Any] = list(range(-50, 50)) if name not in ("string", "binary") else TEXTS
    some = [text.encode() for text in TEXTS] if name == "binary" else some
    size = 4 if name in ("int", "date") else dice.choice((4, 8)) if name == "long" else 8
    files, ends = {}, {}
    for number in range(40):
        rows = dice.sample(some, dice.randrange(1, 4))
        order = str.encode if name == "string" else None
        low, high = min(rows, key=order), max(rows, key=order)
        files[str(number)] = rows
        if dice.random() < 0.9:
            told = file_bounds.ends_in(said(*cut(low, high, dice), kind, size), 3, kind)
            assert told is not None
            ends[str(number)] = told
    wanted = dice.sample(some, dice.randrange(1, 5))
    column = pa.array(wanted, values.key_type(kind))
    found = file_bounds.holding(list(files), ends, dice.choice((column, pa.chunked_array([column]))))
    needed = [path for path, rows in files.items() if set(rows) & set(wanted)]
    assert [path for path in found if path in needed] == needed
    if kind.name not in ("string", "binary"):
        assert found == [p for p in files if p not in ends or any(ends[p][0] <= one <= ends[p][1] for one in wanted)]


def test_what_tells_nothing_leaves_nothing_out() -> None:
    paths, some = ["a", "b"], pa.array([5], pa.int64())
    assert file_bounds.holding(paths, {}, some) == paths
    assert file_bounds.holding(paths, {"a": (6, 9)}, some) == ["b"]
    assert file_bounds.holding(paths, {"a": (1, 5), "b": (5, 9)}, some) == paths, "the ends are in"
    assert file_bounds.holding(paths, {"a": (6, 9)}, pa.array([None, 5], pa.int64())) == paths, "a null may be anywhere"
    long, text = Type("long"), Type("string")
    assert file_bounds.ends_in({}, 3, long) is None
    assert file_bounds.ends_in({"lower-bounds": {"keys": [3], "values": ["00" * 8]}}, 3, long) is None
    assert file_bounds.ends_in(said(1, 2, long, 2), 3, long) is None, "a bound of no type that became a long"
    torn = {"keys": [3], "values": ["é".encode()[:1].hex()]}
    assert file_bounds.ends_in({"lower-bounds": torn, "upper-bounds": torn}, 3, text) is None
    assert not any(file_bounds.are_told(Type(name)) for name in ("double", "uuid", "boolean"))


def test_a_file_without_keys_of_the_slice_is_not_opened() -> None:
    key = [Column("id", Type("long"))]
    wanted, ends = Wanted(key, some=[pa.array([1, 900], pa.int64())]), {"file:///none/a": (2, 899)}
    files = Files(wanted, ["file:///none/a"], ends=ends)
    assert row_lookup.read_columns(files, {"id": 1}, "p", b"") == []
    assert row_lookup.read(files, {"id": 1}, []).keys(key) == []
    before = Files(Wanted(key, between=(1, 900)), ["file:///none/a"], ends=ends)
    assert list(before.open()) == ["file:///none/a"], "the keys are not known yet"
