"""What `firn shards` makes of a map."""

from collections.abc import Callable

import pytest

from firn.changes.decode.types import LONG, STRING
from firn.changes.placement.shard_map import Home
from firn.config.map_document import MapVersion
from firn.config.reader import parse
from firn.config.sharding import Sharding
from firn.tables.shard_changes import fed_by_others, find, move, split

HASHED = Sharding("hash", "n", "{shard}.orders", count=2, kind=LONG)
RANGES = Sharding("range", "n", "{shard}.orders", at=("10",), kind=LONG)
TENANTS = Sharding("tenant", "w", "{shard}.orders", values={"a": "a"}, kind=STRING)
CONFIG = parse("""
streams:
  shop:
    tables:
      public.orders: {to: '{shard}.orders', key: [id], columns: {w: string}, shard: {by: tenant(w), tenants: [a]}}
      public.plain: {to: b.orders}
  web:
    tables:
      hits: {to: '{shard}.hits', key: [id], columns: {w: string}, shard: {by: tenant(w), most: 9}}
      more: {to: '{shard}.more', key: [id], columns: {w: string}, shard: {by: tenant(w), tenants: [a]}}
""")


def test_shards_are_split_by_what_their_map_has() -> None:
    assert split(TENANTS.map, TENANTS, "rest", "b", values=["b", "c"]).of("c") == "b"
    assert split(RANGES.map, RANGES, "s1", "high", at="20").of(20) == "high"
    assert split(HASHED.map, HASHED, "s1", "s2").shards == {"s0", "s1", "s2", "rest"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: split(TENANTS.map, TENANTS, "rest", "b", at="b"), "has no bounds; write --values"),
        (lambda: split(TENANTS.map, TENANTS, "rest", "../x", values=["b"]), "is no name of a shard"),
        (lambda: split(RANGES.map, RANGES, "s1", "x", values=["11"]), "lists no values; write --at"),
        (lambda: split(HASHED.map, HASHED, "s1", "x", at="11"), "split in halves; leave --at out"),
        (lambda: move(TENANTS.map, "rest", "x.y"), "stays in rest.orders"),
        (lambda: move(TENANTS.map, "a", "x"), "write namespace.table"),
        (lambda: move(TENANTS.map, "a", "x.t__deletes"), "a name of Firn's own"),
        (lambda: move(TENANTS.map, "a", "x." + "y" * 300), "a table's name has at most"),
        (
            lambda: find(CONFIG, "b.orders"),
            "'b.orders' names no table of several shards; there are: rest.hits, rest.more, rest.orders, shop",
        ),
    ],
)
def test_what_makes_no_sense_says_what_to_write(change: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        change()
    assert words in str(error.value)


def test_a_table_is_found_by_what_it_is_read_as_too() -> None:
    assert find(CONFIG, "shop.orders") == find(CONFIG, "rest.orders")


def test_a_table_that_another_rule_feeds_is_no_shard() -> None:
    _, _, shards = find(CONFIG, "rest.orders")
    now = MapVersion(shards.map)
    assert fed_by_others(CONFIG, now, move(now.map, "a", "x.y")) is None
    told = fed_by_others(CONFIG, now, move(now.map, "a", "b.orders"))
    assert told == "b.orders is fed by public.plain of shop; write another name"


def test_a_table_that_is_a_shard_by_another_map_or_may_become_one_is_none_of_this() -> None:
    _, _, shards = find(CONFIG, "rest.orders")
    now, others = MapVersion(shards.map), {"rest.more": frozenset({"x.y"})}
    for to, told in (
        ("X.y", "X.y is a shard of rest.more; write another name"),
        ("b.hits", "b.hits may become a shard of rest.hits; write another name"),
        ("B.hits", None), ("b.more", None), ("x.z", None), ("b.others", None),
    ):  # fmt: skip
        assert fed_by_others(CONFIG, now, move(now.map, "a", to), others) == told


def test_a_map_that_could_not_be_read_again_is_not_made() -> None:
    texts = Sharding("range", "w", "{shard}.orders", at=("m",), kind=STRING)
    now = MapVersion(texts.map)
    assert now.next(split(now.map, texts, "s1", "s2", at="x" * 1_000), "", "").number == 2
    with pytest.raises(ValueError, match="at most 16,000,000 can be read: write shorter bounds"):
        now.next(split(now.map, texts, "s1", "s2", at="x" * 16_000_000), "", "")


def test_a_table_that_was_a_shard_is_written_as_it_was() -> None:
    """Maps compare places in lower case, and what is made of one compares tables as they are written: whose rows come
    to a table that only seems to be there already would be left behind."""
    _, _, shards = find(CONFIG, "rest.orders")
    now = MapVersion(shards.map)
    away = now.next(move(now.map, "a", "x.y"), "", "")
    told = fed_by_others(CONFIG, away, move(away.map, "a", "A.orders"))
    assert told == "A.orders is or was a shard as a.orders, and some catalogs keep names in lower case; write it so"
    assert fed_by_others(CONFIG, away, move(away.map, "a", "a.orders")) is None


def test_what_all_shards_are_read_as_is_no_shard() -> None:
    _, _, shards = find(CONFIG, "rest.orders")
    now = MapVersion(shards.map)
    told = fed_by_others(CONFIG, now, move(now.map, "a", "Shop.orders"))
    assert told == "shop.orders is what all shards of rest.orders are read as; write another name"


REGIONS = Sharding(
    "geographic", "w", "{shard}.orders", values={"de": "eu", "fr": "eu", "us": "us"}, kind=STRING,
    warehouses={"eu": "frankfurt"},
)  # fmt: skip


def test_rows_stay_in_their_warehouse_unless_another_is_named() -> None:
    now = REGIONS.map
    assert split(now, REGIONS, "eu", "fr", values=["fr"]).homes["fr"] == Home("fr.orders", "frankfurt")
    assert split(now, REGIONS, "eu", "fr", values=["fr"], warehouse="paris").homes["fr"].warehouse == "paris"
    assert split(now, REGIONS, "eu", "fr", values=["fr"], warehouse="own").homes["fr"].warehouse == ""
    assert split(now, REGIONS, "rest", "jp", values=["jp"]).homes["jp"] == Home("jp.orders")
    later = Sharding("tenant", "w", "{shard}.orders", most=5, kind=STRING, warehouses={"b": "frankfurt"})
    assert split(later.map, later, "rest", "b", values=["b"]).homes["b"].warehouse == "frankfurt", "firn.yaml says it"
    assert move(now, "eu", "eu.more").homes["eu"] == Home("eu.more", "frankfurt")
    assert move(now, "us", "us.more", "ohio").homes["us"] == Home("us.more", "ohio")
    assert move(now, "eu", "eu.more", "own").homes["eu"] == Home("eu.more")
    with pytest.raises(ValueError, match="already; in another warehouse it needs a table of another name"):
        move(now, "us", "us.orders", "ohio")
    with pytest.raises(ValueError, match="'s3://x' is no name of a warehouse"):
        move(now, "us", "us.more", "s3://x")
