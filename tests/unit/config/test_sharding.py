"""What a rule says of shards."""

from typing import Any

import pytest

from firn.changes.decode.types import DATE, DOUBLE, LONG, STRING
from firn.changes.placement.shard_map import Bands, Home, Listed, even
from firn.config.sharding import Sharding, parse_by


def test_ways_to_shard_are_parsed() -> None:
    assert parse_by("hash(user_id)") == ("hash", "user_id")
    assert parse_by(" Tenant( `odd name` ) ") == ("tenant", "odd name")
    for text in ("hash", "hash()", "modulo(x)", "hash(a) b", ""):
        with pytest.raises(ValueError, match="write hash"):
            parse_by(text)


def test_each_way_makes_its_first_map() -> None:
    to = "{shard}.orders"
    hashed = Sharding("hash", "c", to, count=3).first_map(LONG)
    assert hashed.spread == Bands(even(3), ("s0", "s1", "s2"))
    assert hashed.homes["s1"] == Home("s1.orders")
    assert Sharding("range", "c", to, at=("2026-01-01",)).first_map(DATE).spread == Bands((20_454,), ("s0", "s1"))
    tenants = Sharding("tenant", "c", to, most=7).first_map(STRING)
    assert (tenants.spread, tenants.most, tenants.shards) == (Listed({}), 7, {"rest"})
    regions = Sharding("geographic", "c", "shop.orders_{shard}", values={"de": "eu"}, rest="other").first_map(STRING)
    assert (regions.of("de"), regions.of("us"), regions.homes["eu"]) == ("eu", "other", Home("shop.orders_eu"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"by": "hash"}, "write such as count: 8"), ({"by": "hash", "count": 10_000}, "write 1 to 9,999"),
        ({"by": "range"}, "write such as at"), ({"by": "geographic"}, "write such as to"),
        ({"by": "tenant", "count": 3}, "is a setting of hash, not of tenant"),
        ({"by": "tenant", "to": "shop.orders"}, "with {shard} in it"), ({"by": "tenant", "rest": "Else"}, "no name"),
        ({"by": "tenant", "warehouses": {"rest": "eu"}}, "rest leads all shards and lies in the deployment's own"),
        ({"by": "hash", "count": 2, "warehouses": {"s2": "eu"}}, "there is no shard 's2'; there are s0, s1, rest"),
        ({"by": "hash", "count": 2, "warehouses": {"s1": "s3://x"}}, "'s3://x' is no name of a warehouse; write a-z"),
        ({"by": "tenant", "most": 0, "warehouses": {"a": "eu"}}, "there is no shard 'a'"),
        ({"by": "tenant", "most": -1}, "write 0 to"), ({"by": "hash", "count": -1}, "write 1 to"),
    ],
)  # fmt: skip
def test_what_is_wrong_says_what_to_write(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sharding(**({"column": "c", "to": "{shard}.orders"} | settings))


@pytest.mark.parametrize(
    ("to", "kind", "words"),
    [
        ("{shard}", STRING, "write namespace.table"), ("shop.{shard}__deletes", STRING, "Firn's own"),
        ("{shard}.orders", DOUBLE, "shard by a column of"),
        ("shop." + "x" * 255 + "{shard}", STRING, "write a shorter"),
    ],
)  # fmt: skip
def test_what_only_the_map_finds_says_what_to_write(to: str, kind: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sharding("tenant", "c", to).first_map(kind)


def test_a_value_that_no_row_can_have_is_refused() -> None:
    regions = Sharding("geographic", "c", "{shard}.orders", values={"7": "eu", "007": "us"})
    assert regions.first_map(STRING).of("007") == "us"
    with pytest.raises(ValueError, match="'007' would meet no long; write '7'"):
        regions.first_map(LONG)
    with pytest.raises(ValueError, match="'de' is no long; write whole numbers"):
        Sharding("geographic", "c", "{shard}.orders", values={"de": "eu"}).first_map(LONG)


def test_shards_may_lie_in_warehouses_beside_the_deployments() -> None:
    told = {"values": {"de": "eu", "us": "us"}, "kind": STRING, "warehouses": {"eu": "frankfurt"}}
    regions = Sharding("geographic", "c", "{shard}.orders", **told)  # type: ignore[arg-type]
    assert regions.map.homes == {
        "eu": Home("eu.orders", "frankfurt"), "us": Home("us.orders"), "rest": Home("rest.orders")
    }  # fmt: skip
    tenants = Sharding("tenant", "c", "{shard}.orders", most=9, kind=STRING, warehouses={"acme": "frankfurt"})
    assert tenants.map.homes == {"rest": Home("rest.orders")}
    assert tenants.home("acme") == Home("acme.orders", "frankfurt"), "of tenants that come later too"
