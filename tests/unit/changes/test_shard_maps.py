"""Which shard a value is in, and what becomes of maps."""

import uuid
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DecimalType, LongType, PrimitiveType, StringType, UUIDType

from firn.changes.decode.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    NANOSECONDS,
    STRING,
    TIMESTAMP,
    UUID,
    Type,
    decimal,
)
from firn.changes.merge.fold import Row, RowChange
from firn.changes.placement.map_changes import Copy, admit, copies, made, merge, move, split, split_values, waiting
from firn.changes.placement.shard_decision import ShardedGround, decide_over
from firn.changes.placement.shard_map import Bands, Home, Listed, ShardMap, even
from firn.changes.placement.shard_values import HASHES, bound_of, bucket_hash, comparable
from tests.memory_table import MemoryShard, MemoryTable

DAY = 17_486  # 2017-11-16
MOMENT = 1_510_871_468_000_000  # 2017-11-16T22:31:08
UID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def homes(*names: str) -> dict[str, Home]:
    return {name: Home(f"{name}.orders") for name in names}


def banded(*at: Any, by: Any = "range", kind: Type = LONG) -> ShardMap:
    names = [f"s{i}" for i in range(len(at) + 1)]
    return ShardMap(1, by, "c", kind, Bands(at, tuple(names)), "rest", homes(*names, "rest"))


def listed(most: int = 0, **values: str) -> ShardMap:
    by: Any = "tenant" if most else "geographic"
    return ShardMap(1, by, "c", STRING, Listed(values), "rest", homes("rest", *values.values()), most)


# https://iceberg.apache.org/spec/#appendix-b-32-bit-hash-requirements
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (INT, 34, 2017239379), (LONG, 34, 2017239379), (decimal(9, 2), Decimal("14.20"), -500754589),
        (DATE, DAY, -653330422), (TIMESTAMP, MOMENT, -2047944441), (TIMESTAMP, MOMENT + 1, -1207196810),
        (NANOSECONDS[0], MOMENT * 1000 + 1001, -1207196810), (STRING, "iceberg", 1210000089),
        (UUID, UID, 1488055340), (BINARY, bytes(range(4)), -188683207),
    ],
)  # fmt: skip
def test_hashes_are_those_of_icebergs_specification(kind: Type, value: Any, expected: int) -> None:
    found = comparable(kind, value)
    assert found is not None
    assert bucket_hash(kind, found) == expected % HASHES


@pytest.mark.parametrize(
    ("kind", "theirs", "value"),
    [
        (LONG, LongType(), -7), (LONG, LongType(), 2**62), (STRING, StringType(), ""), (STRING, StringType(), "Ünter"),
        (decimal(38, 3), DecimalType(38, 3), Decimal("-123456789012345678901234567890.125")),
        (UUID, UUIDType(), "00000000-0000-0000-0000-000000000001"),
    ],
)  # fmt: skip
def test_a_hash_is_a_bucket_of_pyiceberg(kind: Type, theirs: PrimitiveType, value: Any) -> None:
    found = comparable(kind, value)
    assert found is not None
    bucket: Any = BucketTransform(num_buckets=4096).transform(theirs)
    assert bucket_hash(kind, found) % 4096 == bucket(uuid.UUID(value) if kind == UUID else value)


@pytest.mark.parametrize(
    ("kind", "bounds", "value", "shard"),
    [
        (LONG, (9, 10), 9, "s1"), (LONG, (9, 10), 100, "s2"), (LONG, (9, 10), -1, "s0"),
        (decimal(9, 2), (Decimal("9.00"), Decimal("10.00")), Decimal("9.99"), "s1"),
        (DATE, (DAY,), DAY - 1, "s0"), (TIMESTAMP, (MOMENT,), MOMENT, "s1"), (STRING, ("b",), "Z", "s0"),
        (STRING, ("\uffff",), "\U0001f600", "s1"),
    ],
)  # fmt: skip
def test_ranges_compare_as_the_columns_type_does(kind: Type, bounds: Any, value: Any, shard: str) -> None:
    assert banded(*bounds, kind=kind).place({"c": value}) == shard


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LONG, None), (LONG, True), (LONG, "9"), (LONG, 9.0), (LONG, 2**63), (STRING, 9), (STRING, "\ud83d"),
        (STRING, ["a"]), (decimal(9, 2), Decimal("NaN")), (decimal(9, 2), Decimal("0.001")), (TIMESTAMP, "2026-01-01"),
        (UUID, "f79c3e09"), (UUID, UID.upper()), (UUID, "x" * 36),
    ],
)  # fmt: skip
def test_what_is_odd_is_in_the_rest(kind: Type, value: Any) -> None:
    assert ShardMap(1, "hash", "c", kind, Bands((), ("s0",)), "rest", homes("s0", "rest")).of(value) == "rest"


def test_a_row_without_the_column_is_in_the_rest() -> None:
    assert banded(9).place({}) == "rest"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (LONG, "-10", -10), (DATE, "2017-11-16", DAY), (TIMESTAMP, "2017-11-16", DAY * 86_400_000_000),
        (TIMESTAMP, "2017-11-16T22:31:08", MOMENT), (NANOSECONDS[0], "2017-11-16T22:31:08", MOMENT * 1000),
        (decimal(9, 2), "9.5", Decimal("9.50")), (STRING, "2026", "2026"), (UUID, UID, UID),
        (decimal(38, 38), "0", Decimal("0E-38")),
    ],
)  # fmt: skip
def test_bounds_are_read_by_the_columns_type(kind: Type, text: str, expected: Any) -> None:
    assert bound_of(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (LONG, "1e3", "write whole numbers"), (LONG, "٣", "write whole numbers"), (LONG, str(2**63), "write whole"),
        (DATE, "2026-02-30", "write a day"), (TIMESTAMP, "monday", "write a moment"), (STRING, "\udc00", "a text"),
        (decimal(9, 2), "9.999", "no more digits"), (decimal(9, 2), "NaN", "no more digits"), (UUID, "7", "36"),
        (decimal(9, 2), "9" * 5_000, "no more digits"), (LONG, "", "write whole numbers"),
        (LONG, "9" * 5_000, "write whole numbers"),
    ],
)  # fmt: skip
def test_a_bound_that_is_none_says_what_to_write(kind: Type, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bound_of(kind, text)


def test_no_table_is_sharded_by_a_double() -> None:
    with pytest.raises(ValueError, match="shard by a column of"):
        banded(kind=DOUBLE)


def test_bounds_rise() -> None:
    for at in ((10, 9), (9, 9)):
        with pytest.raises(ValueError, match="bounds rise"):
            banded(*at)


def test_two_shards_in_one_table_are_refused_whatever_the_case_of_letters() -> None:
    with pytest.raises(ValueError, match="both lie in"):
        ShardMap(1, "hash", "c", LONG, Bands((), ("a",)), "rest", {"a": Home("x.t"), "rest": Home("X.T")})


def test_a_hash_is_split_in_halves_and_the_lower_one_stays() -> None:
    before = ShardMap(1, "hash", "c", LONG, Bands(even(2), ("s0", "s1")), "rest", homes("s0", "s1", "rest"))
    after = split(before, "s1", "new", Home("new.orders"))
    assert after.spread == Bands((HASHES // 2, HASHES // 4 * 3), ("s0", "s1", "new"))
    assert after.version == 2
    assert copies(before, after) == (Copy("s1", "new", whole=False),)
    assert made(before, after) == {"new"}


def test_a_range_is_split_at_a_bound_and_merged_again() -> None:
    before = banded(10)
    after = split(before, "s1", "new", Home("new.orders"), at=20)
    assert [after.of(value) for value in (9, 10, 19, 20)] == ["s0", "s1", "s1", "new"]
    back = merge(after, ["new", "s1"], "s1")
    assert (back.spread, back.homes, back.version) == (before.spread, before.homes, 3)
    assert copies(after, back) == (Copy("new", "s1", whole=True),)
    with pytest.raises(ValueError, match="on one side of 10"):
        split(before, "s1", "new", Home("new.orders"), at=10)


def test_a_shard_of_two_bands_is_split_between_them() -> None:
    apart = merge(banded(10, 20), ["s2"], "s0")
    after = split(apart, "s0", "new", Home("new.orders"), at=20)
    assert [after.of(value) for value in (0, 10, 20)] == ["s0", "s1", "new"]


def test_a_shard_that_is_moved_is_copied_as_it_is() -> None:
    before = banded(10)
    after = move(before, "s0", Home("elsewhere.orders"))
    assert copies(before, after) == (Copy("s0", "s0", whole=True),)
    with pytest.raises(ValueError, match="lies in elsewhere"):
        move(after, "s0", Home("elsewhere.orders"))
    with pytest.raises(ValueError, match="both lie in"):
        move(before, "s0", Home("S1.orders"))


def test_values_are_split_off_and_merged_into_the_rest() -> None:
    before = listed(de="eu", fr="eu", us="us")
    after = split_values(before, "eu", "france", Home("france.orders"), ["fr"])
    assert copies(before, after) == (Copy("eu", "france", whole=False),)
    back = merge(after, ["france"], "rest")
    assert back.of("fr") == "rest"
    assert copies(after, back) == (Copy("france", "rest", whole=True),)
    again = split_values(back, "rest", "france", Home("france.orders"), ["fr", "be"])
    assert again.of("be") == "france"
    for values, words in ((["us"], "is in us, not in eu"), (["de", "fr"], "are all values of eu"), ([], "no values")):
        with pytest.raises(ValueError, match=words):
            split_values(before, "eu", "x", Home("x.orders"), values)


def test_tenants_become_shards_by_a_rule_of_names_and_within_a_limit() -> None:
    now = listed(most=2)
    assert now.of("acme") == "rest"
    assert waiting(now, ["zoo", "acme", "b", None, 7]) == ("acme", "b")
    after = admit(now, homes("acme", "b"))
    assert (after.of("acme"), after.of("zoo"), waiting(after, ["zoo"])) == ("acme", "rest", ())
    assert copies(now, after) == (Copy("rest", "acme", whole=False), Copy("rest", "b", whole=False))
    for odd in ("Acme", "a" * 64, "", "../x", "rest", "a b", "é", "-1"):
        assert waiting(now, [odd]) == ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda now: merge(now, ["s0"], "s0"), "nothing to merge"), (lambda now: merge(now, ["rest"], "s0"), "stays"),
        (lambda now: merge(now, ["x"], "s0"), "there is no shard 'x'; there are rest, s0, s1"),
        (lambda now: split(now, "s0", "s1", Home("x.t"), at=1), "is a shard already"),
        (lambda now: split(now, "rest", "n", Home("x.t"), at=1), "on one side"),
        (lambda now: split(now, "s0", "n", Home("x.t")), "say at which c"),
        (lambda now: split(now, "s0", "N", Home("x.t"), at=1), "is no name of a shard"),
        (lambda now: split_values(now, "s0", "n", Home("x.t"), ["1"]), "say at which bound"),
        (lambda now: admit(now, homes("n")), "has no tenants"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wrong(banded(10))


def test_a_key_that_tells_its_shard_is_looked_up_there_alone() -> None:
    now = banded(10)
    rows = {(9, 1): Row({"c": 9, "k": 1, "v": 1}, b"\1a"), (10, 1): Row({"c": 10, "k": 1, "v": 1}, b"\1a")}
    shards = {
        "s0": MemoryShard({(9, 1): rows[9, 1]}),
        "s1": MemoryShard({(10, 1): rows[10, 1]}),
        "rest": MemoryShard({}),
    }
    change = RowChange("u", (10, 1), b"b", b"\1b", {"c": 10, "k": 1, "v": 2})
    told = {}
    for names in (("c", "k"), ("x", "k")):
        ground = ShardedGround(shards, MemoryTable(log=lambda _: []), now, names)
        decision = decide_over(ground, now, [change], [], [None])
        told[names] = {name: shard.asked for name, shard in shards.items()}
        assert decision.reached == {"s1"}
        assert decision.step("s1", shards["s1"].live).writes == {(10, 1): Row(change.values or {}, b"\1b")}
        shards = {name: MemoryShard(shard.live) for name, shard in shards.items()}
    assert told["c", "k"] == {"s0": [], "s1": [(10, 1)], "rest": []}
    assert told["x", "k"] == {name: [(10, 1)] for name in shards}


def test_a_row_in_two_shards_at_one_cut_is_said_at_once() -> None:
    row = {(1,): Row({"c": 1}, b"\1a")}
    ground = ShardedGround(
        {"s0": MemoryShard(row), "s1": MemoryShard(row), "rest": MemoryShard({})}, MemoryTable(), banded(10), ("k",)
    )
    with pytest.raises(ValueError, match="is in s0 and in s1"):
        ground.rows([(1,)], None)
